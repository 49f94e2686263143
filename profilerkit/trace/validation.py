"""The rules of a `ModelTrace`: the trace of a backend is checked by them once, before a metric reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..error_text import shown
from ..errors import InvalidTraceError
from .bounds import PeakSpread
from .columns import COUNTS, read_counts
from .layer_paths import count_depth, parent_path
from .records import LayerCall, LayerRecord, MemoryTimeline, ModelTrace, OpRecord, WeightRecord

__all__ = ["validate"]


class _BrokenRuleError(Exception):
    """Raised for a rule that is broken: the path of the layer, and the rule in words."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(rule)
        self.path, self.rule = path, rule


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
    try:
        _check_kinds(trace)
        _check_facts(trace)
        _check_layers(trace.layers)
        _check_operators(trace)
    except _BrokenRuleError as broken:
        raise InvalidTraceError(backend, broken.path, broken.rule) from None
    return trace


def _check_kinds(trace: ModelTrace) -> None:
    kinds = {"layers": LayerRecord, "operators": OpRecord, "memory": MemoryTimeline}
    for field, kind in kinds.items():
        for index, record in enumerate((trace.memory,) if field == "memory" else getattr(trace, field)):
            if not isinstance(record, kind):
                rule = f"{field} has {shown(record)} at index {index}, which is no {kind.__name__}"
                raise _BrokenRuleError("", rule)


def _check_facts(trace: ModelTrace) -> None:
    if trace.failure is not None and not isinstance(trace.failure, Exception):
        raise _BrokenRuleError("", f"failure is {shown(trace.failure)}: give the exception, or None")
    if trace.failure is not None and trace.operators:
        rule = f"there are a failure and {len(trace.operators)} operators: a pass that failed has none"
        raise _BrokenRuleError("", rule)
    if trace.operator_macs is not None and not _is_count(trace.operator_macs):
        raise _BrokenRuleError(
            "", f"operator_macs is {shown(trace.operator_macs)}: give a whole number from 0, or None"
        )
    if not isinstance(trace.peak_spread, PeakSpread | None):
        raise _BrokenRuleError("", f"peak_spread is {shown(trace.peak_spread)}: give a PeakSpread, or None")
    for field, calls in (("uncounted", trace.uncounted), ("unsized", trace.memory.unsized)):
        for name, number in calls.items():
            if not (_is_count(number) and number):
                rule = f"{field} has {shown(number)} calls of {name}: give how many there are, from 1"
                raise _BrokenRuleError("", rule)


def _check_layers(layers: Sequence[LayerRecord]) -> None:
    by_path = {layer.path: layer for layer in layers}
    if not layers or layers[0].path != "":
        first = f"the first layer has the path {shown(layers[0].path)}" if layers else "there are no layers"
        raise _BrokenRuleError("", f"{first}: the first layer is the model itself, with the path ''")
    if len(by_path) < len(layers):
        path, _ = Counter(layer.path for layer in layers).most_common(1)[0]
        raise _BrokenRuleError(path, "two layers have this path: give each layer a path of its own")
    for path, layer in by_path.items():
        around = parent_path(path)
        if around is not None and around not in by_path:
            rule = f"there is no layer {around!r} around it: every layer around a layer is one itself"
            raise _BrokenRuleError(path, rule)
        if layer.depth != count_depth(path):
            rule = f"depth is {shown(layer.depth)}: that of this path is {count_depth(path)}"
            raise _BrokenRuleError(path, rule)
        for weight in (*layer.parameters, *layer.buffers):
            if not isinstance(weight, WeightRecord):
                raise _BrokenRuleError(path, f"the weights have {shown(weight)}, which is no WeightRecord")
            if not _are_counts((weight.count, weight.bytes)):
                _check_counts(path, {"count": weight.count, "bytes": weight.bytes}, f"of the weight {weight.name!r}")
        for call in layer.calls:
            _check_call(call, path, by_path)


def _check_call(call: Any, path: str, by_path: Mapping[str, LayerRecord]) -> None:
    if not isinstance(call, LayerCall):
        raise _BrokenRuleError(path, f"the calls have {shown(call)}, which is no LayerCall")
    if call.caller is not None:
        caller, index = call.caller
        made = len(by_path[caller].calls) if caller in by_path else 0
        if not 0 <= index < made:
            rule = f"the caller of a call is call {index} of {caller!r}, which was called {made} times"
            raise _BrokenRuleError(path, rule)


def _check_operators(trace: ModelTrace) -> None:
    """Check the operators, and the bytes after each."""
    paths = {layer.path for layer in trace.layers}
    for index, op in enumerate(trace.operators):
        if op.layer not in paths:
            rule = f"the operator {op.operator} runs in this path, which is no layer: every operator is in one"
            raise _BrokenRuleError(op.layer, rule)
        counts, name, reads = read_counts(op), f"of the operator {op.operator}", op.reads
        if not _are_counts(counts):
            _check_counts(op.layer, dict(zip(COUNTS, counts, strict=True)), name)
        if not hasattr(op.call, "__index__") or op.call < -1:
            raise _BrokenRuleError(op.layer, f"call {name} is {shown(op.call)}: give an index, or -1")
        if op.phase not in ("forward", "backward"):
            raise _BrokenRuleError(op.layer, f"phase {name} is {shown(op.phase)}: give 'forward' or 'backward'")
        if reads and not (set(map(type, reads)) == {int} and min(reads) >= -1 and max(reads) < index):
            allowed = f"give places of operators before it (it is at {index}), or -1 for an input"
            raise _BrokenRuleError(op.layer, f"reads {name} is {shown(reads)}: {allowed}")
    memory, live_bytes = trace.memory, trace.memory.live_bytes
    if len(live_bytes) != len(trace.operators):
        rule = f"live_bytes has {len(live_bytes)} values for {len(trace.operators)} operators: give one for each"
        raise _BrokenRuleError("", rule)
    sizes = {"weight_bytes": memory.weight_bytes, "input_bytes": memory.input_bytes}
    _check_counts("", sizes | {f"parts[{name!r}]": size for name, size in memory.parts.items()}, "of the memory")
    if not _are_counts(live_bytes):
        for size, op in zip(live_bytes, trace.operators, strict=True):
            _check_counts(op.layer, {"live_bytes": size}, f"after the operator {op.operator}")


def _check_counts(path: str, numbers: Mapping[str, Any], where: str) -> None:
    """Refuse a number that is no count; ``numbers`` has them by name, and ``where`` tells their place."""
    for name, number in numbers.items():
        if not _is_count(number):
            raise _BrokenRuleError(path, f"{name} {where} is {shown(number)}: give a whole number from 0")


def _is_count(number: Any) -> bool:
    """Return whether something is a whole number from 0, Python's own or another library's."""
    return hasattr(number, "__index__") and bool(number >= 0)


def _are_counts(numbers: Collection[Any]) -> bool:
    """Return whether all of some numbers are counts of Python's own, as nearly all are: a trace has very many."""
    return not numbers or (set(map(type, numbers)) == {int} and min(numbers) >= 0)
