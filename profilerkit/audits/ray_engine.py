"""The engine of a cluster: each case is a task of Ray's, which runs it in a process of our own, with our own limits.

Ray's ``memory=`` only decides where a task may start, and a task that Ray ends for lack of memory it would start again;
so the limits are those of `profilerkit.isolation`, on the node, and a task never fails for what a model does. Only a
task whose node was lost is tried again, a few times, by this module and not by Ray.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from ray.exceptions import NodeDiedError, ObjectLostError, RayError, WorkerCrashedError

from .cases import Case
from .engine import Engine, EngineOptions
from .machines import machine_facts
from .outcomes import Outcome, outcome_without_run
from .rows import End

__all__ = ["RayEngine"]

#: Parts of Ray are not annotated.
ray: Any = import_module("ray")

#: How often a case is started again because its node was lost.
LOST_NODES = 3
#: How many cases wait at Ray's for each worker: enough that none is idle, and few enough that memory stays flat.
AHEAD = 2
#: Seconds between two looks at which nodes there are.
LOOKING = 2.0
#: The errors that say that a node or Ray's worker was lost, and not that the model did something.
_LOST = (NodeDiedError, ObjectLostError, WorkerCrashedError)


@dataclass
class _Task:
    """A case at Ray's, and how often it has been started."""

    case: Case
    attempt: int = 1
    cpus: float = 1


class _Process:
    """What a connection to Ray changes in this process and leaves changed when it ends."""

    def __init__(self) -> None:
        self._variables = dict(os.environ)
        self._tracebacks = faulthandler.is_enabled()
        self._on_termination = signal.getsignal(signal.SIGTERM)

    def restore(self) -> None:
        """Set it as it was."""
        for name in set(os.environ) - set(self._variables):
            del os.environ[name]
        os.environ.update(self._variables)
        if faulthandler.is_enabled() and not self._tracebacks:
            faulthandler.disable()
        if threading.current_thread() is threading.main_thread() and self._on_termination is not None:
            signal.signal(signal.SIGTERM, self._on_termination)


class RayEngine(Engine):
    """Runs the cases on a cluster of Ray's: that at ``address``, or one on this machine that ends with the audit.

    A case that only counts takes one CPU of a node. One that measures times takes all CPUs of a node, so that nothing
    else of the audit runs there meanwhile. The rows have the machine that they were measured on.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._owns = not ray.is_initialized()
        self._before = _Process()
        if self._owns:
            cores = {"num_cpus": options.workers} if options.workers and options.address is None else {}
            ray.init(address=options.address, log_to_driver=False, include_dashboard=False, **cores)

    @classmethod
    def place(cls, machine: str) -> str:
        """Return "ray": nobody knows beforehand on which machine a case will run."""
        return "ray"

    def run(self, cases: Iterable[Case]) -> Generator[Outcome, None, None]:
        """Run the cases, and yield each outcome when it comes back."""
        waiting = iter(cases)
        tasks: dict[Any, _Task] = {}
        try:
            yield from self._fill(waiting, tasks)
            while tasks:
                ready, _ = ray.wait(list(tasks), num_returns=1, timeout=LOOKING)
                for reference in ready:
                    outcome = self._outcome(reference, tasks)
                    if outcome is not None:
                        yield outcome
                self._fit(tasks)
                yield from self._fill(waiting, tasks)
        finally:
            for reference in tasks:
                ray.cancel(reference, force=True)
            if self._owns:
                ray.shutdown()
                self._before.restore()

    def _fill(self, waiting: Iterator[Case], tasks: dict[Any, _Task]) -> Iterator[Outcome]:
        """Hand cases over to Ray, a few more than it can run at once."""
        most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while len(tasks) < most:
            case = next(waiting, None)
            if case is None:
                return
            if case.problem:
                yield outcome_without_run(case, machine_facts(), case.problem)
                continue
            self._submit(_Task(case), tasks)

    def _submit(self, task: _Task, tasks: dict[Any, _Task]) -> None:
        self.started(task.case)
        task.cpus = _cpus_of(task.case)
        on_gpu = {} if task.case.device == "cpu" else {"num_gpus": 1}
        run = ray.remote(num_cpus=task.cpus, max_retries=0, **on_gpu)(_run_on_node)
        tasks[run.remote(task.case, self.options.repeats)] = task

    def _fit(self, tasks: dict[Any, _Task]) -> None:
        """Hand over again what waits for more CPUs than any node has any more, since a node was lost."""
        largest = max(_node_cpus(), default=0)
        for reference, task in list(tasks.items()):
            if 0 < largest < task.cpus:
                ray.cancel(reference, force=True)
                del tasks[reference]
                self._submit(task, tasks)

    def _outcome(self, reference: Any, tasks: dict[Any, _Task]) -> Outcome | None:
        """Return what came of a task; None if its node was lost and it is tried again."""
        task = tasks.pop(reference)
        try:
            outcome: Outcome = ray.get(reference)
            return replace(outcome, case=task.case)
        except _LOST as error:
            if task.attempt <= LOST_NODES:
                self._submit(_Task(task.case, task.attempt + 1), tasks)
                return None
            return self._lost(task, error)
        except RayError as error:
            return self._lost(task, error)

    def _lost(self, task: _Task, error: Exception) -> Outcome:
        reason = f"its node of the cluster was lost {task.attempt} times: {' '.join(str(error).split())[:300]}"
        return outcome_without_run(task.case, machine_facts(), reason, End.ENGINE)


def _cpus_of(case: Case) -> float:
    """Return how many CPUs a case claims: all of a node if it is timed on a CPU, and of the largest if they differ."""
    return max([1.0, *_node_cpus()]) if case.timed and case.device == "cpu" else 1


def _node_cpus() -> list[float]:
    return [float(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]


def _run_on_node(case: Case, repeats: int) -> Outcome:
    """Run a case on the node that Ray has chosen, by the engine of one machine."""
    from .local_engine import LocalEngine

    return next(LocalEngine(EngineOptions(workers=1, repeats=repeats)).run([case]))
