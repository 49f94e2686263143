"""Who may run when: a CPU's times are measured while nothing else of the audit runs, a GPU's one model at a time."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

__all__ = ["State", "may_go", "may_start"]


class State(Enum):
    """What a model's process does."""

    #: What needs no run of the model: loading, counting.
    COUNTING = "counting"
    #: It is stopped until it may have the machine.
    WAITING = "waiting"
    TIMING = "timing"


def may_start(states: Sequence[tuple[State, str]], workers: int) -> bool:
    """Return whether a further model may be started, from the states and devices of those that run.

    Not while a CPU's times are measured, and not before those that wait have been measured if there are as many of them
    as workers: each of them holds its memory.

    >>> may_start([(State.COUNTING, "cpu")], 2), may_start([(State.WAITING, "cpu"), (State.WAITING, "cpu")], 2)
    (True, False)
    """
    counting = sum(state is State.COUNTING for state, _ in states)
    waiting = sum(state is State.WAITING for state, _ in states)
    timed = any(state is State.TIMING and device == "cpu" for state, device in states)
    return not timed and counting < workers and counting + waiting < 2 * workers and waiting < workers


def may_go(device: str, states: Sequence[tuple[State, str]]) -> bool:
    """Return whether a model that waits may be timed on its device.

    >>> may_go("cpu", [(State.WAITING, "cpu"), (State.COUNTING, "cpu")])
    False
    >>> may_go("cuda:0", [(State.WAITING, "cuda:0"), (State.COUNTING, "cpu"), (State.TIMING, "cuda:1")])
    True
    """
    timing = [each for state, each in states if state is State.TIMING]
    if device == "cpu":
        return not timing and not any(state is State.COUNTING for state, _ in states)
    return "cpu" not in timing and device not in timing
