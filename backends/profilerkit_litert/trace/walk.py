"""The walk over a graph in its order: shapes, constants and costs of every operator.

The functions of `control_flow` go over operators that hold graphs, and call the walk for these graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np

from profilerkit.backend_kit.failures import UnfitError
from profilerkit.backend_kit.graph_traces import FOLLOWED
from profilerkit.backend_kit.graph_work import Executed, Work
from profilerkit.backend_kit.operator_calls import Shapes
from profilerkit.backend_kit.running_order import Body, note_apart
from profilerkit.costs import Cost

from ..costs import LiteRTCall, price
from ..model.graphs import LARGEST, Graph, Operator, Tensor
from ..model.reading import LiteRTModel
from .shapes import Result, infer
from .values import Array, Value

__all__ = ["Handler", "Visit", "Walk"]

#: Goes over an operator that holds graphs, and returns the values of its outputs.
Handler: TypeAlias = "Callable[[Walk, Visit], list[Value]]"

#: The most operators that a walk visits, which takes some seconds: the operators may double at each call of a graph.
_MOST_OPERATORS = 100_000
#: Operators that unpack weights, which LiteRT does once.
_UNPACKING = ("DENSIFY", "DEQUANTIZE")
#: The dtypes of weights of dynamic range, which kernels multiply as int8.
_PACKED = ("int8", "uint8", "int4", "int2")
#: Operators whose result does not follow from their inputs.
_UNKNOWABLE = ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "READ_VARIABLE", "VAR_HANDLE")
#: Operators that return sizes: these follow from the file and the inputs' shapes, whatever the operator reads.
_SIZES = ("RANK", "SHAPE")


class Visit(NamedTuple):
    """An operator that the walk has come to.

    Attributes:
        operator: The operator.
        inputs: The values that it reads; None for an optional input that is left out.
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
        """The values that it reads, without inputs that are left out."""
        return [value for value in self.inputs if value is not None]


