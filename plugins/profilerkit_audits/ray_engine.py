"""The engine of a cluster: each case is a task of Ray's, which runs it in a process of our own, with our own limits.

Ray's ``memory=`` only decides where a task may start, and Ray would restart a task that it ended for lack of memory.
So `profilerkit.isolation` sets the limits, on the node, and a failing model never fails a task. Only a task whose node
was lost is tried again, a few times, by this module and not by Ray.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    WorkerCrashedError,
)

from profilerkit.error_text import error_line
from profilerkit.errors import FailureCode

from .cases import Case
from .engine import Engine, EngineOptions, Outcome, without_run
from .machines import read_machine
from .ray_connection import Connection

#: Parts of Ray are not annotated.
ray: Any = import_module("ray")

#: How often a case is started again because its node was lost.
LOST_NODES = 3
#: How many cases wait at Ray's for each worker: enough that none is idle, and few enough that memory stays flat.
AHEAD = 2
#: Seconds between two looks at the nodes of the cluster.
LOOKING = 2.0
#: The most letters of a text of Ray's in a reason.
_LONGEST = 600
#: The errors that say that a node was lost. If a worker alone has died, its node said so and is there.
_LOST = (NodeDiedError, ObjectLostError, LocalRayletDiedError)
#: What other errors of a task say of its case, the first that fits.
_MEANINGS = (
    (OutOfMemoryError, FailureCode.MEMORY, "the cluster ended it, since its node had no memory left"),
    (WorkerCrashedError, FailureCode.LOST, "the worker of the cluster that watches over the model was killed"),
    (RayError, FailureCode.ENGINE, "the cluster could not run it"),
)


@dataclass(frozen=True)
class _Task:
    """A case submitted to Ray, how many CPUs of a node it claims, and the number of its nodes that were lost."""

    case: Case
    cpus: float
    lost_nodes: int = 0


class RayEngine(Engine):
    """Runs the cases on a cluster of Ray's, at ``address`` or on this machine; the latter ends with the audit.

    A case that measures times on a CPU takes all CPUs of a node, so that no other case runs there meanwhile. Any other
    case takes one CPU, and if it is for a GPU, one GPU. The rows have the machine that they were measured on.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._connection = Connection(options.address, options.workers)
        self._tasks: dict[Any, _Task] = {}  # that have not ended, by Ray's references
        self._run = ray.remote(max_retries=0)(_run_on_node)  # once: the cluster keeps every remote function

    @classmethod
    def location(cls, machine: str) -> str:
        """Return "ray", because the machine of a case is not known before it runs."""
        return "ray"

    def run(self, cases: Iterable[Case]) -> Generator[Outcome, None, None]:
        """Run the cases, and yield each outcome when it comes back."""
        waiting = iter(cases)
        with closing(self._connection):
            try:
                yield from self._fill(waiting)
                while self._tasks:
                    ready, _ = ray.wait(list(self._tasks), num_returns=1, timeout=LOOKING)
                    for reference in ready:
                        outcome = self._collect(reference)
                        if outcome is not None:
                            yield outcome
                    yield from self._follow_nodes()
                    yield from self._fill(waiting)
            finally:
                for reference in self._tasks:
                    _cancel(reference)

    def _fill(self, waiting: Iterator[Case]) -> Iterator[Outcome]:
        """Hand cases over to Ray, a few more than it can run at once; yield the outcomes of those that cannot run."""
        most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while len(self._tasks) < most:
            case = next(waiting, None)
            if case is None:
                return
            problem = case.problem or _find_problem(case)
            if problem:
                yield without_run(case, read_machine(), case.failure or FailureCode.ENGINE, problem)
            else:
                self._submit(case)

    def _submit(self, case: Case, lost_nodes: int = 0) -> None:
        """Hand a case over to Ray; the cluster may have other nodes than when it was handed over before."""
        self.tell_start(case)
        task = _Task(case, _count_cpus(case), lost_nodes)
        on_gpu = {} if case.device == "cpu" else {"num_gpus": 1}
        run = self._run.options(num_cpus=task.cpus, **on_gpu)
        self._tasks[run.remote(case, self.options.repeats)] = task

    def _follow_nodes(self) -> Iterator[Outcome]:
        """Handle the tasks that no node can run any more, because a node was lost: in Ray they would wait for ever.

        A task that waits for more CPUs than any node has is submitted again; a task that waits for a GPU fails if no
        node has a GPU.
        """
        if not self._tasks:
            return
        largest = max(_list_amounts("CPU"), default=0)
        _, unfinished = ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        for reference in unfinished:
            task = self._tasks[reference]
            problem = _find_problem(task.case)
            if not problem and (largest == 0 or task.cpus <= largest):
                continue
            _cancel(reference)
            del self._tasks[reference]
            if problem:
                yield without_run(task.case, read_machine(), FailureCode.ENGINE, problem)
            else:
                self._submit(task.case, task.lost_nodes)

    def _collect(self, reference: Any) -> Outcome | None:
        """Return the outcome of a task; None if the task is started again, because its node was lost."""
        task = self._tasks.pop(reference)
        case = task.case
        try:
            outcome: Outcome = ray.get(reference)
            return outcome
        except _LOST as error:
            lost_nodes = task.lost_nodes + 1
            if lost_nodes > LOST_NODES:
                return _fail(case, FailureCode.ENGINE, f"its node of the cluster was lost {lost_nodes} times", error)
            self._submit(case, lost_nodes)
            return None
        except RayError as error:
            code, reason = next((code, reason) for kind, code, reason in _MEANINGS if isinstance(error, kind))
            return _fail(case, code, reason, error)


