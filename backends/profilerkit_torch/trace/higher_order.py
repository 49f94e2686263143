"""Operators that take functions: wrappers of other operators, flex attention, and control flow.

The work of their functions is recorded like work of the model itself, wherever the functions can be run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.costs import Cost, Shape

from ..compat.operators import HigherOrderOperator, find_python_kernel, find_triton_kernel
from ..costs import attention
from .control_flow import run_condition, run_loop, run_scan
from .excerpts import Excerpt, Peaks, Stretch, record_call, record_into
from .operator_facts import tensors_in
from .pass_record import NOTHING

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["is_control_flow", "run_higher_order"]

Handler = Callable[["Recorder", HigherOrderOperator, Any, Any], Any]


# Operators whose function is called -----------------------------------------------------------------------------------


def _call_on_list(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Call the function, whose operands are the operator's second argument."""
    with record_into(recorder):
        return args[0](*args[1], **kwargs)


def _call_on_rest(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Call the function, whose operands are the operator's other arguments."""
    with record_into(recorder):
        return args[0](*args[1:], **kwargs)


def _call_without_options(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Call the function with the operands alone: the options are the compiler's, as in torch's ``BaseHOP``."""
    return _call_on_rest(recorder, func, args, {})


def _call_subgraph(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Call the function, whose operands follow after its name."""
    with record_into(recorder):
        return args[0](*args[2:], **kwargs)


def _run_kernel(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator by its kernel in Python, which calls the function; without one its work is not seen."""
    kernel = find_python_kernel(func)
    if kernel is None:
        return _run_opaque(recorder, func, args, kwargs, f"{func.namespace}::{func.name()}")
    with record_into(recorder):
        return kernel(*args, **kwargs)


# Operators whose work inside is not seen ------------------------------------------------------------------------------


def _run_triton(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    kernel = find_triton_kernel(kwargs["kernel_idx"])
    name = getattr(getattr(kernel, "fn", kernel), "__name__", "kernel")
    return _run_opaque(recorder, func, args, kwargs, f"triton::{name}")


def _run_opaque(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any, name: str) -> Any:
    """Run an operator, and record under this name that its work is missing."""
    result = _run_whole(recorder, func, args, kwargs)
    recorder.miss(name)
    recorder.record(name, NOTHING, args, result, missing=name)
    return result


def _run_whole(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run an operator without looking into it."""
    with recorder.settings.guard or nullcontext():
        result = func(*args, **kwargs)
    for tensor in tensors_in(result):
        recorder.live.add(tensor)
    return result


# Attention ------------------------------------------------------------------------------------------------------------

_ALL_SCORES = (
    "flex_attention is counted as the one kernel that torch.compile makes of it; where that is not used it makes all "
    "scores, several times"
)


def _run_flex_attention(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Record attention as one kernel; its memory is more where torch has no kernel, and makes all scores."""
    kernel = find_python_kernel(func)  # the code that makes all scores
    # Its result is freed before the operator runs.
    all_scores = None if kernel is None else record_call(recorder, kernel, args)[0]
    result = _run_whole(recorder, func, args, kwargs)
    query, key, value, _modify, mask, *_ = args
    is_masked = getattr(mask[-1], "__name__", "") != "noop_mask"  # which torch gives where the model gives none
    cost = _price_flex_attention(recorder, args, result[0])
    recorder.record(str(func), cost, (query, key, value), result, is_masked=is_masked)
    if all_scores is not None:
        _note_peak_of_all_scores(recorder, all_scores)
    return result


def _price_flex_attention(recorder: Recorder, args: Any, output: torch.Tensor) -> Cost:
    """Return the cost of the dense product, whatever the mask is, and of the modification of each score."""
    query, key, value, modify, _mask, _scale, _options, buffers, *_ = args

    def modify_a_score() -> None:
        indices = [torch.zeros((), dtype=torch.int32, device=query.device) for _ in range(4)]
        modify(query.new_zeros(()), *indices, *buffers)

    modification, _ = record_call(recorder, modify_a_score, ())
    scores = Shape(output.shape[:-1]).numel * key.shape[-2]
    cost = attention.attend(*(Shape(tensor.shape) for tensor in (query, key, value, output)))
    return cost.plus(Cost(0, scores * modification.flops))


def _note_peak_of_all_scores(recorder: Recorder, all_scores: Excerpt) -> None:
    """Note for the last operator that its peak may be as high as in the code that makes all scores."""
    index = len(recorder.operators) - 1
    peaks = Peaks(recorder.live_bytes[-1], all_scores.base + all_scores.find_peaks().high)
    recorder.stretches.append(Stretch(index, index + 1, peaks, _ALL_SCORES))


# Operators by name ----------------------------------------------------------------------------------------------------

#: See `is_control_flow`.
_CONTROL_FLOW: dict[str, Handler] = {
    "cond": run_condition,
    "while_loop": run_loop,
    "scan": run_scan,
    "map_impl": _run_kernel,
    "strict_mode": _call_on_list,
    "hints_wrapper": _call_on_list,
}
_HANDLERS: dict[str, Handler] = {
    **_CONTROL_FLOW,
    "run_const_graph": _call_on_list,
    "foreach_map": _call_without_options,
    "invoke_quant": _call_without_options,
    "local_map_hop": _call_on_rest,
    "invoke_subgraph": _call_subgraph,
    "flex_attention": _run_flex_attention,
    "triton_kernel_wrapper_mutation": _run_triton,
    "triton_kernel_wrapper_functional": _run_triton,
}


def is_control_flow(func: Any) -> bool:
    """Return whether an operator only says how its functions are called, which a model could spell without it.

    Where gradients are wanted it is run so: weights that its functions find in the model are no operands of theirs, and
    the operator would give them no gradients.
    """
    return isinstance(func, HigherOrderOperator) and func.name() in _CONTROL_FLOW


def run_higher_order(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator that takes functions, and have the recorder record the work of these functions."""
    handler: Handler = _HANDLERS.get(func.name(), _run_kernel)
    return handler(recorder, func, args, kwargs)