@dataclass
class Walk:
    """Goes over the operators of a model in order, and notes what runs.

    Attributes:
        model: The model.
        paths: The path of the layer of each operator of the graph that is profiled.
        handlers: The functions that go over operators that hold graphs, by the names of the operators.
        work: The operators that run.
        notes: Remarks for the reader of the numbers, as keys: each once, in the order in which they were found.
        constants: How many operators depend on constants and shapes alone.
        node: The index of the operator of the graph that is profiled; -1 before the first.
        seen: The number of visits to operators.
    """

    model: LiteRTModel
    paths: Sequence[str]
    handlers: Mapping[str, Handler]
    work: Work = field(default_factory=Work)
    notes: dict[str, None] = field(default_factory=dict)
    constants: int = 0
    node: int = -1
    seen: int = 0
    _numbers: count[int] = field(default_factory=count)

    def make_value(
        self, tensor: Tensor, sizes: tuple[int, ...] | None, *, constant: bool = False, array: Array | None = None
    ) -> Value:
        """Return a new value of a tensor, of these sizes or as it is declared; the rest is as in `Value`."""
        return Value(next(self._numbers), tensor.dtype, tensor.shape if sizes is None else sizes, constant, array)

    # Graphs -----------------------------------------------------------------------------------------------------------

    def walk_graph(self, graph: Graph, inputs: Sequence[Value], times: int = 1, depth: int = 0) -> list[Value]:
        """Go over a graph that runs so many times on these inputs; return its outputs.

        ``depth`` is how many graphs hold it: 0 for the graph that is profiled.
        """
        if depth > len(self.model.graphs):
            raise UnfitError(f"the graph {graph.name!r} calls itself; convert the model again")
        values = dict(zip(graph.inputs, inputs, strict=True))
        for position, operator in enumerate(graph.operators):
            if depth == 0:
                self.node = position
            self.seen += 1
            if self.seen > _MOST_OPERATORS:
                raise UnfitError(f"its graphs call one another for more than {_MOST_OPERATORS:,} operators in all")
            read: list[Value | None] = []
            for index in operator.inputs:
                read.append(None if index < 0 else self._find_value(graph, values, index, operator.name))
            visit = Visit(operator, read, [graph.tensors[index] for index in operator.outputs], times, depth)
            walk_over = self.handlers.get(operator.name, Walk._walk_operator)
            values.update(zip(operator.outputs, walk_over(self, visit), strict=False))
        return [self._find_value(graph, values, index, "the end") for index in graph.outputs]

    def walk_body(self, visit: Visit, graph: int, inputs: Sequence[Value], turns: int = 1) -> Body[Work, Value]:
        """Go over a graph of an operator, by its index; the graph runs so many times in each run of the operator.

        Its work is returned with its results, and is not part of `work`: the caller adds it, or drops it.
        """
        with note_apart(self) as work:
            results = self.walk_graph(self.find_graph(graph), inputs, visit.times * turns, visit.depth + 1)
        return Body(work, results)

    def find_graph(self, index: int) -> Graph:
        """Return a graph of the model by its index; raises `UnfitError` if there is none."""
        if not 0 <= index < len(self.model.graphs):
            raise UnfitError(f"it has no graph {index}")
        return self.model.graphs[index]

    # Inputs of operators ----------------------------------------------------------------------------------------------

    def _find_value(self, graph: Graph, values: dict[int, Value], index: int, reader: str) -> Value:
        """Return the value of a tensor; ``values`` has the values of the graph so far, by the indices of their tensors.

        A tensor that no operator makes, a constant or a state, gets its value, and its place in ``values``, when it is
        first read. ``reader`` is the operator that reads it, for an error.
        """
        if index not in values:
            values[index] = self._read_tensor(graph.tensors[index], reader)
        return values[index]

    def _read_tensor(self, tensor: Tensor, reader: str) -> Value:
        """Return a new value of a tensor that no operator has made.

        Raises `UnfitError` if one should have made it: it is no constant, no state, and has elements.
        """
        if tensor.data is not None or tensor.is_variable:
            return self.make_value(tensor, tensor.sizes, constant=not tensor.is_variable, array=tensor.array)
        if tensor.sizes is not None and 0 not in tensor.sizes:
            raise UnfitError(f"{reader} reads the tensor {tensor.name!r}, which nothing before it makes")
        # A file keeps no bytes of a constant without elements, such as the sizes of a single number; any dtype will do.
        empty = None if tensor.sizes is None else np.zeros(tensor.sizes, np.int32)
        return self.make_value(tensor, tensor.sizes, constant=True, array=empty)

    # Operators without graphs inside ----------------------------------------------------------------------------------

    def _walk_operator(self, visit: Visit) -> list[Value]:
        """Go over an operator without graphs inside, note its cost, and return its outputs.

        An operator on constants and shapes alone is prepared once if it is no arithmetic, or if it unpacks a weight.
        LiteRT repeats other work on constants in each pass.
        """
        call = _describe_call(visit)
        outputs = self.make_outputs(visit, _infer_results(visit, call))
        shapes, dtypes = Shapes([value.shape for value in outputs]), tuple(value.dtype for value in outputs)
        cost, missing = price(replace(call, outputs=shapes, output_dtypes=dtypes))
        is_work = bool(cost.macs or cost.flops or missing) and visit.operator.name not in _UNPACKING
        if outputs and all(value.constant for value in outputs):
            if not is_work:
                self.constants += 1
                return outputs
            outputs = [replace(value, constant=False) for value in outputs]
        self.note(visit, outputs, cost, missing)
        return outputs

    def note(self, visit: Visit, outputs: Sequence[Value], cost: Cost, missing: str) -> None:
        """Note an operator that runs; ``cost`` is the cost of one run, ``missing`` names uncounted work."""
        macs, flops = cost.times(visit.times)
        name = visit.operator.name
        multiplied = "int8" if macs and _quantizes_floats(visit.operands, outputs) else None
        done = Executed(
            name, self.node, visit.operands, outputs, visit.times, macs, flops, missing, product_dtype=multiplied
        )
        self.work.append(done)

    def note_followed(self, condition: Value) -> None:
        """Note that a condition is known from the inputs of the call, and not from the file alone."""
        if not condition.constant:
            self.notes[FOLLOWED] = None

    def hold(self, visit: Visit) -> None:
        """Keep the inputs of a branch or a loop alive until here."""
        self.work.hold(Executed(visit.operator.name, self.node, visit.operands, ()))

    def make_outputs(self, visit: Visit, results: Sequence[Result] = ()) -> list[Value]:
        """Return the outputs of an operator: ``results``, or the sizes that the file declares if there is no result."""
        operands, name = visit.operands, visit.operator.name
        is_constant = bool(operands) and all(value.constant for value in operands) and name not in _UNKNOWABLE
        outputs = []
        for index, tensor in enumerate(visit.outputs):
            result = results[index] if index < len(results) else tensor.sizes
            sizes = result.shape if isinstance(result, np.ndarray) else result
            array = result if isinstance(result, np.ndarray) and result.size <= LARGEST else None
            is_known_size = name in _SIZES and array is not None
            outputs.append(self.make_value(tensor, sizes, constant=is_constant or is_known_size, array=array))
        return outputs


def _quantizes_floats(operands: Sequence[Value], outputs: Sequence[Value]) -> bool:
    """Return whether a kernel quantizes its floats while it runs, and multiplies integers because of its weights."""
    dtypes = {value.dtype for value in operands}
    return not dtypes.isdisjoint(_PACKED) and outputs[0].dtype == "float32"


def _describe_call(visit: Visit) -> LiteRTCall:
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


def _infer_results(visit: Visit, call: LiteRTCall) -> Sequence[Result]:
    """Return the shapes, or the elements, of the outputs of an operator, as far as they follow from its inputs."""
    try:
        return infer(call) or []
    except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError) as error:
        names = ", ".join(repr(tensor.name) for tensor in visit.outputs)
        raise UnfitError(f"{visit.operator.name} cannot make {names} of what it reads: {error}") from error
