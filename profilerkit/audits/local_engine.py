"""The engine of one machine: models are counted on all cores at the same time, and timed one at a time, alone."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ..errors import ProfilerKitError
from ..isolation.processes import cpu_seconds
from ..isolation.run import IsolatedRun, pump
from ..isolation.starting import start_server
from .cases import Case
from .engine import Engine, EngineOptions
from .machines import Busyness, machine_facts
from .outcomes import Outcome, noise_of, outcome_of, outcome_without_run, quietest
from .rows import End
from .turns import State, may_go, may_start

__all__ = ["LocalEngine", "usable_cores"]


@dataclass
class _Session:
    """A case in its process: counting, waiting for the machine, or being timed."""

    case: Case
    run: IsolatedRun
    tries: list[Outcome] = field(default_factory=list)
    state: State = State.COUNTING
    busyness: Busyness = field(default_factory=Busyness)
    cpu_before: float = 0.0
    beside: int = 0

    def wait(self) -> None:
        """Stop the process at its gate, until it may have the machine."""
        self.state = State.WAITING
        self.run.let(run=False)

    def go(self) -> None:
        """Let the process measure."""
        self.state, self.beside, self.busyness = State.TIMING, 0, Busyness()
        self.cpu_before = 0.0 if self.run.pid is None else cpu_seconds(self.run.pid)
        progress = self.run.progress
        progress.waiting, progress.turn = False, None
        self.run.send(go=True)
        self.run.let(run=True)

    def outcome(self, machine: dict[str, str]) -> Outcome:
        """Return what came of it, with how busy the machine was meanwhile."""
        total = None if self.run.ending is None else self.run.ending.cpu_seconds
        cpu = None if total is None else max(0.0, total - self.cpu_before)
        return outcome_of(self.run, self.case, machine, self.busyness.conditions(cpu, self.beside))


#: Cases that are run again, with their outcomes so far.
_Again: TypeAlias = "list[tuple[Case, list[Outcome]]]"


class LocalEngine(Engine):
    """Runs the cases on this machine.

    As many models as there are cores, or ``workers``, are counted at the same time. A model that has been counted waits
    at a gate, stopped, until nothing else runs; then its times are measured. A case whose times are noisy is run again,
    up to ``repeats`` times, and the quietest run counts.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self.workers = options.workers or usable_cores()
        self.machine = machine_facts()
        self._cold: set[tuple[str, ...]] = set()
        self._sessions: list[_Session] = []

    def run(self, cases: Iterable[Case]) -> Generator[Outcome, None, None]:
        """Run the cases, and yield each outcome when it is there."""
        waiting = iter(cases)
        again: _Again = []
        more = True
        try:
            while more or again or self._sessions:
                more = yield from self._start(waiting, again, more)
                self._let_go(more or bool(again))
                pump([each.run for each in self._sessions], self._something_happened)
                yield from self._finish(again)
        finally:
            for session in self._sessions:
                session.run.close()

    # Starting ---------------------------------------------------------------------------------------------------------

    def _start(self, waiting: Iterator[Case], again: _Again, more: bool) -> Generator[Outcome, None, bool]:
        """Start processes while there is room for them; returns whether there may be more cases."""
        while (more or again) and may_start(self._states(), self.workers):
            case, tries = again.pop() if again else (next(waiting, None), [])
            if case is None:
                return False
            if case.problem:
                yield outcome_without_run(case, self.machine, case.problem)
                continue
            try:
                self._sessions.append(_Session(case, self._process_of(case), tries))
            except (ProfilerKitError, OSError) as error:
                reason = f"its process could not be started: {error}"
                yield outcome_without_run(case, self.machine, reason, End.ENGINE)
            self._count_neighbors()
        return more

    def _process_of(self, case: Case) -> IsolatedRun:
        self.started(case)
        warm = case.warm
        if warm is not None and warm not in self._cold:
            try:
                start_server(warm)
            except ProfilerKitError:  # a framework that is missing or cannot be forked: the model says so by itself
                self._cold.add(warm)
        if warm is None or warm in self._cold:
            return IsolatedRun(case.job(), case.limits, "spawn", quiet=True)
        return IsolatedRun(case.job(), case.limits, "forkserver", warm, quiet=True)

    def _count_neighbors(self) -> None:
        """Record for each model that is being counted how many others run."""
        running = [each for each in self._sessions if each.state is State.COUNTING]
        for session in running:
            session.beside = max(session.beside, len(running) - 1)

    # Running ----------------------------------------------------------------------------------------------------------

    def _states(self) -> list[tuple[State, str]]:
        return [(each.state, each.case.device) for each in self._sessions]

    def _something_happened(self) -> bool:
        return any(
            each.run.over or (each.run.progress.waiting and each.state is not State.WAITING) for each in self._sessions
        )

    def _let_go(self, more: bool) -> None:
        """Stop models that have arrived at their gate, and let one go if it may have the machine."""
        for session in self._sessions:
            if session.run.progress.waiting and session.state is State.COUNTING and not session.run.over:
                session.wait()
        for session in self._sessions:
            starting = more and may_start(self._states(), self.workers)
            if session.state is State.WAITING and not starting and may_go(session.case.device, self._states()):
                session.go()

    def _finish(self, again: _Again) -> Iterator[Outcome]:
        """Yield the outcomes of processes that are over; those with noisy times are to be run again."""
        over = [each for each in self._sessions if each.run.over]
        self._sessions = [each for each in self._sessions if not each.run.over]
        for session in over:
            outcomes = [*session.tries, session.outcome(self.machine)]
            if len(outcomes) <= self.options.repeats and noise_of(outcomes[-1]) is not None:
                again.append((session.case, outcomes))
            else:
                yield quietest(outcomes)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
