"""The walk over a graph in its order: shapes, constants and costs of every operator, and of the graphs inside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count, zip_longest
from typing import Any, NamedTuple

import numpy as np

from profilerkit.backend_kit.graph_work import Body, Executed, Work, count_first, note_apart
from profilerkit.backend_kit.operator_calls import Shapes
from profilerkit.costs import Cost

from ..costs import LiteRTCall, price
from ..model.reading import Graph, LiteRTModel, Operator, Tensor
from .shapes import Result, infer
from .values import Value

__all__ = ["Walk"]

#: The most operators that are gone over, some seconds: graphs that call one another may double at each call.
_MOST_OPERATORS = 100_000
#: The most operators that are gone over to count the turns of a loop; a turn without any counts as one.
_MOST_IN_TURNS = 20_000
#: The most elements whose values are kept.
_LARGEST = 4096
#: Operators that unpack weights, which LiteRT does once.
_UNPACKING = ("DENSIFY", "DEQUANTIZE")
#: Operators whose result does not follow from what they read.
_UNKNOWABLE = ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "READ_VARIABLE", "VAR_HANDLE")


class UnfitError(Exception):
    """What reaches an operator does not fit it."""


class _Visit(NamedTuple):
    """An operator that the walk has come to.

    Attributes:
        operator: The operator.
        inputs: The values that it reads; None for an optional one that is left out.
        outputs: The tensors that it makes, as the graph declares them.
        times: How often it runs.
        depth: How many graphs hold the graph that it is in.
    """

    operator: Operator
    inputs: Sequence[Value | None]
    outputs: Sequence[Tensor]
    times: int
    depth: int

    @property
    def operands(self) -> list[Value]:
        """The values that it reads, without those that are left out."""
        return [value for value in self.inputs if value is not None]


class _Turns(NamedTuple):
    """What is known of a loop that was followed turn by turn.

    Attributes:
        number: How often its body runs; None where that is not known, or where it takes too long to find out.
        common: What is known of the carried values in every turn.
        last: The carried values after the last turn that was followed.
    """

    number: int | None
    common: list[Value]
    last: list[Value]


@dataclass
class Walk:
    """Goes over the operators of a model in order, and notes what runs.

    Attributes:
        model: The model.
        paths: The path of the layer of each operator of the graph that is profiled.
        work: What runs.
        notes: What a reader of the numbers must know besides.
        constants: How many operators depend on constants and shapes alone.
        node: The index of the operator of the graph that is profiled.
        seen: How many operators it has come by.
    """

    model: LiteRTModel
    paths: Sequence[str]
    work: Work = field(default_factory=Work)
    notes: dict[str, None] = field(default_factory=dict)
    constants: int = 0
    node: int = -1
    seen: int = 0
    _numbers: count[int] = field(default_factory=count)

    def make_value(self, tensor: Tensor, sizes: tuple[int, ...] | None, **facts: Any) -> Value:
        """Return a new value of a tensor, of these sizes."""
        return Value(next(self._numbers), tensor.dtype, sizes, declared=tensor.shape, **facts)

    def walk_graph(self, graph: Graph, inputs: Sequence[Value], times: int = 1, depth: int = 0) -> list[Value]:
        """Go over a graph that runs so many times on these inputs; return what it returns.

        ``depth`` is how many graphs hold it: 0 for the graph that is profiled.
        """
        if depth > len(self.model.graphs):
            raise UnfitError(f"the graph {graph.name!r} calls itself; convert the model again")
        values = dict(zip(graph.inputs, inputs, strict=True))
        for position, operator in enumerate(graph.operators):
            if depth == 0:
                self.node = position
            self._count_operator()
            outputs = self._walk_operator(self._visit(graph, operator, values, times, depth))
            values.update(zip(operator.outputs, outputs, strict=False))
        return [self._find(graph, values, index, "the end") for index in graph.outputs]

    def _count_operator(self) -> None:
        self.seen += 1
        if self.seen > _MOST_OPERATORS:
            raise UnfitError(f"its graphs call one another for more than {_MOST_OPERATORS:,} operators in all")

    def _visit(self, graph: Graph, operator: Operator, values: dict[int, Value], times: int, depth: int) -> _Visit:
        """Return an operator with what it reads; ``values`` are those of the graph by the indices of their tensors."""
        inputs = [None if index < 0 else self._find(graph, values, index, operator.name) for index in operator.inputs]
        return _Visit(operator, inputs, [graph.tensors[index] for index in operator.outputs], times, depth)

    def _find(self, graph: Graph, values: dict[int, Value], index: int, reader: str) -> Value:
        """Return the value of a tensor; of a constant or a state, a new one."""
        if index not in values:
            tensor = graph.tensors[index]
            if tensor.data is None and not tensor.is_variable and tensor.sizes is not None and 0 not in tensor.sizes:
                raise UnfitError(f"{reader} reads the tensor {tensor.name!r}, which nothing before it makes")
            array = (
                tensor.array if tensor.data is not None or tensor.sizes is None else np.zeros(tensor.sizes, np.int32)
            )
            values[index] = self.make_value(tensor, tensor.sizes, constant=not tensor.is_variable, array=array)
        return values[index]

    def _walk_operator(self, visit: _Visit) -> list[Value]:
        """Go over an operator, with the graphs that it holds; return what it makes."""
        match visit.operator.name:
            case "CALL" | "CALL_ONCE" | "STABLEHLO_COMPOSITE":
                return self._walk_call(visit)
            case "IF":
                return self._walk_branches(visit)
            case "WHILE" | "STABLEHLO_WHILE":
                return self._walk_loop(visit)
            case "STABLEHLO_REDUCE_WINDOW" | "STABLEHLO_SCATTER":
                return self._walk_joining(visit)
        return self._walk_alone(visit)

    # Operators without graphs inside ----------------------------------------------------------------------------------

    def _walk_alone(self, visit: _Visit) -> list[Value]:
        """Go over an operator without graphs inside, and note its cost.

        What depends on constants and shapes alone is prepared once if it is no arithmetic, or unpacks a weight. Other
        work on constants LiteRT repeats in each pass.
        """
        call = _describe_call(visit)
        outputs = self._make_outputs(visit, _infer_results(visit, call))
        cost, missing = _price(call, outputs)
        is_work = bool(cost.macs or cost.flops or missing) and visit.operator.name not in _UNPACKING
        if outputs and all(value.constant for value in outputs):
            if not is_work:
                self.constants += 1
                return outputs
            outputs = [replace(value, constant=False) for value in outputs]
        macs, flops = cost.macs * visit.times, cost.flops * visit.times
        node = Executed(
            visit.operator.name, self.node, visit.operands, outputs, visit.times, macs, flops, missing=missing
        )
        self.work.executed.append(node)
        return outputs

    def _make_outputs(self, visit: _Visit, results: Sequence[Result]) -> list[Value]:
        """Return what an operator makes; where no result was inferred, with the sizes that the file declares."""
        operands, name = visit.operands, visit.operator.name
        is_constant = bool(operands) and all(value.constant for value in operands) and name not in _UNKNOWABLE
        outputs = []
        for tensor, result in zip_longest(visit.outputs, results[: len(visit.outputs)]):
            sizes, array = tensor.sizes, None
            if isinstance(result, np.ndarray):
                sizes, array = result.shape, result if result.size <= _LARGEST else None
            elif result is not None:
                sizes = result
            is_shape = name in ("RANK", "SHAPE") and array is not None
            outputs.append(self.make_value(tensor, sizes, constant=is_constant or is_shape, array=array))
        return outputs

    # Operators that hold graphs ---------------------------------------------------------------------------------------

    def _walk_body(self, visit: _Visit, graph: int, inputs: Sequence[Value], turns: int = 1) -> Body[Value]:
        """Go over a graph of an operator, which runs so many times in each of its runs.

        Its work is returned with its results, and not added to that so far.
        """
        with note_apart(self) as work:
            results = self.walk_graph(self._find_graph(graph), inputs, visit.times * turns, visit.depth + 1)
        return Body(work, results)

    def _find_graph(self, index: int) -> Graph:
        if not 0 <= index < len(self.model.graphs):
            raise UnfitError(f"it has no graph {index}")
        return self.model.graphs[index]

    def _walk_call(self, visit: _Visit) -> list[Value]:
        """Go over the graph that a call names; what runs once, before the first pass, counts as nothing."""
        [called] = visit.operator.graphs
        body = self._walk_body(visit, called, visit.operands)
        if visit.operator.name == "CALL_ONCE":
            self.notes["CALL_ONCE prepares variables and tables before the first pass: it counts as nothing"] = None
        else:
            self.work.add(body.work)
        return list(body.outputs)

    def _walk_branches(self, visit: _Visit) -> list[Value]:
        """Go over the branch that a known condition takes; count the dearer one where it is not known."""
        condition, *inputs = visit.operands
        if condition.array is not None:
            taken = self._walk_body(visit, visit.operator.graphs[0 if condition.array.all() else 1], inputs)
            self.work.add(taken.work)
            return list(taken.outputs)
        bodies = [self._walk_body(visit, branch, inputs) for branch in visit.operator.graphs]
        dearer, cheaper = sorted(bodies, key=lambda body: body.work.price, reverse=True)
        results = [_merge(value, other) for value, other in zip(dearer.outputs, cheaper.outputs, strict=True)]
        path = self.paths[self.node]
        reason = f"the condition of an IF in {path or 'the model'!r} depends on values: the dearer branch is counted"
        self.work.add(count_first(Body(dearer.work, results), cheaper, self.node, path, reason))
        return results

    def _walk_joining(self, visit: _Visit) -> list[Value]:
        """Count the graph that joins two elements, once for each update, or for each element of each window."""
        [joining], name = visit.operator.graphs, visit.operator.name
        outputs = self._make_outputs(visit, ())
        shape, window = (outputs[0].shape, visit.operator.option("windowDimensions", ()))
        if name == "STABLEHLO_SCATTER":
            shape = visit.operands[2].shape
        joined = 0 if shape is None else shape.numel * math.prod(map(int, window))
        graph = self._find_graph(joining)
        pair = [self.make_value(graph.tensors[index], ()) for index in graph.inputs]
        self.work.add_loop(self._walk_body(visit, joining, pair, joined).work)
        missing = f"{name} of unknown shape" if shape is None else ""
        self.work.executed.append(Executed(name, self.node, visit.operands, outputs, visit.times, missing=missing))
        return outputs

    def _walk_loop(self, visit: _Visit) -> list[Value]:
        """Count the turns of a loop, then go over its condition and its body once for all turns together.

        The condition runs once more than the body. Where the number of turns is not known, one is counted, and the loop
        is named as missing.
        """
        turns = self._follow_turns(visit)
        if turns.number == 0:
            return visit.operands
        condition, body = visit.operator.graphs
        counted = 1 if turns.number is None else turns.number
        work = self._walk_body(visit, condition, turns.common, counted + 1).work
        any_turn = self._walk_body(visit, body, turns.common, counted)
        work.add(any_turn.work)
        name = visit.operator.name
        missing = f"{name} of an unknown number of turns" if turns.number is None else ""
        work.executed.append(Executed(name, self.node, any_turn.outputs, (), visit.times, missing=missing))
        self.work.add_loop(work)
        if turns.number is None:
            return list(any_turn.outputs)
        return [replace(value, sizes=last.sizes) for value, last in zip(any_turn.outputs, turns.last, strict=True)]

    def _follow_turns(self, visit: _Visit) -> _Turns:
        """Go over a loop turn by turn while its condition is known; the work of these turns is not kept."""
        condition, body = visit.operator.graphs
        number, last = 0, visit.operands
        common = [replace(value, constant=False, array=None) for value in last]
        limit = self.seen + _MOST_IN_TURNS
        while self.seen + number < limit:
            [goes_on] = self._walk_body(visit, condition, last).outputs
            if goes_on.array is None:
                break
            if not goes_on.array.all():
                return _Turns(number, common, last)
            last = list(self._walk_body(visit, body, last).outputs)
            common = [_merge(value, after) for value, after in zip(common, last, strict=True)]
            number += 1
        return _Turns(None, common, last)


def _merge(value: Value, other: Value) -> Value:
    """Return what is known of a value that may also be the other one; it has the buffer of this one."""
    sizes = value.sizes if other.sizes == value.sizes else None
    return Value(value.number, value.dtype, sizes, declared=value.declared)


def _describe_call(visit: _Visit) -> LiteRTCall:
    """Return a call of an operator, whose outputs are not known yet."""
    arrays = [None if value is None else value.array for value in visit.inputs]
    return LiteRTCall(
        visit.operator.name,
        Shapes([None if value is None else value.shape for value in visit.inputs]),
        Shapes([]),
        tuple("" if value is None else value.dtype for value in visit.inputs),
        option=visit.operator.option,
        value=lambda index: arrays[index],
    )


def _price(call: LiteRTCall, outputs: Sequence[Value]) -> tuple[Cost, str]:
    """Return the cost of one run of a call whose outputs are known now, and what is not counted of it."""
    shapes, dtypes = Shapes([value.shape for value in outputs]), tuple(value.dtype for value in outputs)
    return price(replace(call, outputs=shapes, output_dtypes=dtypes))


def _infer_results(visit: _Visit, call: LiteRTCall) -> Sequence[Result]:
    """Return the shapes, or the elements, of what an operator makes, as far as they follow from what it reads."""
    try:
        return infer(call) or []
    except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError) as error:
        names = ", ".join(repr(tensor.name) for tensor in visit.outputs)
        raise UnfitError(f"{visit.operator.name} cannot make {names} of what it reads: {error}") from error
