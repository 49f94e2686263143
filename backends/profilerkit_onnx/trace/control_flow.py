"""Operators with graphs inside: ``If``, ``Loop`` and ``Scan``.

A branch that constants or the given inputs choose is counted alone, otherwise the most expensive one, which makes an
upper bound. A
loop counts as often as it runs, also where its condition counts the turns (`trips`), and up to its limit where it may
stop before; without a limit, one run of its body is counted, and the loop is named as missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from profilerkit.backend_kit.branch_memory import Fork, Side
from profilerkit.costs import Shape
from profilerkit.trace.bounds import Branch, Choice

from .folding import read_array
from .trips import count_trips
from .values import Executed, Value

__all__ = ["SUBGRAPHS", "count_missing", "holds_conditions", "with_initializers"]

Values = dict[str, Value]
#: The walk that goes over these nodes; `trace.walk` has its class, and calls what is here.
Walk: TypeAlias = Any


def with_initializers(walk: Walk, graph: GraphProto, values: Mapping[str, Value]) -> Values:
    """Return the values around a graph and those of its own constants."""
    inner = dict(values)
    for tensor in graph.initializer:
        shape, array = Shape(tensor.dims), read_array(tensor)
        inner[tensor.name] = Value.of(walk.number(), tensor.data_type, shape, constant=True, array=array)
        walk.origins[inner[tensor.name].number] = tensor
    for sparse in graph.sparse_initializer:
        name, shape = sparse.values.name, Shape(sparse.dims)
        inner[name] = Value.of(walk.number(), sparse.values.data_type, shape, constant=True)
        walk.origins[inner[name].number] = sparse
    return inner


def _graph(node: NodeProto, name: str) -> GraphProto:
    graph: GraphProto = next(attribute.g for attribute in node.attribute if attribute.name == name)
    return graph


def holds_conditions(model: ModelProto) -> bool:
    """Say whether a model has an ``If`` or ``Loop``, in its own graph or in one of its functions."""
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while nodes:
        node = nodes.pop()
        if node.op_type in ("If", "Loop"):
            return True
        nodes += [inner for attribute in node.attribute for inner in attribute.g.node]
    return False


def count_missing(executed: Iterable[Executed]) -> Counter[str]:
    """Return what is not counted of operators, with its calls."""
    missing: Counter[str] = Counter()
    for op in executed:
        if op.missing:
            missing[op.missing] += max(op.times, 1)
    return missing


@dataclass(frozen=True)
class _Body:
    """What the walk over one graph has added: operators, loops, choices, what is not counted, and the outputs."""

    executed: list[Executed]
    spans: list[tuple[int, int]]
    choices: list[Choice]
    forks: list[Fork]
    missed: Counter[str]
    outputs: list[Value]

    @property
    def price(self) -> tuple[int, int]:
        """The key by which branches are compared: FLOPs, then MACs."""
        flops = sum(op.flops for op in self.executed)
        return flops, sum(op.macs for op in self.executed)

    @property
    def missing(self) -> Counter[str]:
        """What is not counted of it."""
        return count_missing(self.executed) + self.missed

    def side(self, *further: Executed) -> Side:
        """Return what it does to the bytes alive; ``further`` hand on what it returns."""
        return Side((*self.executed, *further), tuple(self.spans), tuple(self.forks))

    def branch(self, path: str) -> Branch:
        """Return its work, all of it in one layer: that of the operator with the graph."""
        work = ((path, op.macs, op.flops) for op in self.executed)
        return Branch.of(work, self.choices)


def _try(walk: Walk, graph: GraphProto, inner: Values, times: int) -> _Body:
    """Go over a graph inside an operator, and return what that adds, without adding it."""
    kept = walk.executed, walk.spans, walk.choices, walk.forks, walk.missed
    walk.executed, walk.spans, walk.choices, walk.forks, walk.missed = [], [], [], [], Counter()
    try:
        walk.over(graph.node, inner, times)
        outputs = [inner[value.name] for value in graph.output]
        return _Body(walk.executed, walk.spans, walk.choices, walk.forks, walk.missed, outputs)
    finally:
        walk.executed, walk.spans, walk.choices, walk.forks, walk.missed = kept


def _take(walk: Walk, body: _Body) -> None:
    """Add what the walk over a graph has returned."""
    before = len(walk.executed)
    walk.executed += body.executed
    walk.spans += [(start + before, end + before) for start, end in body.spans]
    walk.choices += body.choices
    walk.forks += [fork.shift(before) for fork in body.forks]
    walk.missed += body.missed


def _path(walk: Walk) -> str:
    return walk.paths[walk.node] if walk.paths else ""


def _branches(walk: Walk, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
    condition = inputs[0].array if inputs[0] is not None else None
    names: tuple[str, ...] = ("then_branch", "else_branch")
    if condition is not None:
        names = (names[0],) if bool(condition.all()) else (names[1],)
    graphs = [_graph(node, name) for name in names]
    tried = [_try(walk, graph, with_initializers(walk, graph, values), times) for graph in graphs]
    counted = max(range(len(tried)), key=lambda index: tried[index].price)
    taken, others = tried[counted], [body for index, body in enumerate(tried) if index != counted]
    for other in others:
        walk.missed += other.missing - taken.missing
    sides = tuple(body.branch(_path(walk)) for body in tried)
    if any(side != sides[0] for side in sides):
        taken = replace(taken, choices=[Choice(sides, counted, _DEARER.format(node.name or node.output[0]))])
    if others:
        instead = [other.side(*_hand_on(walk, other.outputs, taken.outputs)) for other in others]
        taken = replace(taken, forks=[Fork(0, taken.side(), instead, _DEARER.format(node.name or node.output[0]))])
    _take(walk, taken)
    outputs = taken.outputs
    if others:
        outputs = [value.agree(rest) for value, *rest in zip(outputs, *(o.outputs for o in others), strict=True)]
    elif inputs[0] is not None and inputs[0].from_inputs:
        outputs = _by_inputs(outputs)
    values.update(zip(node.output, outputs, strict=True))


_DEARER = "the condition of the If {!r} depends on values: the most expensive of its branches is counted"
_MAY_STOP = "the Loop {!r} may stop before its limit: it is counted up to that"
_MAY_NOT_RUN = "the Loop {!r}, whose number of trips is not known, may not run at all: it is counted once"


def _hand_on(walk: Walk, values: Iterable[Value | None], results: Sequence[Value]) -> Iterator[Executed]:
    """Yield what hands values on as results that operators would make which are not run."""
    for value, result in zip(values, results, strict=False):
        if value is not None and value is not result:
            yield Executed("Identity", walk.node, (value,), (result,))


def _loop(walk: Walk, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
    graph, limit = _graph(node, "body"), _limit(inputs)
    begins, condition = inputs[2:], inputs[1]
    counted = _count_turns(walk, graph, limit, inputs, values)
    limit = limit if counted is None else counted
    turn = [Value.of(walk.number(), element, Shape(())) for element in (TensorProto.INT64, TensorProto.BOOL)]
    if condition is not None and condition.array is not None:
        turn[1].array = np.asarray(True)  # where it is false the body does not run
    walk.executed.append(Executed("Loop", walk.node, (), tuple(turn), times))
    body = _iterate(walk, graph, turn, begins, values, times * (1 if limit is None else limit))
    may_stop = counted is None and condition is not None and limit != 0 and not _is_true(body.outputs[0])
    if limit is None or (limit and may_stop):
        body = _perhaps(walk, body, begins, (_MAY_NOT_RUN if limit is None else _MAY_STOP).format(_name(node)))
    start = len(walk.executed)
    _take(walk, body)
    walk.spans.append((start, len(walk.executed)))
    trips, outputs = None if may_stop else limit, body.outputs[1:]
    carried = [
        value if trips or before is None else before if trips == 0 else value.agree([before])  # it may not run at all
        for value, before in zip(outputs[: len(begins)], begins, strict=True)
    ]
    stacked = [_stack(walk, value, 0, trips) for value in outputs[len(begins) :]]
    missing = "" if limit is not None else "Loop of an unknown number of trips"
    walk.executed.append(Executed("Loop", walk.node, tuple(outputs), tuple(stacked), times, missing=missing))
    if any(value.from_inputs for value in values.values()):
        carried = _by_inputs(carried)
    values.update(zip(node.output, [*carried, *stacked], strict=False))


def _by_inputs(outputs: Sequence[Value]) -> list[Value]:
    """Return the same values, none of which follows from the file alone: the inputs have decided what makes them."""
    return [Value(value.number, value.type, False, value.array, True) for value in outputs]


def _name(node: NodeProto) -> str:
    return node.name or node.output[0]


def _perhaps(walk: Walk, body: _Body, begins: Sequence[Value | None], reason: str) -> _Body:
    """Return the body of a loop as one side of a choice: it may not run, so that the first values are handed on."""
    work, none = body.branch(_path(walk)), Side(tuple(_hand_on(walk, begins, body.outputs[1:])))
    choices = [Choice((work, Branch({})), 0, reason)] if work.work else []
    return replace(body, choices=choices, forks=[Fork(0, body.side(), [none], reason)])


def _iterate(
    walk: Walk,
    graph: GraphProto,
    turn: Sequence[Value],
    begins: Sequence[Value | None],
    values: Values,
    times: int,
) -> _Body:
    """Go over the body of a loop with what is known in every run: of its first values, what does not change."""
    carried = [None if value is None else _forget_array(value) for value in begins]
    while True:
        inner = with_initializers(walk, graph, values)
        named = zip(graph.input, [*turn, *carried], strict=True)
        inner.update({formal.name: value for formal, value in named if value is not None})
        body = _try(walk, graph, inner, times)
        after = [
            before if before is None else _forget_array(before.agree([value]))
            for before, value in zip(carried, body.outputs[1:], strict=False)
        ]
        if all(
            one is None or other is None or one.type == other.type for one, other in zip(carried, after, strict=True)
        ):
            return body
        carried = after  # a size that differs from run to run


def _is_true(value: Value) -> bool:
    return value.array is not None and bool(value.array.all())


def _forget_array(value: Value) -> Value:
    """Return a carried value: of the same type and buffer, but its elements change from run to run."""
    return Value(value.number, value.type)


def _limit(inputs: Sequence[Value | None]) -> int | None:
    """Return how often a loop runs at most: 0 where its condition is false at once; None where that is not known."""
    trips, condition = inputs[0], inputs[1]
    if condition is not None and condition.array is not None and not _is_true(condition):
        return 0
    return None if trips is None or trips.array is None else max(int(trips.array), 0)


def _count_turns(
    walk: Walk, graph: GraphProto, limit: int | None, inputs: Sequence[Value | None], values: Values
) -> int | None:
    """Return how often a loop runs whose condition is known before the model runs; None for any other.

    If a loop gets no condition, the one that its body makes is ignored.
    """
    condition = inputs[1]
    if limit == 0 or condition is None or condition.array is None:
        return None
    return count_trips(graph, limit, inputs[2:], with_initializers(walk, graph, values), walk.opsets)


def _stack(walk: Walk, value: Value, axis: int, length: int | None) -> Value:
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
    for index, (formal, value) in enumerate(zip(graph.input, inputs, strict=True)):
        if value is None:
            continue
        if index < states:
            inner[formal.name] = _forget_array(value)
            continue
        shape, axis = value.shape, axes[index - states]
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
        _stack(walk, value, axis, length)
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
