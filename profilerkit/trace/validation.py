"""The rules of a `ModelTrace`: the trace of a backend is checked by them once, before a metric reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..error_text import shown
from ..errors import InvalidTraceError
from .bounds import PeakSpread
from .columns import COUNTS, read_counts
from .layer_paths import count_depth, parent_path
from .records import LayerCall, LayerRecord, MemoryTimeline, ModelTrace, OpRecord, WeightRecord

__all__ = ["validate"]

_PHASES = ("forward", "backward")


class _Fault(NamedTuple):
    """A rule that is broken: the path of the layer, and the rule in words."""

    path: str
    rule: str


def validate(trace: Any, backend: str) -> ModelTrace:
    """Return the trace that a backend has made.

    The rules: the root, with the path ``""``, is the first layer; paths are distinct; every layer around a layer is
    among the layers; a depth is the depth of the path; every operator runs in a layer, and reads only operators before
    it; no count, size or number of bytes is negative; the memory timeline has one value for each operator; a failure is
    an exception, and the trace then has layers only.

    Raises `InvalidTraceError` for the first rule that is broken, with the backend, the path and the rule.
    """
    if not isinstance(trace, ModelTrace):
        raise InvalidTraceError(backend, "", f"trace() returned {shown(trace)}: return a ModelTrace")
    fault = next(_find_faults(trace), None)
    if fault is not None:
        raise InvalidTraceError(backend, fault.path, fault.rule)
    return trace


def _find_faults(trace: ModelTrace) -> Iterator[_Fault]:
    yield from _check_kinds("layers", trace.layers, LayerRecord)
    yield from _check_kinds("operators", trace.operators, OpRecord)
    yield from _check_kinds("memory", (trace.memory,), MemoryTimeline)
    yield from _check_facts(trace)
    layers = {layer.path: layer for layer in trace.layers}
    yield from _check_paths(trace.layers, layers)
    for layer in trace.layers:
        yield from _check_weights(layer)
        yield from _check_calls(layer, layers)
    for index, op in enumerate(trace.operators):
        yield from _check_operator(op, index, layers)
    yield from _check_memory(trace.memory, trace.operators)


def _check_kinds(field: str, records: Sequence[Any], kind: type) -> Iterator[_Fault]:
    for index, record in enumerate(records):
        if not isinstance(record, kind):
            yield _Fault("", f"{field} has {shown(record)} at index {index}, which is no {kind.__name__}")


def _check_facts(trace: ModelTrace) -> Iterator[_Fault]:
    if trace.failure is not None and not isinstance(trace.failure, Exception):
        yield _Fault("", f"failure is {shown(trace.failure)}: give the exception, or None")
    if trace.failure is not None and trace.operators:
        yield _Fault("", f"there are a failure and {len(trace.operators)} operators: a pass that failed has none")
    if trace.operator_macs is not None and not _is_count(trace.operator_macs):
        yield _Fault("", f"operator_macs is {shown(trace.operator_macs)}: give a whole number from 0, or None")
    if trace.peak_spread is not None and not isinstance(trace.peak_spread, PeakSpread):
        yield _Fault("", f"peak_spread is {shown(trace.peak_spread)}: give a PeakSpread, or None")
    for field, calls in (("uncounted", trace.uncounted), ("unsized", trace.memory.unsized)):
        for name, number in calls.items():
            if not (_is_count(number) and number):
                yield _Fault("", f"{field} has {shown(number)} calls of {name}: give how many there are, from 1")


def _check_paths(layers: Sequence[LayerRecord], by_path: Mapping[str, LayerRecord]) -> Iterator[_Fault]:
    if not layers or layers[0].path != "":
        first = f"the first layer has the path {shown(layers[0].path)}" if layers else "there are no layers"
        yield _Fault("", f"{first}: the first layer is the model itself, with the path ''")
    if len(by_path) < len(layers):
        path, _ = Counter(layer.path for layer in layers).most_common(1)[0]
        yield _Fault(path, "two layers have this path: give each layer a path of its own")
    for path, layer in by_path.items():
        around = parent_path(path)
        if around is not None and around not in by_path:
            yield _Fault(path, f"there is no layer {around!r} around it: every layer around a layer is one itself")
        if layer.depth != count_depth(path):
            yield _Fault(path, f"depth is {shown(layer.depth)}: that of this path is {count_depth(path)}")


def _check_weights(layer: LayerRecord) -> Iterator[_Fault]:
    for weight in (*layer.parameters, *layer.buffers):
        if not isinstance(weight, WeightRecord):
            yield _Fault(layer.path, f"the weights have {shown(weight)}, which is no WeightRecord")
        elif not _are_counts((weight.count, weight.bytes)):
            counts = {"count": weight.count, "bytes": weight.bytes}
            yield from _check_counts(layer.path, counts, f"of the weight {weight.name!r}")


def _check_calls(layer: LayerRecord, by_path: Mapping[str, LayerRecord]) -> Iterator[_Fault]:
    for call in layer.calls:
        if not isinstance(call, LayerCall):
            yield _Fault(layer.path, f"the calls have {shown(call)}, which is no LayerCall")
        elif call.caller is not None:
            path, index = call.caller
            made = len(by_path[path].calls) if path in by_path else 0
            if not 0 <= index < made:
                caller = f"call {index} of {path!r}, which was called {made} times"
                yield _Fault(layer.path, f"the caller of a call is {caller}")


def _check_operator(op: OpRecord, index: int, paths: Collection[str]) -> Iterator[_Fault]:
    if op.layer not in paths:
        rule = f"the operator {op.operator} runs in this path, which is no layer: every operator is in one"
        yield _Fault(op.layer, rule)
    counts = read_counts(op)
    if not _are_counts((*counts, op.call + 1)):
        yield from _check_counts(op.layer, dict(zip(COUNTS, counts, strict=True)), f"of the operator {op.operator}")
        if not _is_count(op.call + 1):
            yield _Fault(op.layer, f"call of the operator {op.operator} is {op.call}: give an index, or -1")
    if op.phase not in _PHASES:
        phase = f"phase of the operator {op.operator} is {shown(op.phase)}"
        yield _Fault(op.layer, f"{phase}: give 'forward' or 'backward'")
    reads = op.reads
    if reads and not (set(map(type, reads)) == {int} and min(reads) >= -1 and max(reads) < index):
        allowed = f"give places of operators before it (it is at {index}), or -1 for an input"
        yield _Fault(op.layer, f"reads of the operator {op.operator} is {shown(op.reads)}: {allowed}")


def _check_memory(memory: MemoryTimeline, operators: Sequence[OpRecord]) -> Iterator[_Fault]:
    if len(memory.live_bytes) != len(operators):
        count = len(memory.live_bytes)
        yield _Fault("", f"live_bytes has {count} values for {len(operators)} operators: give one for each")
    sizes = {"weight_bytes": memory.weight_bytes, "input_bytes": memory.input_bytes}
    for name, size in memory.parts.items():
        sizes[f"parts[{name!r}]"] = size
    yield from _check_counts("", sizes, "of the memory")
    if not _are_counts(memory.live_bytes):
        for size, op in zip(memory.live_bytes, operators, strict=True):
            yield from _check_counts(op.layer, {"live_bytes": size}, f"after the operator {op.operator}")


def _check_counts(path: str, numbers: Mapping[str, Any], where: str) -> Iterator[_Fault]:
    """Yield a fault for each number that is no count; ``numbers`` has them by name, and ``where`` tells their place."""
    for name, number in numbers.items():
        if not _is_count(number):
            yield _Fault(path, f"{name} {where} is {shown(number)}: give a whole number from 0")


def _is_count(number: Any) -> bool:
    """Say whether something is a whole number from 0, Python's own or another library's."""
    return hasattr(number, "__index__") and bool(number >= 0)


def _are_counts(numbers: Collection[Any]) -> bool:
    """Say whether all of some numbers are counts of Python's own, as nearly all are: a trace has very many of them."""
    return not numbers or (set(map(type, numbers)) == {int} and min(numbers) >= 0)
