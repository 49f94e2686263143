"""Conditions, loops and scans: operators that choose a function of the model, or call it several times.

If the value of a condition is not known, as on shapes alone, the more expensive branch is counted, which makes the
counts upper bounds; one turn of a loop is counted, which makes them lower bounds.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.trace.bounds import Branch, Choice

from ..compat.modes import disable_dispatch_modes
from ..compat.operators import find_scan
from .excerpts import Excerpt, Peaks, record_apart, record_call, record_into

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["run_condition", "run_loop", "run_scan"]

_DEARER = "a condition depends on values that shapes do not tell: the dearer of its two branches is counted"
_MAYBE = "a loop whose number of turns shapes do not tell may not run at all: one turn is counted"
_ONE_TURN = "how often a loop runs depends on values that shapes do not tell: one turn is counted"


def _find_value(recorder: Recorder, predicate: Any) -> bool | None:
    """Return whether a predicate holds, or None where its value is unknown."""
    if not isinstance(predicate, torch.Tensor):
        return bool(predicate)
    value = recorder.values.find(predicate)
    if value is None:
        return None
    with disable_dispatch_modes():
        return bool(value.item())


# Conditions -----------------------------------------------------------------------------------------------------------


def run_condition(recorder: Recorder, predicate: Any, if_true: Any, if_false: Any, operands: Any) -> Any:
    """Run the branch of a condition that is known; else both, and count the dearer one."""
    holds = _find_value(recorder, predicate)
    if holds is not None:
        with record_into(recorder):
            return (if_true if holds else if_false)(*operands)
    true, true_result = record_call(recorder, if_true, operands)
    false, false_result = record_call(recorder, if_false, operands)
    is_false_dearer = (false.flops, false.macs) > (true.flops, true.macs)
    base = true.base  # the other branch began with the results of this one alive
    if is_false_dearer:
        _count_dearer(recorder, false, true, base, 1)
        return false_result
    _count_dearer(recorder, true, false, base, 0)
    return true_result


def _count_dearer(recorder: Recorder, dearer: Excerpt, other: Excerpt, base: int, index: int) -> None:
    """Put the dearer of two branches back on the record, and note how the other one differs.

    ``base`` is the bytes alive before the condition, and ``index`` which branch the dearer one is.
    """
    ends = dearer.find_peaks(), other.find_peaks()
    peaks = Peaks(min(end.low for end in ends), max(end.high for end in ends))
    dearer.put_back(recorder, base, peaks, _DEARER)
    recorder.uncounted.update(other.uncounted - dearer.uncounted)
    branches = dearer.make_branch(), other.make_branch()
    if branches[0] == branches[1] and not (recorder.DECIDED_BY_BRANCHES and peaks.low != peaks.high):
        recorder.choices += branches[0].choices  # whichever is taken, the conditions inside it are open
        return
    in_order = branches if index == 0 else branches[::-1]
    recorder.choices.append(Choice(in_order, index, _DEARER, recorder.DECIDED_BY_BRANCHES))


# Loops ----------------------------------------------------------------------------------------------------------------


def run_loop(recorder: Recorder, condition: Any, body: Any, inputs: Any, additional: Any) -> Any:
    """Run a loop for as long as its condition is known to hold, and once where it is not known."""
    carried = inputs
    with record_into(recorder):
        while holds := _find_value(recorder, condition(*carried, *additional)):
            carried = tuple(body(*carried, *additional))
        if holds is None:
            return _count_one_turn(recorder, body, (*carried, *additional))
        if carried is inputs:  # torch returns copies if the loop never turns
            return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in inputs)
    return carried


def _count_one_turn(recorder: Recorder, body: Any, operands: Any) -> tuple[Any, ...]:
    """Run and count one turn of a loop, of which there may be none or many."""
    excerpt, results = record_call(recorder, body, operands)
    excerpt.put_back(recorder, excerpt.base, Peaks(0, excerpt.find_peaks().high), _MAYBE)
    branch = excerpt.make_branch()
    if branch.work:
        recorder.choices.append(Choice((branch, Branch({})), 0, _MAYBE, recorder.DECIDED_BY_BRANCHES))
    recorder.miss("higher_order::while_loop")
    recorder.note(_ONE_TURN)
    return tuple(results)


# Scans ----------------------------------------------------------------------------------------------------------------


def run_scan(recorder: Recorder, combine: Any, init: Any, xs: Any, *position_and_additional: Any) -> Any:
    """Run a scan by torch's own loop, and drop the steps from the record that it takes for shapes alone."""
    *position, additional = position_and_additional  # torch 2.6 also gives the dimension and the direction
    steps_for_shapes = iter(range(_count_steps_for_shapes()))

    def step(*values: Any) -> Any:
        if next(steps_for_shapes, None) is None:
            return combine(*values)
        _, result = record_apart(recorder, lambda: combine(*values))
        return result

    with record_into(recorder):
        return find_scan()(step, init, xs, *position, additional_inputs=additional)


@cache
def _count_steps_for_shapes() -> int:
    """Return how many steps torch's scan takes beforehand, for the shapes of the outputs: 1 in torch 2.10."""
    steps = 0

    def step(carry: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        nonlocal steps
        steps += 1
        return [carry, x]

    with disable_dispatch_modes():
        row = torch.zeros(1, device="meta")
        find_scan()(step, [row], [torch.zeros(1, 1, device="meta")])
    return steps - 1
