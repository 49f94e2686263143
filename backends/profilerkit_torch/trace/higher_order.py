"""Operators that take functions: conditions, loops and scans, flex attention, and wrappers of other operators.

The work of their functions is recorded like work of the model itself. If the value of a condition is not known, as on
shapes alone, the more expensive branch is counted, which makes the counts upper bounds; one turn of a loop is counted,
which makes them lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from profilerkit.costs import Cost, Shape
from profilerkit.trace.bounds import Branch, Choice

from ..compat.modes import disable_dispatch_modes
from ..compat.operators import HigherOrderOperator, find_python_kernel, find_scan, find_triton_kernel
from ..costs import attention
from .excerpts import Excerpt, Peaks, Stretch, record_apart, record_call, record_into
from .operator_facts import tensors_in
from .pass_record import NOTHING

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["is_control_flow", "run_higher_order"]

Handler = Callable[["Recorder", HigherOrderOperator, Any, Any], Any]

_ALL_SCORES = (
    "flex_attention is counted as the one kernel that torch.compile makes of it; where that is not used it makes all "
    "scores, several times"
)
_CONTROL = ("cond", "while_loop", "scan", "map_impl", "strict_mode", "hints_wrapper")


def is_control_flow(func: Any) -> bool:
    """Return whether an operator is a condition, a loop or a scan, which a model could spell without it.

    Where gradients are wanted it is run so: weights that its functions find in the model are no operands of theirs, and
    the operator would give them no gradients.
    """
    return isinstance(func, HigherOrderOperator) and func.name() in _CONTROL


def run_higher_order(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator that takes functions, and have the recorder record the work of these functions."""
    return _HANDLERS.get(func.name(), _run_kernel)(recorder, func, args, kwargs)


# Wrappers: the function that they take is called ----------------------------------------------------------------------


def _run_kernel(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run any other operator by its kernel in Python, if it has one."""
    kernel = find_python_kernel(func)
    if kernel is None:
        return _run_opaque(recorder, func, args, kwargs)
    with record_into(recorder):
        return kernel(*args, **kwargs)


def _make_call(split: Callable[..., tuple[Callable[..., Any], Sequence[Any]]]) -> Handler:
    """Return a handler that calls the operator's function; ``split`` finds it, and its operands, in the arguments."""

    def call(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
        function, operands = split(*args)
        with record_into(recorder):
            return function(*operands, **kwargs)

    return call


def _run_triton(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    kernel = find_triton_kernel(kwargs["kernel_idx"])
    name = getattr(getattr(kernel, "fn", kernel), "__name__", "kernel")
    return _run_opaque(recorder, func, args, kwargs, f"triton::{name}")


def _run_opaque(recorder: Recorder, func: Any, args: Any, kwargs: Any, name: str = "") -> Any:
    """Run an operator that takes functions whose work inside is not seen."""
    result = _run_whole(recorder, func, args, kwargs)
    name = name or f"{func.namespace}::{func.name()}"
    recorder.miss(name)
    recorder.record(name, NOTHING, args, result, missing=name)
    return result


def _run_whole(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator without looking into it."""
    with recorder.settings.guard or nullcontext():
        result = func(*args, **kwargs)
    for tensor in tensors_in(result):
        recorder.live.add(tensor)
    return result


# Attention ------------------------------------------------------------------------------------------------------------


def _run_flex_attention(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Count the dense product, whatever the blocks of the mask are, and the modification of each score."""
    query, key, value, modify, blocks = args[:5]
    buffers = args[7] if len(args) > 7 else kwargs.get("score_mod_other_buffers", ())
    all_scores = None  # what it runs where there is no kernel, if torch has code for that
    if find_python_kernel(func) is not None:
        all_scores = record_apart(recorder, lambda: _run_kernel(recorder, func, args, kwargs))[0]  # its result is freed
    result = _run_whole(recorder, func, args, kwargs)
    output = result[0]
    cost = attention.attend(*(Shape(tensor.shape) for tensor in (query, key, value, output)))
    scores = Shape(output.shape[:-1]).numel * key.shape[-2]
    cost = cost.plus(Cost(0, scores * _count_modification(recorder, modify, query, buffers)))
    is_masked = getattr(blocks[-1], "__name__", "") != "noop_mask"  # which torch gives where the model gives none
    recorder.record(str(func), cost, args[:3], result, is_masked=is_masked)
    if all_scores is not None:
        index = len(recorder.operators) - 1
        peaks = Peaks(recorder.live_bytes[-1], all_scores.base + all_scores.find_peaks().high)
        recorder.stretches.append(Stretch(index, index + 1, peaks, _ALL_SCORES))
    return result


def _count_modification(recorder: Recorder, modify: Any, query: torch.Tensor, buffers: Any) -> int:
    """Return the floating-point operations of the modification of one score."""

    def modify_a_score() -> None:
        indices = [torch.zeros((), dtype=torch.int32, device=query.device) for _ in range(4)]
        modify(query.new_zeros(()), *indices, *buffers)

    excerpt, _ = record_call(recorder, modify_a_score, ())
    return excerpt.flops


_DEARER = "a condition depends on values that shapes do not tell: the dearer of its two branches is counted"
_MAYBE = "a loop whose number of turns shapes do not tell may not run at all: one turn is counted"
_ONE_TURN = "how often a loop runs depends on values that shapes do not tell: one turn is counted"


def _run_condition(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
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


def _run_loop(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run a loop for as long as its condition is known to hold, and once where it is not known."""
    condition, body, carried, *further = args
    additional = tuple(further[0]) if further else ()
    carried = tuple(carried)
    with record_into(recorder):
        while True:
            holds = _find_value(recorder, condition(*carried, *additional))
            if holds is False:
                return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in carried)
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


# Scans ----------------------------------------------------------------------------------------------------------------


def _run_scan(recorder: Recorder, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Run a scan by torch's own loop, without torch's extra turn to learn the shapes of the outputs."""
    combine, init, xs, *further = args
    *position, more = further or [()]  # torch 2.6 names the dimension and the direction before what else it hands on
    steps_to_drop = _count_steps_for_shapes()

    def step(*values: Any) -> Any:
        nonlocal steps_to_drop
        if not steps_to_drop:
            return combine(*values)
        steps_to_drop -= 1
        _, result = record_apart(recorder, lambda: combine(*values))
        return result

    with record_into(recorder):
        return find_scan()(step, init, xs, *position, additional_inputs=more)


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


#: The handlers of operators by name; any other operator is run by its kernel.
_HANDLERS: dict[str, Handler] = {
    "cond": _run_condition,
    "while_loop": _run_loop,
    "scan": _run_scan,
    "flex_attention": _run_flex_attention,
    **dict.fromkeys(("triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional"), _run_triton),
    **dict.fromkeys(
        ("strict_mode", "hints_wrapper", "run_const_graph"),
        _make_call(lambda function, operands, *_: (function, operands)),
    ),
    **dict.fromkeys(
        ("foreach_map", "invoke_quant", "local_map_hop"), _make_call(lambda function, *operands: (function, operands))
    ),
    "invoke_subgraph": _make_call(lambda function, _name, *operands: (function, operands)),
}
