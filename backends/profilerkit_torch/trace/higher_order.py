"""Operators that take functions: control flow, flex attention, and wrappers of other operators.

What their functions do is recorded as if the model had done it itself. `control_flow` has conditions, loops and scans.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.costs import Cost, Shape

from ..compat.operators import HigherOrderOperator, find_python_kernel, find_triton_kernel
from ..costs import attention
from ..untouched.temporary_settings import disable_compiling
from .branch_peaks import Peaks, Stretch
from .control_flow import run_condition, run_loop, run_scan
from .excerpts import record_apart, record_call, record_into

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["call_directly", "is_control_flow", "run_higher_order"]

Handler = Callable[["Recorder", HigherOrderOperator, Any, Any], Any]

_ALL_SCORES = (
    "flex_attention is counted as the one kernel that torch.compile makes of it; where that is not used it makes all "
    "scores, several times"
)
_CONTROL = ("cond", "while_loop", "scan", "map_impl", "strict_mode", "hints_wrapper")


@contextmanager
def call_directly() -> Iterator[None]:
    """Have conditions, loops and flex attention call their functions without compiling them first."""
    with disable_compiling(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"flex_attention called without torch\.compile")
        yield


def is_control_flow(func: Any) -> bool:
    """Return whether an operator is a condition, a loop or a scan, which a model could spell without it.

    Where gradients are wanted it is run so: weights that its functions find in the model are no operands of theirs, and
    the operator would give them no gradients.
    """
    return isinstance(func, HigherOrderOperator) and func.name() in _CONTROL


def run_higher_order(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator that takes functions, and have the recorder record what they do."""
    return _HANDLERS.get(func.name(), _run_kernel)(recorder, func, args, kwargs)


# Wrappers: what they take is called -----------------------------------------------------------------------------------


def _run_kernel(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run any other operator by its kernel in Python, if it has one."""
    kernel = find_python_kernel(func)
    if kernel is None:
        return recorder.opaque(func, args, kwargs)
    with record_into(recorder):
        return kernel(*args, **kwargs)


def _call_with_list(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    function, operands, *_ = args
    with record_into(recorder):
        return function(*operands, **kwargs)


def _call_with_operands(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    function, *operands = args
    with record_into(recorder):
        return function(*operands, **kwargs)


def _call_subgraph(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    function, _name, *operands = args
    with record_into(recorder):
        return function(*operands, **kwargs)


def _run_triton(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    kernel = find_triton_kernel(kwargs["kernel_idx"])
    name = getattr(getattr(kernel, "fn", kernel), "__name__", "kernel")
    return recorder.opaque(func, args, kwargs, f"triton::{name}")


# Attention ------------------------------------------------------------------------------------------------------------


def _run_flex_attention(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Count the dense product, whatever the blocks of the mask, and what the modification does to each score."""
    query, key, value, modify, blocks = args[:5]
    buffers = args[7] if len(args) > 7 else kwargs.get("score_mod_other_buffers", ())
    excerpt = None
    if find_python_kernel(func) is not None:
        excerpt, _ = record_apart(recorder, lambda: _run_kernel(recorder, func, args, kwargs))
        del _
    result = recorder.run_whole(func, args, kwargs)
    output = result[0]
    cost = attention.attend(*(Shape(tensor.shape) for tensor in (query, key, value, output)))

    def modify_a_score() -> None:
        indices = [torch.zeros((), dtype=torch.int32, device=query.device) for _ in range(4)]
        modify(query.new_zeros(()), *indices, *buffers)

    modification, _ = record_call(recorder, modify_a_score, ())
    scores = Shape(output.shape[:-1]).numel * key.shape[-2]
    cost = Cost(cost.macs, cost.flops + scores * modification.flops)
    is_masked = getattr(blocks[-1], "__name__", "") != "noop_mask"  # which torch gives where the model gives none
    recorder.record(str(func), cost, args[:3], result, is_masked=is_masked)
    if excerpt is not None:
        index = len(recorder.operators) - 1
        peaks = Peaks(recorder.live_bytes[-1], excerpt.base + excerpt.find_peaks().high)
        recorder.stretches.append(Stretch(index, index + 1, peaks, _ALL_SCORES))
    return result


#: By name: what runs an operator; any other is run by its kernel.
_HANDLERS: dict[str, Handler] = {
    "cond": run_condition,
    "while_loop": run_loop,
    "scan": run_scan,
    "flex_attention": _run_flex_attention,
    **dict.fromkeys(("triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional"), _run_triton),
    **dict.fromkeys(("strict_mode", "hints_wrapper", "run_const_graph"), _call_with_list),
    **dict.fromkeys(("foreach_map", "invoke_quant", "local_map_hop"), _call_with_operands),
    "invoke_subgraph": _call_subgraph,
}
