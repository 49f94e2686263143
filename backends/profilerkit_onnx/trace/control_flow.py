"""Operators with graphs inside: ``If``, ``Loop`` and ``Scan``.

A branch that the constants choose is counted alone, otherwise the dearer one. A loop counts as often as it runs; where
that is not known before the model runs, one run of its body is counted, and the loop is named as missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from onnx import GraphProto, NodeProto

from profilerkit.costs import Shape

from .folding import array_of
from .values import Executed, Value

__all__ = ["SUBGRAPHS", "with_initializers"]

Values = dict[str, Value]
#: The walk that goes over these nodes; `trace.walk` has its class, and calls what is here.
Walk: TypeAlias = Any


def with_initializers(walk: Walk, graph: GraphProto, values: Mapping[str, Value]) -> Values:
    """Return the values around a graph and those of its own constants."""
    inner = dict(values)
    for tensor in graph.initializer:
        shape, array = Shape(tensor.dims), array_of(tensor)
        inner[tensor.name] = Value.of(walk.number(), tensor.data_type, shape, constant=True, array=array)
    for sparse in graph.sparse_initializer:
        inner[sparse.values.name] = Value.of(walk.number(), sparse.values.data_type, Shape(sparse.dims), constant=True)
    return inner


def _graph(node: NodeProto, name: str) -> GraphProto:
    graph: GraphProto = next(attribute.g for attribute in node.attribute if attribute.name == name)
    return graph


def _branches(walk: Walk, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
    condition = inputs[0].array if inputs[0] is not None else None
    names: tuple[str, ...] = ("then_branch", "else_branch")
    if condition is not None:
        names = (names[0],) if bool(condition.all()) else (names[1],)
    start, first_span = len(walk.executed), len(walk.spans)
    chosen: tuple[int, list[Executed], list[Any], list[Value]] | None = None
    for name in names:
        graph = _graph(node, name)
        inner = with_initializers(walk, graph, values)
        walk.over(graph.node, inner, times)
        branch, spans = walk.executed[start:], walk.spans[first_span:]
        del walk.executed[start:], walk.spans[first_span:]
        work = sum(each.flops * each.times for each in branch)
        if chosen is None or work > chosen[0]:
            chosen = (work, branch, spans, [inner[value.name] for value in graph.output])
    if chosen is None:
        return
    walk.executed.extend(chosen[1])
    walk.spans.extend(chosen[2])
    if len(names) > 1:
        walk.notes.append(f"the dearer branch of the If {node.name or node.output[0]!r} is counted")
    values.update(zip(node.output, chosen[3], strict=True))


def _loop(walk: Walk, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
    graph = _graph(node, "body")
    carried = len(inputs) - 2
    inner = with_initializers(walk, graph, values)
    turn = [Value(walk.number(), value.type) for value in graph.input[:2]]
    walk.executed.append(Executed("Loop", walk.node, (), tuple(turn), times))
    inner.update({formal.name: value for formal, value in zip(graph.input[:2], turn, strict=True)})
    for formal, value in zip(graph.input[2:], inputs[2:], strict=True):
        if value is not None:
            inner[formal.name] = _unknown_array(value)
    trips, start = _trips(inputs), len(walk.executed)
    walk.over(graph.node, inner, times * (1 if trips is None else trips))
    walk.spans.append((start, len(walk.executed)))
    outputs = [inner[value.name] for value in graph.output[1:]]
    stacked = [_stacked(walk, value, 0, trips) for value in outputs[carried:]]
    missing = "" if trips is not None else "Loop of an unknown number of trips"
    walk.executed.append(Executed("Loop", walk.node, tuple(outputs), tuple(stacked), times, missing=missing))
    values.update(zip(node.output, [*outputs[:carried], *stacked], strict=False))


def _unknown_array(value: Value) -> Value:
    """Return a carried value: of the same type and buffer, but its elements change from run to run."""
    return Value(value.number, value.type)


def _trips(inputs: Sequence[Value | None]) -> int | None:
    """Return how often a loop runs: its number of trips, unless a condition may end it earlier."""
    trips, condition = inputs[0], inputs[1]
    if trips is None or trips.array is None:
        return None
    if condition is not None and (condition.array is None or not bool(condition.array.all())):
        return 0 if condition.array is not None else None
    return max(int(trips.array), 0)


def _stacked(walk: Walk, value: Value, axis: int, length: int | None) -> Value:
    shape = value.shape
    if shape is None or length is None:
        return Value.of(walk.number(), value.element, None)
    axis = axis % (len(shape) + 1)
    return Value.of(walk.number(), value.element, Shape((*shape[:axis], length, *shape[axis:])))


def _scan(walk: Walk, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
    """Go over the body of a ``Scan`` of operator set 9 or newer, once for each slice of its inputs."""
    graph = _graph(node, "body")
    settings = {attribute.name: attribute for attribute in node.attribute}
    scanned = settings["num_scan_inputs"].i
    states = len(inputs) - scanned
    axes = list(settings["scan_input_axes"].ints) if "scan_input_axes" in settings else [0] * scanned
    inner = with_initializers(walk, graph, values)
    length: int | None = None
    for place, (formal, value) in enumerate(zip(graph.input, inputs, strict=True)):
        if value is None:
            continue
        if place < states:
            inner[formal.name] = _unknown_array(value)
            continue
        shape, axis = value.shape, axes[place - states]
        if shape is None:
            inner[formal.name] = Value.of(value.number, value.element, None)
            continue
        axis, length = axis % len(shape), shape[axis]
        inner[formal.name] = Value.of(value.number, value.element, Shape((*shape[:axis], *shape[axis + 1 :])))
    start = len(walk.executed)
    walk.over(graph.node, inner, times * (1 if length is None else length))
    walk.spans.append((start, len(walk.executed)))
    outputs = [inner[value.name] for value in graph.output]
    stacked = [
        _stacked(walk, value, axis, length)
        for value, axis in zip(outputs[states:], _output_axes(settings, len(outputs) - states), strict=True)
    ]
    missing = "" if length is not None else "Scan of an unknown length"
    walk.executed.append(Executed("Scan", walk.node, tuple(outputs), tuple(stacked), times, missing=missing))
    values.update(zip(node.output, [*outputs[:states], *stacked], strict=False))


def _output_axes(settings: Mapping[str, Any], number: int) -> list[int]:
    return list(settings["scan_output_axes"].ints) if "scan_output_axes" in settings else [0] * number


#: What goes over each operator with graphs inside.
SUBGRAPHS: dict[str, Callable[[Walk, NodeProto, Sequence[Value | None], Values, int], None]] = {
    "If": _branches,
    "Loop": _loop,
    "Scan": _scan,
}
