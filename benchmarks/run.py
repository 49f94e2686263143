"""Run every benchmark and print its figures: ``make bench``.

Speed is never asserted; what is compared is measured in turn, in one run, and quoted as a ratio.
"""

import import_time
import static_trace


def main() -> None:
    for benchmark in (import_time, static_trace):
        print(f"\n{benchmark.__doc__}".rstrip() + "\n")
        benchmark.main()


if __name__ == "__main__":
    main()
