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
from ..compat.operators import HigherOrderOperator, find_scan
from .excerpts import Excerpt, Peaks, record_apart, record_call, record_into

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["run_condition", "run_loop", "run_scan"]

_DEARER = "a condition depends on values that shapes do not tell: the dearer of its two branches is counted"
_MAYBE = "a loop whose number of turns shapes do not tell may not run at all: one turn is counted"
_ONE_TURN = "how often a loop runs depends on values that shapes do not tell: one turn is counted"


def run_condition(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run the branch of a condition that is known; else both, and count the dearer one."""
    predicate, if_true, if_false, operands = args
    holds = _find_value(recorder, predicate)
    if holds is not None:
        with record_into(recorder):
            return (if_true if holds else if_false)(*operands)
    true_excerpt, true_result = record_call(recorder, if_true, operands)
    false_excerpt, false_result = record_call(recorder, if_false, operands)
    is_false_dearer = (false_excerpt.flops, false_excerpt.macs) > (true_excerpt.flops, true_excerpt.macs)
    _count_branch(recorder, (true_excerpt, false_excerpt), int(is_false_dearer))
    return false_result if is_false_dearer else true_result


def _count_branch(recorder: Recorder, excerpts: tuple[Excerpt, Excerpt], index: int) -> None:
    """Put one of two branches back on the record, and note how the other branch differs."""
    counted, other = excerpts[index], excerpts[1 - index]
    ends = counted.find_peaks(), other.find_peaks()
    peaks = Peaks(min(end.low for end in ends), max(end.high for end in ends))
    counted.put_back(recorder, excerpts[0].base, peaks, _DEARER)
    recorder.uncounted.update(other.uncounted - counted.uncounted)
    branches = excerpts[0].make_branch(), excerpts[1].make_branch()
    if branches[0] != branches[1] or (recorder.DECIDED_BY_BRANCHES and peaks.low != peaks.high):
        recorder.choices.append(Choice(branches, index, _DEARER, recorder.DECIDED_BY_BRANCHES))
    else:  # whichever is taken, the conditions inside it are open
        recorder.choices += branches[0].choices


def run_loop(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run a loop for as long as its condition is known to hold, and once where it is not known."""
    condition, body, inputs, additional = args
    carried = inputs
    with record_into(recorder):
        while True:
            holds = _find_value(recorder, condition(*carried, *additional))
            if holds is False:
                return _copy(inputs) if carried is inputs else carried
            if holds is None:
                break
            carried = tuple(body(*carried, *additional))
    excerpt, results = record_call(recorder, body, (*carried, *additional))
    excerpt.put_back(recorder, excerpt.base, Peaks(0, excerpt.find_peaks().high), _MAYBE)
    branch = excerpt.make_branch()
    if branch.work:
        recorder.choices.append(Choice((branch, Branch({})), 0, _MAYBE, recorder.DECIDED_BY_BRANCHES))
    recorder.miss(f"higher_order::{func.name()}")
    recorder.note(_ONE_TURN)
    return tuple(results)


def _copy(inputs: Any) -> tuple[Any, ...]:
    """Return copies of the inputs of a loop that never turns, as torch does."""
    return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in inputs)


def _find_value(recorder: Recorder, predicate: Any) -> bool | None:
    """Return whether a predicate holds, or None where its value is unknown."""
    if not isinstance(predicate, torch.Tensor):
        return bool(predicate)
    value: Any = recorder.values.find(predicate) if recorder.settings.on_meta else predicate
    value = getattr(value, "constant", value)  # the known value of a fake tensor
    if value is None or value.is_meta or hasattr(value, "fake_mode"):
        return None
    with disable_dispatch_modes():
        return bool(value.item())


def run_scan(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run a scan by torch's own loop, and drop the steps from the record that it takes for shapes alone."""
    combine, init, xs, *position, additional = args  # torch 2.6 also gives the dimension and the direction
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
