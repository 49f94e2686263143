"""What ``import profilerkit`` takes beyond the interpreter's own start (asked for: under 60 ms)."""

import subprocess
import sys

from profilerkit.times.sampling import Sampling, measure_interleaved


def start_python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def main() -> None:
    """Start interpreters in turn, with and without the import, and print the difference of each pair."""
    statements = {"pass": "pass", "import profilerkit": "import profilerkit", "import numpy": "import numpy"}
    calls = [lambda code=code: start_python(code) for code in statements.values()]
    measured = measure_interleaved(calls, Sampling(num_iters=20, warmup=2))
    bare = measured[0]
    for name, measurement in zip(statements, measured, strict=True):
        pairs = zip(measurement.samples, bare.samples, strict=True)
        extra = sorted(1e3 * (sample - start) for sample, start in pairs)[len(bare.samples) // 2]
        print(f"{name:<22} {1e3 * measurement.median:7.1f} ms   {extra:+7.1f} ms beyond the interpreter's start")


if __name__ == "__main__":
    main()
