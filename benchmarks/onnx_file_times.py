"""What a static profile of an ONNX file takes beside a run of it: ``python benchmarks/onnx_file_times.py FILE...``.

A profile is the whole call of ``profile(path)``: parameters, size, MACs, FLOPs, memory, layers. A run is the making of
a session of onnxruntime and its first pass; a warm pass is one of a session that has run. All of them with batch 1 and
the runtime's own number of threads. They take turns; before each the threads of the runtime, which wait for work by
spinning, come to rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from profilerkit import profile

STATIC = ["total_params", "model_size", "macs", "flops", "memory_footprint", "layerwise_data"]
#: Rounds that are measured, and the pause before each call in seconds.
ROUNDS, REST = 9, 0.03
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


class Seconds(NamedTuple):
    """The median seconds of some calls: by the clock, and of all processors, which others do not take."""

    clock: float
    processors: float


def time_in_turn(*calls: Callable[[], object]) -> list[Seconds]:
    """Return the seconds of calls that take turns, after one round that is not measured."""
    measured: list[list[tuple[float, float]]] = [[] for _ in calls]
    for _ in range(ROUNDS + 1):
        for call, seconds in zip(calls, measured, strict=True):
            time.sleep(REST)
            start = time.perf_counter(), time.process_time()
            call()
            seconds.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return [Seconds(*map(median, zip(*seconds[1:], strict=True))) for seconds in measured]


def make_session(path: str) -> Any:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def make_feeds(session: Any) -> dict[str, Any]:
    return {get_input.name: np.zeros(get_input.shape, DTYPES[get_input.type]) for get_input in session.get_inputs()}


def run_once(path: str) -> None:
    """Load a file and run it once, as a user does who wants its result."""
    session = make_session(path)
    session.run(None, make_feeds(session))


def time_file(path: str) -> list[Seconds]:
    """Return the seconds of a static profile of a file, of loading and running it once, and of a warm pass."""
    session = make_session(path)
    feeds = make_feeds(session)
    return time_in_turn(lambda: profile(path, metrics=STATIC), lambda: run_once(path), lambda: session.run(None, feeds))


def main(paths: list[str]) -> None:
    """Print a row for each file."""
    print("milliseconds by the clock (of all processors), and what a profile takes of a first run and of a warm pass\n")
    print(f"{'':<14}{'profile':>16}{'load and run':>16}{'warm pass':>16}{'/ first':>9}{'/ warm':>9}")
    for path in paths:
        profiled, first, warm = time_file(path)
        cells = "".join(
            f"{1e3 * item.clock:>8.0f} {f'({1e3 * item.processors:.0f})':>7}" for item in (profiled, first, warm)
        )
        ratios = f"{profiled.clock / first.clock:>9.2f}{profiled.clock / warm.clock:>9.2f}"
        print(f"{path.rpartition('/')[2].removesuffix('.onnx'):<14}{cells}{ratios}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
