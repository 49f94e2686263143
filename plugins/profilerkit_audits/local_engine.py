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


class State(Enum):
    """The activity of a model's process."""

    #: Work without a run of the model: loading, counting.
    COUNTING = "counting"
    #: The process is stopped until it may have the machine.
    WAITING = "waiting"
    TIMING = "timing"


def may_start(states: Sequence[tuple[State, str]], workers: int) -> bool:
    """Return whether a further model may be started, from the states and devices of the models that run.

    No model may start while a CPU's times are measured, or while as many models wait to be measured as there are
    workers: each waiting model holds its memory.

    >>> may_start([(State.COUNTING, "cpu")], 2), may_start([(State.WAITING, "cpu"), (State.WAITING, "cpu")], 2)
    (True, False)
    """
    counting = sum(state is State.COUNTING for state, _ in states)
    waiting = sum(state is State.WAITING for state, _ in states)
    is_cpu_timed = any(state is State.TIMING and device == "cpu" for state, device in states)
    return not is_cpu_timed and counting < workers and waiting < workers


def may_go(device: str, states: Sequence[tuple[State, str]]) -> bool:
    """Return whether a model that waits may be timed on its device: a CPU while nothing else runs, a GPU alone on it.

    >>> may_go("cpu", [(State.WAITING, "cpu"), (State.COUNTING, "cpu")])
    False
    >>> may_go("cuda:0", [(State.WAITING, "cuda:0"), (State.COUNTING, "cpu"), (State.TIMING, "cuda:1")])
    True
    """
    timing = [other for state, other in states if state is State.TIMING]
    if device == "cpu":
        return not timing and not any(state is State.COUNTING for state, _ in states)
    return not any(other == "cpu" or _may_be_same(device, other) for other in timing)


def _may_be_same(device: str, other: str) -> bool:
    """Return whether two names may be of one GPU: "gpu", "cuda" and "cuda:0" may, "cuda:0" and "cuda:1" may not."""
    numbers = {name.rpartition(":")[2] if ":" in name else "" for name in (device, other)}
    return "" in numbers or len(numbers) == 1


class _Try(NamedTuple):
    """A case that is to be run, and the outcomes of the runs before, whose times were noisy."""

    case: Case
    outcomes: Sequence[Outcome] = ()


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
        """Return whether the process has arrived at its gate, and was not stopped there yet."""
        return self.run.progress.waiting and self.state is not State.WAITING and not self.run.over

    def wait(self) -> None:
        """Stop the process at its gate, until it may have the machine."""
        self.state = State.WAITING
        self.run.stop()

    def go(self) -> None:
        """Let the process measure."""
        self.state = State.TIMING
        self.beside = 0
        progress = self.run.progress
        progress.waiting, progress.turn = False, ""
        self.run.send(go=True)
        self.run.go_on()


class LocalEngine(Engine):
    """Runs the cases on this machine.

    As many models as there are cores, or ``workers``, are counted at the same time. A model that has been counted waits
    at a gate, stopped, until nothing else runs; then its times are measured. A case whose times are noisy is run again,
    up to ``repeats`` times, and the quietest run counts.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self.workers: int = options.workers or count_cores()
        self.machine: dict[str, str] = read_machine()
        #: The modules that a forked interpreter could not import: their models get fresh interpreters.
        self._cold: set[tuple[str, ...]] = set()
        self._sessions: list[_Session] = []

    def run(self, cases: Iterable[Case]) -> Generator[Outcome, None, None]:
        """Run the cases, and yield each outcome when it is ready."""
        queue = [_Try(case) for case in cases][::-1]  # the next one is the last
        finished: list[Outcome] = []
        try:
            while queue or self._sessions or finished:
                try:
                    yield from self._start(queue)
                except GeneratorExit:  # the caller takes no more outcomes: it failed to store one of them
                    raise
                except BaseException:  # the start of a model was interrupted, or the user's watch failed
                    yield from finished
                    raise
                yield from finished  # only now: while the caller stores them, the next models run
                self._give_turns(queue)
                pump(
                    [session.run for session in self._sessions],
                    lambda: any(session.run.over or session.is_at_gate() for session in self._sessions),
                )
                finished = list(self._finish(queue))
        finally:
            for session in self._sessions:
                session.run.close()

    def _list_states(self) -> list[tuple[State, str]]:
        return [(session.state, session.case.device) for session in self._sessions]

    def _start(self, queue: list[_Try]) -> Iterator[Outcome]:
        """Start processes while there is room for them; yield the outcomes of cases that no process can run."""
        while queue and may_start(self._list_states(), self.workers):
            case, earlier = queue.pop()
            if case.failure is not None:
                yield without_run(case, self.machine, case.failure, case.problem)
                continue
            self.tell_start(case)  # an error of the user's watch is no error of the process
            try:
                self._sessions.append(_Session(case, self._start_process(case), earlier))
            except (ProfilerKitError, OSError) as error:
                reason = f"its process could not be started: {error}"
                yield without_run(case, self.machine, FailureCode.ENGINE, reason)
            self._count_beside()

    def _count_beside(self) -> None:
        """Note for each session that runs how many others run now."""
        running = [session for session in self._sessions if session.state is not State.WAITING]
        for session in running:
            session.beside = max(session.beside, len(running) - 1)

    def _start_process(self, case: Case) -> IsolatedRun:
        """Start the process of a case, forked from an interpreter with its framework if this works."""
        warm = case.warm
        if warm is not None and warm not in self._cold:
            try:
                start_server(warm)
            except ProfilerKitError:  # a framework that is missing or cannot be forked: the model says so by itself
                self._cold.add(warm)
        if warm is None or warm in self._cold:
            return IsolatedRun(case.job(), case.limits, "spawn", quiet=True)
        return IsolatedRun(case.job(), case.limits, "forkserver", warm, quiet=True)

    def _give_turns(self, queue: Sequence[_Try]) -> None:
        """Stop models that have arrived at their gate, and let one go if it may have the machine."""
        for session in self._sessions:
            if session.is_at_gate() and session.state is State.COUNTING:
                session.wait()
        for session in self._sessions:
            starts_more = queue and may_start(self._list_states(), self.workers)
            if session.state is State.WAITING and not starts_more and may_go(session.case.device, self._list_states()):
                session.go()
                self._count_beside()

    def _finish(self, queue: list[_Try]) -> Iterator[Outcome]:
        """Yield the outcomes of processes that are over; cases with noisy times are run again, next."""
        over = [session for session in self._sessions if session.run.over]
        self._sessions = [session for session in self._sessions if not session.run.over]
        for session in over:
            outcomes = [*session.earlier, read_outcome(session.run, session.case, self.machine, session.beside)]
            if len(outcomes) <= self.options.repeats and is_noisy(outcomes[-1]):
                queue.append(_Try(session.case, outcomes))
            else:
                yield pick_quietest(outcomes)


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
