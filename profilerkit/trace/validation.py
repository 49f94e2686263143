"""The rules of a `ModelTrace`: what a backend returns is checked by them once, before a metric reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..error_text import shown
from ..errors import InvalidTraceError
from .bounds import WORK, PeakSpread
from .layer_paths import count_depth, parent_path
from .operator_rows import TRAFFIC
from .records import LayerCall, LayerRecord, MemoryTimeline, ModelTrace, OpRecord, WeightRecord

__all__ = ["validate"]

#: The path of what is broken, and the rule in words.
Broken = tuple[str, str]

_COUNTS = (*WORK, *TRAFFIC)
_PHASES = ("forward", "backward")


def validate(trace: Any, backend: str) -> ModelTrace:
    """Return the trace that a backend has made.

    The rules: the root, with the path ``""``, is the first layer; paths are distinct; every layer around a layer is
    one; a depth is that of the path; every operator runs in a layer, and reads only operators before it; no count, size
    or number of bytes is negative; the memory timeline has one value for each operator; a failure is an exception, and
    leaves the layers alone.

    Raises `InvalidTraceError` for the first rule that is broken, with the backend, the path and the rule.
    """
    if not isinstance(trace, ModelTrace):
        raise InvalidTraceError(backend, "", f"trace() returned {shown(trace)}: return a ModelTrace")
    for path, rule in _find_faults(trace):
        raise InvalidTraceError(backend, path, rule)
    return trace


def _find_faults(trace: ModelTrace) -> Iterator[Broken]:
    yield from _of_kind("layers", trace.layers, LayerRecord)
    yield from _of_kind("operators", trace.operators, OpRecord)
    yield from _of_kind("memory", (trace.memory,), MemoryTimeline)
    if trace.failure is not None:
        if not isinstance(trace.failure, Exception):
            yield "", f"failure is {shown(trace.failure)}: give the exception, or None"
        if trace.operators:
            yield "", f"there are a failure and {len(trace.operators)} operators: a pass that failed has none"
    layers = {layer.path: layer for layer in trace.layers}
    yield from _broken_paths(trace.layers, layers)
    yield from _broken_weights(trace.layers)
    yield from _broken_calls(trace.layers, layers)
    yield from _broken_operators(trace.operators, layers)
    yield from _broken_memory(trace.memory, trace.operators)
    if trace.operator_macs is not None and not _is_count(trace.operator_macs):
        yield "", f"operator_macs is {shown(trace.operator_macs)}: give a whole number from 0, or None"
    if trace.peak_spread is not None and not isinstance(trace.peak_spread, PeakSpread):
        yield "", f"peak_spread is {shown(trace.peak_spread)}: give a PeakSpread, or None"
    for field, calls in (("uncounted", trace.uncounted), ("unsized", trace.memory.unsized)):
        for name, number in calls.items():
            if not (_is_count(number) and number):
                yield "", f"{field} has {shown(number)} calls of {name}: give how many there are, from 1"


def _of_kind(field: str, records: Sequence[Any], kind: type) -> Iterator[Broken]:
    if set(map(type, records)) <= {kind}:
        return
    for index, record in enumerate(records):
        if not isinstance(record, kind):
            yield "", f"{field} has {shown(record)} at index {index}, which is no {kind.__name__}"


def _is_count(number: Any) -> bool:
    """Say whether something is a whole number from 0, Python's own or another library's."""
    return hasattr(number, "__index__") and bool(number >= 0)


# Layers -------------------------------------------------------------------------------------------------------------


def _broken_paths(layers: Sequence[LayerRecord], by_path: Mapping[str, LayerRecord]) -> Iterator[Broken]:
    if not layers or layers[0].path != "":
        first = f"the first layer has the path {shown(layers[0].path)}" if layers else "there are no layers"
        yield "", f"{first}: the first layer is the model itself, with the path ''"
    if len(by_path) < len(layers):
        path, _ = Counter(layer.path for layer in layers).most_common(1)[0]
        yield path, "two layers have this path: give each layer a path of its own"
    for path, layer in by_path.items():
        around = by_path.get(path.rpartition(".")[0])
        if around is not None and layer.depth == around.depth + 1 and path:
            continue
        if around is None:
            yield path, f"there is no layer {parent_path(path)!r} around it: every layer around a layer is one itself"
        if layer.depth != count_depth(path):
            yield path, f"depth is {shown(layer.depth)}: that of this path is {count_depth(path)}"


def _broken_weights(layers: Iterable[LayerRecord]) -> Iterator[Broken]:
    for layer in _with_suspect_weights(layers):
        for weight in (*layer.parameters, *layer.buffers):
            if not isinstance(weight, WeightRecord):
                yield layer.path, f"the weights have {shown(weight)}, which is no WeightRecord"
            elif not (_is_count(weight.count) and _is_count(weight.bytes)):
                what, number = ("bytes", weight.bytes) if _is_count(weight.count) else ("count", weight.count)
                yield layer.path, f"{what} of the weight {weight.name!r} is {shown(number)}: give a whole number from 0"


def _with_suspect_weights(layers: Iterable[LayerRecord]) -> Iterable[LayerRecord]:
    """Return the layers whose weights break a rule, found in one quick look as `_suspects` are."""
    try:
        return [
            layer
            for layer in layers
            for weights in (layer.parameters, layer.buffers)
            for weight in weights
            if (weight.count | weight.bytes) < 0
        ]
    except (AttributeError, TypeError):
        return layers


def _broken_calls(layers: Iterable[LayerRecord], by_path: Mapping[str, LayerRecord]) -> Iterator[Broken]:
    for layer in layers:
        for call in layer.calls:
            if not isinstance(call, LayerCall):
                yield layer.path, f"the calls have {shown(call)}, which is no LayerCall"
            elif (caller := call.caller) is not None:
                path, index = caller
                made = len(by_path[path].calls) if path in by_path else 0
                if not 0 <= index < made:
                    yield layer.path, f"the caller of a call is call {index} of {path!r}, which was called {made} times"


# Operators ----------------------------------------------------------------------------------------------------------


def _broken_operators(operators: Sequence[OpRecord], paths: Collection[str]) -> Iterator[Broken]:
    for op in _suspects(operators, paths):
        of = f"of the operator {op.operator} is"
        if op.layer not in paths:
            yield op.layer, f"the operator {op.operator} runs in this path, which is no layer: every operator is in one"
        for name in _COUNTS:
            if not _is_count(getattr(op, name)):
                yield op.layer, f"{name} {of} {shown(getattr(op, name))}: give a whole number from 0"
        if not _is_count(op.call + 1):
            yield op.layer, f"call {of} {op.call}: give an index, or -1"
        if op.phase not in _PHASES:
            yield op.layer, f"phase {of} {shown(op.phase)}: give 'forward' or 'backward'"
    for index, op in enumerate(operators):
        if not all(type(read) is int and -1 <= read < index for read in op.reads):
            allowed = f"give places of operators before it (it is at {index}), or -1 for an input"
            yield op.layer, f"reads of the operator {op.operator} is {shown(op.reads)}: {allowed}"


def _suspects(operators: Sequence[OpRecord], paths: Collection[str]) -> Sequence[OpRecord]:
    """Return the operators that break a rule, found in one quick look; there may be very many.

    "Or", bit by bit, is negative where one of the numbers is, and raises where one is no whole number.
    """
    try:
        return [
            op
            for op in operators
            if (op.macs | op.flops | op.bytes_read | op.bytes_written | op.call + 1) < 0
            or op.layer not in paths
            or op.phase not in _PHASES
        ]
    except TypeError:
        return operators


# Memory -------------------------------------------------------------------------------------------------------------


def _broken_memory(memory: MemoryTimeline, operators: Sequence[OpRecord]) -> Iterator[Broken]:
    live = memory.live_bytes
    if len(live) != len(operators):
        yield "", f"live_bytes has {len(live)} values for {len(operators)} operators: give one for each"
    parts = [(f"parts[{name!r}]", size) for name, size in memory.parts.items()]
    for name, size in (("weight_bytes", memory.weight_bytes), ("input_bytes", memory.input_bytes), *parts):
        if not _is_count(size):
            yield "", f"{name} of the memory is {shown(size)}: give a whole number from 0"
    if set(map(type, live)) <= {int} and (not live or min(live) >= 0):
        return
    for size, op in zip(live, operators, strict=True):
        if not _is_count(size):
            yield op.layer, f"live_bytes after the operator {op.operator} is {shown(size)}: give a whole number from 0"
