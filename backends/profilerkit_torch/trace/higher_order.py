"""Operators that take functions: the work of these is recorded like work of the model, wherever they can be run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ..compat.operators import HigherOrderOperator, find_python_kernel, find_triton_kernel
from .control_flow import run_condition, run_loop, run_scan
from .excerpts import record_call, record_into
from .flex_attention import record_flex_attention
from .operator_facts import tensors_in
from .pass_record import NOTHING

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["is_control_flow", "run_higher_order"]

#: Operators that only say how their functions are called, which a model could spell without them.
_CONTROL_FLOW = frozenset(("cond", "while_loop", "scan", "map_impl", "strict_mode", "hints_wrapper"))


def is_control_flow(func: Any) -> bool:
    """Return whether an operator is run by the calls that it stands for where gradients are wanted.

    Weights that its functions find in the model are no operands of theirs: the operator would give them no gradients.
    """
    return isinstance(func, HigherOrderOperator) and func.name() in _CONTROL_FLOW


def run_higher_order(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator that takes functions, and have the recorder record the work of these functions.

    The keyword arguments of those that call one function are options of the compiler.
    """
    match func.name():
        case "cond":
            return run_condition(recorder, *args)
        case "while_loop":
            return run_loop(recorder, *args)
        case "scan":
            return run_scan(recorder, *args)
        case "strict_mode" | "hints_wrapper" | "run_const_graph":
            return _call(recorder, args[0], args[1])
        case "foreach_map" | "invoke_quant" | "local_map_hop":
            return _call(recorder, args[0], args[1:])
        case "invoke_subgraph":
            function, _name, *operands = args
            return _call(recorder, function, operands)
        case "flex_attention":
            return _run_flex_attention(recorder, func, args, kwargs)
        case "triton_kernel_wrapper_mutation" | "triton_kernel_wrapper_functional":
            kernel = find_triton_kernel(kwargs["kernel_idx"])
            name = getattr(getattr(kernel, "fn", kernel), "__name__", "kernel")
            return _run_opaque(recorder, func, args, kwargs, f"triton::{name}")
    kernel = find_python_kernel(func)  # it calls the functions
    if kernel is None:
        return _run_opaque(recorder, func, args, kwargs, f"{func.namespace}::{func.name()}")
    with record_into(recorder):
        return kernel(*args, **kwargs)


def _call(recorder: Recorder, function: Callable[..., Any], operands: Iterable[Any]) -> Any:
    """Call the function of an operator, and record its work."""
    with record_into(recorder):
        return function(*operands)


def _run_opaque(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any, name: str) -> Any:
    """Run an operator, and record under this name that its work is missing."""
    result = _run_whole(recorder, func, args, kwargs)
    recorder.miss(name)
    recorder.record(name, NOTHING, args, result, missing=name)
    return result


def _run_flex_attention(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run attention as one kernel; its memory is more where torch has no kernel, and makes all scores."""
    kernel = find_python_kernel(func)  # the code that makes all scores
    # Its result is freed before the operator runs.
    all_scores = None if kernel is None else record_call(recorder, kernel, args)[0]
    result = _run_whole(recorder, func, args, kwargs)
    record_flex_attention(recorder, str(func), args, result, all_scores)
    return result


def _run_whole(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run an operator without looking into it."""
    with recorder.settings.guard or nullcontext():
        result = func(*args, **kwargs)
    for tensor in tensors_in(result):
        recorder.live.add(tensor)
    return result
