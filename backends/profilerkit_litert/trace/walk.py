"""The walk over a graph in its order: shapes, constants and costs of every operator, and of the graphs inside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from profilerkit.backend_kit.graph_work import Body, Executed, Work, count_first, note_apart
from profilerkit.backend_kit.operator_costs import Shapes

from ..costs import LiteRTCall, price
from ..model.reading import Graph, LiteRTModel, Operator, Tensor
from .shapes import infer
from .values import Value

__all__ = ["Walk"]

#: The most operators that are gone over, some seconds: graphs that call one another may double at each call.
_MOST_OPERATORS = 100_000
#: The most operators that are gone over to count the turns of a loop.
_MOST_TURNED = 20_000
#: The most elements whose values are kept.
_LARGEST = 4096
#: Operators whose result does not follow from what they read.
_UNKNOWABLE = ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "READ_VARIABLE", "VAR_HANDLE")


class UnfitError(Exception):
    """What reaches an operator does not fit it."""


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

    def value(self, tensor: Tensor, sizes: tuple[int, ...] | None, **facts: Any) -> Value:
        """Return a new value of a tensor, of these sizes."""
        return Value(next(self._numbers), tensor.dtype, sizes, declared=tensor.shape, **facts)

    def over(self, graph: Graph, inputs: Sequence[Value], times: int = 1, depth: int = 0) -> list[Value]:
        """Go over a graph that runs so many times on these inputs; return what it returns."""
        if depth > len(self.model.graphs):
            raise UnfitError(f"the graph {graph.name!r} calls itself; convert the model again")
        values = dict(zip(graph.inputs, inputs, strict=True))
        for index, operator in enumerate(graph.operators):
            self.node = self.node if depth else index
            self.seen += 1
            if self.seen > _MOST_OPERATORS:
                raise UnfitError(f"its graphs call one another for more than {_MOST_OPERATORS:,} operators in all")
            read = [
                self._find(graph, values, index, operator.name) if index >= 0 else None for index in operator.inputs
            ]
            made = _HANDLERS.get(operator.name, Walk._step)(self, graph, operator, read, times, depth)
            values.update(zip(operator.outputs, made, strict=False))
        return [self._find(graph, values, index, "the end") for index in graph.outputs]

    def _find(self, graph: Graph, values: dict[int, Value], index: int, reader: str) -> Value:
        """Return the value of a tensor; of a constant or a state, a new one."""
        if index not in values:
            tensor = graph.tensors[index]
            if tensor.data is None and not tensor.is_variable and tensor.sizes is not None and 0 not in tensor.sizes:
                raise UnfitError(f"{reader} reads the tensor {tensor.name!r}, which nothing before it makes")
            array = (
                tensor.array if tensor.data is not None or tensor.sizes is None else np.zeros(tensor.sizes, np.int32)
            )
            values[index] = self.value(tensor, tensor.sizes, constant=not tensor.is_variable, array=array)
        return values[index]

    def _step(
        self, graph: Graph, operator: Operator, read: Sequence[Value | None], times: int, depth: int
    ) -> list[Value]:
        """Go over an operator without graphs inside: note its cost, unless it depends on constants alone."""
        operands = [value for value in read if value is not None]
        call = _describe_call(operator, read)
        try:
            made = infer(call) or []
        except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError) as error:
            names = ", ".join(repr(graph.tensors[index].name) for index in operator.outputs)
            raise UnfitError(f"{operator.name} cannot make {names} of what it reads: {error}") from error
        is_constant = bool(operands) and all(value.constant for value in operands) and operator.name not in _UNKNOWABLE
        outputs = []
        for position, index in enumerate(operator.outputs):
            tensor, result = graph.tensors[index], made[position] if position < len(made) else None
            array = result if isinstance(result, np.ndarray) and result.size <= _LARGEST else None
            sizes = tensor.sizes if result is None else tuple(getattr(result, "shape", result))
            is_shape = operator.name in ("RANK", "SHAPE") and array is not None
            outputs.append(self.value(tensor, sizes, constant=is_constant or is_shape, array=array))
        if outputs and all(value.constant for value in outputs):
            self.constants += 1
            return outputs
        shapes, dtypes = Shapes([value.shape for value in outputs]), tuple(value.dtype for value in outputs)
        cost, missing = price(replace(call, outputs=shapes, output_dtypes=dtypes))
        self.work.executed.append(
            Executed(operator.name, self.node, operands, outputs, times, cost.macs * times, cost.flops * times, missing)
        )
        return outputs

    def _walk_body(self, graph: int, inputs: Sequence[Value], times: int, depth: int) -> Body[Value]:
        """Go over another graph of the model; return its work, which is not added to that so far, and its results."""
        if not 0 <= graph < len(self.model.graphs):
            raise UnfitError(f"it has no graph {graph}")
        with note_apart(self) as work:
            results = self.over(self.model.graphs[graph], inputs, times, depth + 1)
        return Body(work, results)

    # Operators that hold graphs ---------------------------------------------------------------------------------------

    def _call(
        self, graph: Graph, operator: Operator, read: Sequence[Value | None], times: int, depth: int
    ) -> list[Value]:
        """Go over the graph that a call names; what runs once, before the first pass, counts as nothing."""
        [called] = operator.graphs
        body = self._walk_body(called, [value for value in read if value is not None], times, depth)
        if operator.name == "CALL_ONCE":
            self.notes["CALL_ONCE prepares variables and tables before the first pass: it counts as nothing"] = None
        else:
            self.work.add(body.work)
        return list(body.outputs)

    def _choose(
        self, graph: Graph, operator: Operator, read: Sequence[Value | None], times: int, depth: int
    ) -> list[Value]:
        """Go over the branch that a known condition takes; count the dearer one where it is not known."""
        condition, *inputs = [value for value in read if value is not None]
        if condition.array is not None:
            taken = self._walk_body(operator.graphs[0 if condition.array.all() else 1], inputs, times, depth)
            self.work.add(taken.work)
            return list(taken.outputs)
        bodies = (self._walk_body(branch, inputs, times, depth) for branch in operator.graphs)
        first, second = sorted(bodies, key=lambda body: body.work.price, reverse=True)
        results = [_merge(value, [other]) for value, other in zip(first.outputs, second.outputs, strict=True)]
        path = self.paths[self.node]
        reason = f"the condition of an IF in {path or 'the model'!r} depends on values: the dearer branch is counted"
        self.work.add(count_first(Body(first.work, results), second, self.node, path, reason))
        return results

    def _repeat(
        self, graph: Graph, operator: Operator, read: Sequence[Value | None], times: int, depth: int
    ) -> list[Value]:
        """Go over a loop: turn by turn while its condition is known, to count the turns; then once for all of them."""
        operands = [value for value in read if value is not None]
        condition, body = operator.graphs
        turns, carried, last, first = 0, [_merge(value, ()) for value in operands], operands, self.seen
        while self.seen < first + _MOST_TURNED:
            [goes_on] = self._walk_body(condition, last, times, depth).outputs
            if goes_on.array is None or not goes_on.array.all():
                break
            last = list(self._walk_body(body, last, times, depth).outputs)
            carried = [_merge(value, [after]) for value, after in zip(carried, last, strict=True)]
            turns += 1
        is_known = goes_on.array is not None and not goes_on.array.all()
        if is_known and not turns:
            return operands
        turns = turns if is_known else 1
        asking = self._walk_body(condition, carried, times * (turns + 1), depth).work
        turned = self._walk_body(body, carried, times * turns, depth)
        asking.add(turned.work)
        missing = "" if is_known else f"{operator.name} of an unknown number of turns"
        asking.executed.append(Executed(operator.name, self.node, turned.outputs, (), times, missing=missing))
        self.work.add_loop(asking)
        return (
            [replace(value, sizes=after.sizes) for value, after in zip(turned.outputs, last, strict=True)]
            if is_known
            else list(turned.outputs)
        )


def _merge(value: Value, others: Sequence[Value]) -> Value:
    """Return what is known of a value that may also be one of others; it has the buffer of this one."""
    sizes = value.sizes if all(other.sizes == value.sizes for other in others) else None
    return Value(value.number, value.dtype, sizes, declared=value.declared)


def _describe_call(operator: Operator, read: Sequence[Value | None]) -> LiteRTCall:
    """Return a call of an operator, whose outputs are not known yet."""
    return LiteRTCall(
        operator.name,
        Shapes([None if value is None else value.shape for value in read]),
        Shapes([]),
        tuple("" if value is None else value.dtype for value in read),
        option=operator.option,
        value=lambda index: None if (value := read[index]) is None else value.array,
    )


_HANDLERS: dict[str, Callable[..., list[Value]]] = {
    "CALL": Walk._call,
    "CALL_ONCE": Walk._call,
    "IF": Walk._choose,
    "STABLEHLO_COMPOSITE": Walk._call,
    "STABLEHLO_WHILE": Walk._repeat,
    "WHILE": Walk._repeat,
}