def _cancel(reference: Any) -> None:
    """Take a task back, if its node and the cluster are there."""
    with suppress(RayError):
        ray.cancel(reference, force=True)


def _fail(case: Case, code: FailureCode, reason: str, error: Exception) -> Outcome:
    """Return the outcome of a task that ended without an outcome; both ends of Ray's text may say why it ended."""
    text = error_line(error)
    detail = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    return without_run(case, read_machine(), code, f"{reason}: {detail}")


def _count_cpus(case: Case) -> float:
    """Return how many CPUs a case claims: all CPUs of the largest node if the case is timed on a CPU, else one."""
    return max([1.0, *_list_amounts("CPU")]) if case.is_timed and case.device == "cpu" else 1


def _list_amounts(resource: str) -> list[float]:
    """Return the number of CPUs or GPUs of each node that is alive."""
    return [float(node["Resources"].get(resource, 0)) for node in ray.nodes() if node["Alive"]]


def _find_problem(case: Case) -> str:
    """Return why a case, which would wait for a GPU for ever, cannot run on this cluster; empty if it can."""
    if case.device == "cpu" or any(_list_amounts("GPU")):
        return ""
    return f"device={case.device!r}: no node of the cluster has a GPU; add one, or leave the device out of the plan"


# On a node ------------------------------------------------------------------------------------------------------------


def _run_on_node(case: Case, repeats: int) -> Outcome:
    """Run a case on the node that Ray has chosen, by the engine of one machine."""
    from .local_engine import LocalEngine

    with _without_threads_of_ray():
        return next(LocalEngine(EngineOptions(workers=1, repeats=repeats)).run([case]))


@contextmanager
def _without_threads_of_ray() -> Iterator[None]:
    """Remove the number of threads that Ray sets for a task; a number that the node was started with stays.

    A framework reads the number once, when it is imported: the number of the first task would hold for all later tasks
    of a warm interpreter. Without the number, models run on as many threads as without Ray.
    """
    name = "OMP_NUM_THREADS"
    value = None if _is_inherited(name) else os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value


def _is_inherited(name: str) -> bool:
    """Return whether this process was started with a variable; True where the system does not tell."""
    try:
        inherited = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:  # no Linux
        return True
    return any(variable.startswith(f"{name}=".encode()) for variable in inherited)
