"""What an operator makes in a pass: by its kernel, by known values, or on stand-ins without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .kernel_outputs import lay_out_as_kernels, leave_out, require_one_dtype
from .meta_outputs import without_running
from .operator_facts import OperatorCall, depends_on_values, tensors_in
from .value_answers import answer_by_values, move_to_cpu

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["make_result"]


def make_result(recorder: Recorder, call: OperatorCall, moved: OperatorCall) -> tuple[Any, bool]:
    """Return what an operator makes, and whether that depends on values; follow its effect on known values.

    ``moved`` is the call of the model, with stand-ins on the meta device for its real tensors.
    """
    if not recorder.stands_in:
        return moved.run(), depends_on_values(call.func)
    needs_values = depends_on_values(call.func)
    runs_on_values = needs_values and not _lacks_values(recorder, moved)
    if not runs_on_values:
        answer = (answer_by_values if needs_values else move_to_cpu)(recorder.values, *call)
        if answer is not None:
            return answer, True
    result = _run_on_stand_ins(recorder, call, moved)
    if any(map(recorder.values.stands_in, tensors_in((moved.args, result)))):
        recorder.values.follow(*call, result)
    return result, runs_on_values


def _lacks_values(recorder: Recorder, call: OperatorCall) -> bool:
    """Return whether an operator gets tensors without values: on the meta device it may get real ones alone."""
    return not recorder.on_meta or all(tensor.is_meta for tensor in call.tensors)


def _run_on_stand_ins(recorder: Recorder, call: OperatorCall, moved: OperatorCall) -> Any:
    """Return what an operator makes; the guard keeps what of the model's it is about to write to."""
    require_one_dtype(moved)
    result = without_running(*moved)
    if result is not None:
        return result
    if recorder.guard is not None:
        recorder.guard.watch(*call)
    result = leave_out(moved.func, moved.args, moved.run(), recorder.kernels)
    return lay_out_as_kernels(moved.func, moved.args, result)
