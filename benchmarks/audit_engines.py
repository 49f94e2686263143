"""What an engine of audits costs for each model, and how much memory its driver needs for thousands of them.

``python benchmarks/audit_engines.py cost [MODELS]`` counts tiny models by each engine, and beside them by Python's
``ProcessPoolExecutor`` and bare tasks of Ray, which isolate, limit and store nothing. Seconds of all workers are
divided by the number of models; the start of an engine is left out by subtracting a run of a few models.
``python benchmarks/audit_engines.py memory [MODELS]`` prints the resident memory of the driver during an audit.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from profilerkit import profile
from profilerkit_audits import audit
from profilerkit_audits.running import Watch

WORKERS = 2
FEW = 4
METRICS = ["macs", "total_params"]
NETS = """
from profilerkit import LoadedModel
from profilerkit_numpy.layers import Sequential, activation, dense

def net():
    return LoadedModel(Sequential(dense(4, 3), activation(), dense(3, 2)), input_shape=(4,))
"""
#: What a fresh interpreter does besides: it imports all that a profile needs.
ALONE = """
from profilerkit import profile
from profilerkit_numpy.layers import Sequential, activation, dense
profile(Sequential(dense(4, 3), activation(), dense(3, 2)), input_shape=(4,), metrics=["macs", "total_params"])
"""


class Way(NamedTuple):
    """A way to profile many models.

    Attributes:
        name: What it is.
        run: Profiles so many models.
        factor: So many times as many models are measured, for ways that take less time a model.
        serves_many: Whether its processes serve many models each, and import once.
    """

    name: str
    run: Callable[[int], object]
    factor: int = 1
    serves_many: bool = False


def main() -> None:
    """Measure what the command line names."""
    what = sys.argv[1] if len(sys.argv) > 1 else "cost"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    if what == "memory":
        memory(count)
        return
    profile_seconds, imports = own_work(), import_seconds()
    print(
        f"a profile in a process that is there {profile_seconds:.4f} s, "
        f"in a fresh interpreter with its imports {imports:.3f} s"
    )
    print(f"{'':44} {'s a model':>10} {'beyond':>8}")
    for way in ways():
        number = seconds_a_model(way, count)
        beyond = number - (profile_seconds if way.serves_many else imports)
        print(f"{way.name:44} {number:10.3f} {beyond:8.3f}", flush=True)


def ways() -> list[Way]:
    """Return each way: the engines of audits, and beside them what isolates, limits and stores nothing."""
    engines = [
        Way("local, warm (forked)", audit_models, factor=5),
        Way("local, cold (a fresh interpreter)", lambda count: audit_models(count, warm=False)),
        Way("ProcessPoolExecutor, one process for all", lambda count: profile_in_pool(count, None), 25, True),
        Way("ProcessPoolExecutor, a fresh process each", lambda count: profile_in_pool(count, 1)),
    ]
    if find_spec("ray") is not None:
        engines += [
            Way("ray", lambda count: audit_models(count, engine="ray"), factor=5),
            Way("bare tasks of Ray", bare_ray, 25, True),
        ]
    return engines


def seconds_a_model(way: Way, count: int) -> float:
    """Return the seconds of a worker for each model, without the start of the engine."""
    more = count * way.factor
    few, many = seconds(way.run, FEW), seconds(way.run, FEW + more)
    return (many - few) * WORKERS / more


def seconds(run: Callable[[int], object], count: int) -> float:
    """Return how long a run of so many models takes."""
    begun = time.perf_counter()
    run(count)
    return time.perf_counter() - begun


def audit_models(count: int, engine: str = "local", warm: bool = True, watch: Watch | None = None) -> None:
    """Audit so many cases of one tiny model, each with another batch size."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "nets.py").write_text(NETS, encoding="utf-8")
        content: dict[str, Any] = {"metrics": METRICS, "workers": WORKERS, "warm": warm, "timeout": 60}
        models = [{"spec": f"{folder}/nets.py:net", "batch_size": list(range(1, count + 1))}]
        finished = audit({**content, "models": models}, Path(folder) / "runs.db", engine=engine, watch=watch)
        if finished.counts != {"complete": count}:
            others = [f"{row.settings}: {row.failure}, {row.reason}" for row in finished.rows() if row.reason]
            raise RuntimeError("\n".join(["the audit did not measure all models:", str(finished.counts), *others]))


def one(batch_size: int) -> float:
    """Profile the tiny model in this process, and return its multiply-accumulates."""
    from profilerkit_numpy.layers import Sequential, activation, dense

    model = Sequential(dense(4, 3), activation(), dense(3, 2))
    return float(profile(model, input_shape=(4,), batch_size=batch_size, metrics=METRICS)["macs"])


def profile_in_pool(count: int, tasks: int | None) -> None:
    """Profile by `ProcessPoolExecutor`; ``tasks`` is how many models a process serves, None for no limit."""
    with ProcessPoolExecutor(WORKERS, get_context("spawn"), max_tasks_per_child=tasks) as pool:
        list(pool.map(one, range(1, count + 1)))


def bare_ray(count: int) -> None:
    """Profile by tasks of Ray, whose processes serve many models."""
    import ray

    ray.init(address="local", num_cpus=WORKERS, log_to_driver=False, include_dashboard=False, logging_level="warning")
    try:
        task = ray.remote(one)
        ray.get([task.remote(number) for number in range(1, count + 1)])
    finally:
        ray.shutdown()


def own_work(repeats: int = 50) -> float:
    """Return the seconds of a profile of the tiny model in a process that has imported everything."""
    one(1)
    return seconds(lambda count: [one(number) for number in range(1, count + 1)], repeats) / repeats


def import_seconds(repeats: int = 5) -> float:
    """Return the median seconds of a fresh interpreter that imports what it needs and profiles the model."""
    times = [seconds(lambda _: subprocess.run([sys.executable, "-c", ALONE], check=True), 1) for _ in range(repeats)]
    return sorted(times)[repeats // 2]


def memory(count: int) -> None:
    """Print the resident memory of this process, in MiB, ten times during an audit."""
    begun = time.perf_counter()

    class Printer(Watch):
        def __init__(self) -> None:
            self.ended_count = 0

        def end(self, case: Any, row: Any) -> None:
            self.ended_count += 1
            if self.ended_count % max(1, count // 10) == 0:
                print(
                    f"{self.ended_count:7,} models {resident():7.1f} MiB {time.perf_counter() - begun:7.1f} s",
                    flush=True,
                )

    print(f"{0:7,} models {resident():7.1f} MiB")
    audit_models(count, watch=Printer())


def resident() -> float:
    """Return the resident memory of this process in MiB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (splitline for splitline in status.splitlines() if splitline.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
