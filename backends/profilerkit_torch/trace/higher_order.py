"""Operators that take functions: the work of these is recorded like work of the model, wherever they can be run.

A condition takes the branch of its value, and a loop turns as long as its condition holds. If only a run can tell that
value, the model is counted in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch

from profilerkit.costs import Cost, Shape

from ..compat.modes import disable_dispatch_modes, dispatch_modes
from ..compat.operators import HigherOrderOperator, find_python_kernel, find_scan, find_triton_kernel
from ..costs import attention
from .operator_facts import tensors_in
from .pass_errors import UnansweredError
from .pass_record import NOTHING, PassRecord

__all__ = ["is_control_flow", "run_higher_order"]

#: Operators that only say how their functions are called, which a model could spell without them.
_CONTROL_FLOW = frozenset(("cond", "while_loop", "scan", "map_impl", "strict_mode", "hints_wrapper"))
#: The memory of attention that no kernel runs.
_ALL_SCORES = "all scores of flex_attention, where it is not compiled,"


def is_control_flow(func: Any) -> bool:
    """Return whether an operator is run by the calls that it stands for where gradients are wanted.

    Weights that its functions find in the model are no operands of theirs: the operator would give them no gradients.
    """
    return isinstance(func, HigherOrderOperator) and func.name() in _CONTROL_FLOW


def run_higher_order(recorder: PassRecord, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator that takes functions, and have the recorder record the work of these functions.

    The keyword arguments of those that call one function are options of the compiler.
    """
    match func.name():
        case "cond":
            predicate, if_true, if_false, operands = args
            return _call(recorder, if_true if _holds(recorder, predicate) else if_false, operands)
        case "while_loop":
            return _run_loop(recorder, *args)
        case "scan":
            return _run_scan(recorder, *args)
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
    with _record_into(recorder):
        return kernel(*args, **kwargs)


def _record_into(recorder: Any) -> AbstractContextManager[Any]:
    """Have a recorder record, where it does not already."""
    is_active = any(mode is recorder for mode in dispatch_modes.list())
    return nullcontext() if is_active else recorder


def _call(recorder: PassRecord, function: Callable[..., Any], operands: Iterable[Any]) -> Any:
    """Call the function of an operator, and record its work."""
    with _record_into(recorder):
        return function(*operands)


# Conditions, loops and scans ------------------------------------------------------------------------------------------


def _holds(recorder: PassRecord, predicate: Any) -> bool:
    """Return whether a predicate holds; raises `UnansweredError` where only a run can tell."""
    if not isinstance(predicate, torch.Tensor):
        return bool(predicate)
    value = recorder.values.find(predicate)
    if value is None:
        recorder.unanswered.append("the condition of torch.cond or while_loop")
        raise UnansweredError(recorder.unanswered)
    with disable_dispatch_modes():
        return bool(value.item())


def _run_loop(recorder: PassRecord, condition: Any, body: Any, inputs: Any, additional: Any) -> Any:
    carried = inputs
    with _record_into(recorder):
        while _holds(recorder, condition(*carried, *additional)):
            carried = tuple(body(*carried, *additional))
        if carried is inputs:  # torch returns copies if the loop never turns
            return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in inputs)
    return carried


def _run_scan(recorder: PassRecord, combine: Any, init: Any, xs: Any, *position_and_additional: Any) -> Any:
    """Run a scan by torch's own loop, without recording the steps that it takes for shapes alone."""
    *position, additional = position_and_additional  # torch 2.6 also gives the dimension and the direction
    steps_for_shapes = iter(range(_count_steps_for_shapes()))

    def step(*values: Any) -> Any:
        if next(steps_for_shapes, None) is None:
            return combine(*values)
        with disable_dispatch_modes():
            return combine(*values)

    with _record_into(recorder):
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


# Operators that are run whole -----------------------------------------------------------------------------------------


def _run_whole(recorder: PassRecord, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run an operator without looking into it."""
    with recorder.settings.guard or nullcontext():
        result = func(*args, **kwargs)
    for tensor in tensors_in(result):
        recorder.live.add(tensor)
    return result


def _run_opaque(recorder: PassRecord, func: HigherOrderOperator, args: Any, kwargs: Any, name: str) -> Any:
    """Run an operator, and record under this name that its work is missing."""
    result = _run_whole(recorder, func, args, kwargs)
    recorder.miss(name)
    recorder.record(name, NOTHING, args, result, missing=name)
    return result


def _run_flex_attention(recorder: PassRecord, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run attention as the one kernel that torch.compile makes of it, and name the memory that it takes otherwise.

    Its cost is the dense product, whatever the mask is, and what a function of the model does to each score.
    """
    query, key, value, modify, mask, _scale, _options, buffers, *_ = args
    result = _run_whole(recorder, func, args, kwargs)
    first, flops = result[0], _count_modification(recorder, query, modify, buffers)
    cost = attention.attend(*(Shape(tensor.shape) for tensor in (query, key, value, first)))
    scores = Shape(first.shape[:-1]).numel * key.shape[-2]
    is_masked = getattr(mask[-1], "__name__", "") != "noop_mask"  # which torch gives where the model gives none
    recorder.record(str(func), cost.plus(Cost(0, scores * flops)), (query, key, value), result, is_masked=is_masked)
    recorder.unsized[_ALL_SCORES] += 1
    return result


def _count_modification(recorder: PassRecord, query: torch.Tensor, modify: Callable[..., Any], buffers: Any) -> int:
    """Return the floating-point operations that a function does to a score; they are not recorded."""
    before = len(recorder.operators)
    with _record_into(recorder):
        indices = [torch.zeros((), dtype=torch.int32, device=query.device) for _ in range(4)]
        modify(query.new_zeros(()), *indices, *buffers)
    flops = sum(operator.flops for operator in recorder.operators[before:])
    del recorder.operators[before:], recorder.live_bytes[before:]
    return flops
