"""One pass over a model: the trace of it, on shapes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.branch_memory import spread_of_forks
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.product_dtypes import product_dtype
from profilerkit.backend_kit.scoped_calls import layer_calls, layer_records
from profilerkit.backend_kit.settings import list_changes
from profilerkit.trace.bounds import Branch, Choice, PeakSpread
from profilerkit.trace.conditions import write_notes
from profilerkit.trace.records import LayerCall, MemoryTimeline, OpRecord

from ..model.arrays import is_float
from ..model.calls import Function, make_forward
from ..model.subject import Subject
from ..model.subjects import find_subject
from ..model.weights import Lists, constant_records, weight_records
from ..training.steps import make_step
from ..untouched.settings import SETTINGS
from .frames import Frames
from .jaxprs import Traced, trace_pass
from .layer_costs import Calls, count_whole_layers
from .layers import count_turns, order_types
from .live_bytes import bytes_along
from .values import Executed, PendingChoice, Value
from .walk import Context, Walk

__all__ = ["trace_model", "trace_step"]

METHOD = "shapes in a jaxpr"
MEMORY_NOTE = "along the jaxpr, as written; XLA fuses, orders and reuses otherwise (profilerkit_jax.compiled_analysis)"
Made = Callable[[Subject, Function], Callable[[Any, Any], Any]]


def trace_model(model: Any, inputs: ModelInputs | None, walk: Callable[[Frames], Walk] = Walk) -> ModelTrace:
    """Trace one forward pass; without inputs, or if the model raises, the trace holds the layers alone."""
    return _trace(model, inputs, lambda subject, call: make_forward(call), training=False, make_walk=walk)


def trace_step(model: Any, inputs: ModelInputs) -> ModelTrace:
    """Trace one training step: the forward pass in training mode, and the gradients of the sum of its outputs."""
    return _trace(model, inputs, make_step, training=True)


def _trace(
    model: Any, inputs: ModelInputs | None, made: Made, training: bool, make_walk: Callable[[Frames], Walk] = Walk
) -> ModelTrace:
    subject = find_subject(model)
    if inputs is None:
        return _layers_alone(subject)
    try:
        return _walk(subject, trace_pass(subject, inputs, made, training), training, make_walk)
    except Exception as error:  # whatever the model raises
        return _layers_alone(subject, explain_failure(error, inputs, "jax", __package__ or ""))


def _layers_alone(subject: Subject, failure: Exception | None = None) -> ModelTrace:
    types = order_types(subject, {}, ())
    return ModelTrace(layer_records(types, weight_records(subject.leaves, types)), failure=failure)


def _walk(subject: Subject, traced: Traced, training: bool, make_walk: Callable[[Frames], Walk]) -> ModelTrace:
    met = traced.marks.types
    doubled = set(subject.scopes)
    if subject.kind == "flax.linen":
        doubled = {*met.values(), *(path.rpartition(".")[2] for path in met)}
    walk = make_walk(Frames(subject.types, doubled))
    jaxpr = traced.jaxpr.jaxpr
    closed_over = [
        walk.constant(variable.aval, value)
        for variable, value in zip(jaxpr.constvars, traced.jaxpr.consts, strict=True)
    ]
    stored = zip(jaxpr.invars[: traced.weights], subject.values, strict=True)
    weights = [walk.weight(variable.aval, value) for variable, value in stored]
    received = zip(jaxpr.invars[traced.weights :], traced.inputs, strict=True)
    inputs = [walk.input(variable.aval, value) for variable, value in received]
    results = walk.over(jaxpr, [*closed_over, *weights, *inputs], Context(instance=next(walk.instances)))
    types = order_types(subject, met, walk.frames.named)
    others = _of_other_branches(walk.choices)
    every = [*walk.executed, *others]
    count_whole_layers(every, subject, types, Calls(traced.marks.calls, training))
    records = weight_records(subject.leaves, types)
    records.setdefault("", ([], []))[1].extend(constant_records(walk.arrays.values(), len(subject.leaves)))
    outputs = results[: traced.outputs]
    return ModelTrace(
        layer_records(types, records, _calls(walk, inputs, outputs, traced)),
        tuple(map(_record, walk.executed)),
        _memory(walk, inputs, results, records),
        {**_count_missing(others), **_count_missing(walk.executed), **dict.fromkeys(_list_lacking(walk, traced), 1)},
        METHOD,
        tuple(_notes(walk, traced, subject)),
        choices=tuple(map(_choice, walk.choices)),
        peak_spread=_peak_spread(walk, inputs, results) if walk.knows_peaks else None,
    )


def _list_lacking(walk: Walk, traced: Traced) -> list[str]:
    """Return in words what this release of JAX does not tell, so that the counts are partial."""
    unneeded = "this release of JAX does not tell which equations no output needs: they may be among the counts"
    return [*walk.lacking, *([unneeded] if traced.has_all else [])]


def _calls(walk: Walk, inputs: Sequence[Value], outputs: Sequence[Value], traced: Traced) -> dict[str, list[LayerCall]]:
    """Return the calls of each layer: as the equations tell them, else as they were seen, for a layer without any."""
    calls = count_turns(layer_calls(walk.executed, inputs, outputs), walk.executed)
    silent = {path: made for path, made in traced.marks.calls.items() if path not in calls}
    with_calls = {**calls, **silent}
    for path, made in silent.items():
        has_caller = [call.caller is not None and call.caller[0] in with_calls for call in made]
        calls[path] = [
            replace(call, caller=call.caller if has else None, times=_times_of_caller(call, calls))
            for call, has in zip(made, has_caller, strict=True)
        ]
    return calls


def _times_of_caller(call: LayerCall, calls: Mapping[str, Sequence[LayerCall]]) -> int:
    """Return how often a layer without equations is called: as often as the layer that calls it."""
    made = calls.get(call.caller[0], ()) if call.caller is not None else ()
    return made[0].times if made else 1


def _record(op: Executed) -> OpRecord:
    scope = op.chain[-1]
    return OpRecord(
        op.operator,
        scope.path,
        scope.call,
        op.macs,
        op.flops,
        sum(value.bytes for value in op.inputs) * op.times,
        sum(value.bytes for value in op.outputs) * op.times,
        tuple(value.info for value in op.outputs),
        "backward" if op.is_backward else "forward",
        product_dtype=_find_product_dtype(op) if op.macs else None,
    )


def _find_product_dtype(op: Executed) -> str | None:
    """Return the dtype of what a product multiplies if that is narrower than what it writes; otherwise None."""
    return product_dtype([value.info.dtype for value in op.inputs], op.outputs[0].info.dtype)


def _count_missing(executed: Sequence[Executed]) -> Counter[str]:
    missing: Counter[str] = Counter()
    for op in executed:
        if op.missing:
            missing[op.missing] += max(op.times, 1)
    return missing


def _memory(walk: Walk, inputs: Sequence[Value], results: Sequence[Value], weights: Lists) -> MemoryTimeline:
    every = {record.identity: record.bytes for lists in weights.values() for one_list in lists for record in one_list}
    live = bytes_along(walk.executed, inputs, results, walk.spans)
    return MemoryTimeline(sum(every.values()), sum(value.bytes for value in inputs), live, MEMORY_NOTE)


def _peak_spread(walk: Walk, inputs: Sequence[Value], results: Sequence[Value]) -> PeakSpread:
    def timeline(executed: Sequence[Executed], spans: Sequence[tuple[int, int]]) -> Sequence[int]:
        return bytes_along(executed, inputs, results, spans)

    return spread_of_forks(walk.executed, walk.spans, walk.forks, timeline, sum(value.bytes for value in inputs))


def _notes(walk: Walk, traced: Traced, subject: Subject) -> list[str]:
    notes = [
        *write_notes(list_changes(SETTINGS, counts=True)),
        *walk.notes,
        *([traced.unmarked] if traced.unmarked else []),
    ]
    constants = sum(is_float(array) for array in walk.arrays.values())
    if constants and not any(leaf.is_parameter for leaf in subject.leaves):
        notes.append(
            f"no parameters: arrays that the function holds itself, {constants} here, count as buffers and have no "
            "gradients; give JaxModel(function, params) to count them as parameters"
        )
    if walk.folded:
        notes.append(
            f"{walk.folded} equations work on single numbers that are known before the function runs: XLA computes "
            "them while it compiles, and they count as nothing"
        )
    return notes


# Branches -----------------------------------------------------------------------------------------------------------


def _of_other_branches(choices: Sequence[PendingChoice]) -> list[Executed]:
    """Return the equations of the branches that are not counted."""
    others: list[Executed] = []
    for choice in choices:
        for index, (branch, inner) in enumerate(zip(choice.branches, choice.inner, strict=True)):
            others += [*([] if index == choice.counted else branch), *_of_other_branches(inner)]
    return others


def _choice(choice: PendingChoice) -> Choice:
    branches = tuple(
        Branch(_work(branch), tuple(map(_choice, inner)))
        for branch, inner in zip(choice.branches, choice.inner, strict=True)
    )
    return Choice(branches, choice.counted, choice.reason)


def _work(executed: Sequence[Executed]) -> Mapping[str, tuple[int, int]]:
    work: dict[str, tuple[int, int]] = {}
    for op in executed:
        path = op.chain[-1].path
        macs, flops = work.get(path, (0, 0))
        work[path] = (macs + op.macs, flops + op.flops)
    return work
