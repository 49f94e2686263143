"""The engine of one machine: models are counted on all cores at the same time, and timed one at a time, alone."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from profilerkit.errors import FailureCode, ProfilerKitError
from profilerkit.isolation.interpreters import start_server
from profilerkit.isolation.run import IsolatedRun
from profilerkit.isolation.waiting import pump

from .cases import Case
from .engine import Engine, EngineOptions, Outcome, is_noisy, pick_quietest, read_outcome, without_run
from .machines import read_machine

# Who may run ----------------------------------------------------------------------------------------------------------


class State(Enum):
    """The activity of a model's process."""

    #: Work without a run of the model: loading, counting.
    COUNTING = "counting"
    #: The process waits until it may have the machine.
    WAITING = "waiting"
    TIMING = "timing"


class Running(NamedTuple):
    """What a model's process does, and the device that the model is timed on."""

    state: State
    device: str


def may_start(running: Sequence[Running], workers: int) -> bool:
    """Return whether a further model may be started beside those that run.

    No model may start while a CPU's times are measured, or while as many models wait to be measured as there are
    workers: each waiting model holds its memory.

    >>> counting, waiting = Running(State.COUNTING, "cpu"), Running(State.WAITING, "cpu")
    >>> may_start([counting], 2), may_start([waiting, waiting], 2)
    (True, False)
    """
    states = [state for state, _ in running]
    has_room = max(states.count(State.COUNTING), states.count(State.WAITING)) < workers
    return has_room and Running(State.TIMING, "cpu") not in running


def may_be_timed(device: str, running: Sequence[Running]) -> bool:
    """Return whether a model that waits may be timed on its device: a CPU while nothing else runs, a GPU alone on it.

    >>> waiting, counting = Running(State.WAITING, "cpu"), Running(State.COUNTING, "cpu")
    >>> may_be_timed("cpu", [waiting, counting])
    False
    >>> may_be_timed("cuda:0", [waiting, counting, Running(State.TIMING, "cuda:1")])
    True
    """
    if device == "cpu":
        return all(state is State.WAITING for state, _ in running)
    timed = [other for state, other in running if state is State.TIMING]
    return not any(other == "cpu" or _may_be_one_gpu(device, other) for other in timed)


def _may_be_one_gpu(device: str, other: str) -> bool:
    """Return whether two names may be of one GPU: "gpu", "cuda" and "cuda:0" may, "cuda:0" and "cuda:1" may not."""
    numbers = {name.rpartition(":")[2] if ":" in name else "" for name in (device, other)}
    return "" in numbers or len(numbers) == 1


# Running --------------------------------------------------------------------------------------------------------------


class _Try(NamedTuple):
    """A case that is to be run, and the outcomes of the runs before, whose times were noisy."""

    case: Case
    earlier: Sequence[Outcome] = ()


@dataclass
class _Session:
    """A case in its process: counting, waiting for the machine, or being timed.

    Attributes:
        case: The case.
        run: Its process.
        earlier: The outcomes of its runs before.
        state: The activity of the process.
        beside: The most models that ran at the same time: while it was timed, or counted if it was not timed.
    """

    case: Case
    run: IsolatedRun
    earlier: Sequence[Outcome]
    state: State = State.COUNTING
    beside: int = 0

    def is_at_gate(self) -> bool:
        """Return whether the process has been counted, and asks for the machine."""
        return self.state is State.COUNTING and self.run.progress.waiting and not self.run.over

    def go(self) -> None:
        """Let the process measure."""
        self.state, self.beside = State.TIMING, 0
        self.run.answer(go=True)


class LocalEngine(Engine):
    """Runs the cases on this machine.

    As many models as there are cores, or ``workers``, are counted at the same time. A model that has been counted waits
    at a gate until nothing else runs; then its times are measured. A case whose times are noisy is run again,
    up to ``repeats`` times, and the quietest run counts.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self.workers: int = options.workers or _count_cores()
        self.machine: dict[str, str] = read_machine()
        #: The modules that a forked interpreter could not import: their models get fresh interpreters.
        self._cold: set[tuple[str, ...]] = set()
        self._queue: list[_Try] = []  # the next one is the last
        self._sessions: list[_Session] = []
        self._finished: list[Outcome] = []

    def run(self, cases: Iterable[Case]) -> Generator[Outcome, None, None]:
        """Run the cases, and yield each outcome when it is ready."""
        self._queue = [_Try(case) for case in cases][::-1]
        try:
            while self._queue or self._sessions:
                try:
                    self._start_sessions()
                finally:  # also if the user's watch failed; and only now, while the next models run
                    yield from self._hand_over()
                self._give_turns()
                pump([session.run for session in self._sessions], self._has_news)
                self._end_sessions()
            yield from self._hand_over()
        finally:
            for session in self._sessions:
                session.run.close()

    def _hand_over(self) -> Iterator[Outcome]:
        """Yield the outcomes that are finished."""
        while self._finished:
            yield self._finished.pop(0)

    def _has_news(self) -> bool:
        """Return whether a process is over, or asks for the machine."""
        return any(session.run.over or session.is_at_gate() for session in self._sessions)

    def _list_running(self) -> list[Running]:
        return [Running(session.state, session.case.device) for session in self._sessions]

    def _start_sessions(self) -> None:
        """Start processes while there is room for them; a case that no process can run is finished."""
        while self._queue and may_start(self._list_running(), self.workers):
            case, earlier = self._queue.pop()
            if case.failure is not None:
                self._finished.append(without_run(case, self.machine, case.failure, case.problem))
                continue
            self.tell_start(case)  # an error of the user's watch is no error of the process
            try:
                self._sessions.append(_Session(case, self._start_process(case), earlier))
            except (ProfilerKitError, OSError) as error:
                reason = f"its process could not be started: {error}"
                self._finished.append(without_run(case, self.machine, FailureCode.ENGINE, reason))
            self._count_beside()

    def _start_process(self, case: Case) -> IsolatedRun:
        """Start the process of a case, forked from an interpreter with its framework if this works."""
        warm = case.warm
        if warm is not None and warm not in self._cold:
            try:
                start_server(warm)
            except ProfilerKitError:  # a framework that is missing or cannot be forked: the model says so by itself
                self._cold.add(warm)
        return IsolatedRun(case.job(), case.limits, None if warm in self._cold else warm, quiet=True)

    def _give_turns(self) -> None:
        """Note which models have arrived at their gate; let one be timed if it may, and no model can be started."""
        for session in filter(_Session.is_at_gate, self._sessions):
            session.state = State.WAITING
        for session in self._sessions:
            running = self._list_running()
            starts_more = self._queue and may_start(running, self.workers)
            if session.state is State.WAITING and not starts_more and may_be_timed(session.case.device, running):
                session.go()
                self._count_beside()

    def _count_beside(self) -> None:
        """Note for each session that runs how many others run now."""
        active = [session for session in self._sessions if session.state is not State.WAITING]
        for session in active:
            session.beside = max(session.beside, len(active) - 1)

    def _end_sessions(self) -> None:
        """Read the outcomes of processes that are over; cases with noisy times are run again, next."""
        over = [session for session in self._sessions if session.run.over]
        self._sessions = [session for session in self._sessions if not session.run.over]
        for session in over:
            outcomes = [*session.earlier, read_outcome(session.run, session.case, self.machine, session.beside)]
            if len(outcomes) <= self.options.repeats and is_noisy(outcomes[-1]):
                self._queue.append(_Try(session.case, outcomes))
            else:
                self._finished.append(pick_quietest(outcomes))


def _count_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
