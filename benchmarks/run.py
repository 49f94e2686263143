"""Run every benchmark and print its figures: ``make bench``.

Speed is never asserted; what is compared is measured in turn, in one run, and quoted as a ratio.
"""

from importlib.util import find_spec

import conventions
import import_time
import isolation
import layer_times
import static_trace
import timing
import torch_memory


def main() -> None:
    benchmarks = [import_time, conventions, static_trace, torch_memory, timing, layer_times, isolation]
    if find_spec("tensorflow"):
        import keras_trace
        import tensorflow_memory

        benchmarks += [keras_trace, tensorflow_memory]
    for benchmark in benchmarks:
        print(f"\n{benchmark.__doc__}".rstrip() + "\n")
        benchmark.main()


if __name__ == "__main__":
    main()
