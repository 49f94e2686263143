"""The walk over a graph in its order: the shapes, the constants and the cost of each node.

The walk goes over the bodies of functions too. The caller passes the functions for ``If``, ``Loop`` and ``Scan``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, TypeAlias

from onnx import FunctionProto, GraphProto, NodeProto

from profilerkit.backend_kit.failures import UnfitError
from profilerkit.backend_kit.graph_work import Executed, Work
from profilerkit.backend_kit.running_order import Body, note_apart
from profilerkit.costs import Cost
from profilerkit.trace.bounds import Branch, Choice

from ..costs.attention import MASKS, may_hide_scores
from ..costs.recurrent import LENGTHS, RECURRENT
from ..costs.registry import OPERATORS
from ..model.nodes import MOST_NODES, list_reads, name_node, name_operator, order_nodes
from ..model.types import read_opsets, tensor_type
from .definitions import fill_body, find_definition
from .folding import read_array
from .node_outputs import Declarations, make_outputs
from .values import Value, Values, describe_call, find_value

__all__ = ["Handler", "Visit", "Walk"]

#: Goes over a node that holds graphs, and returns the values of its outputs.
Handler: TypeAlias = "Callable[[Walk, Visit], Sequence[Value]]"

#: The declarations before a walk begins.
_NOTHING = Declarations({}, {}, {}, {})
_SHORTER = "the lengths of the sequences of {!r} depend on values: all are counted as the longest possible"
_ADVICE = "the file does not follow the standard; export the model again"


class Visit(NamedTuple):
    """A node that the walk has come to.

    Attributes:
        node: The node.
        operator: The name of its operator.
        inputs: The values that it reads; None for an optional input that is left out.
        values: All values that are there before it, by name: the graphs inside of it may read them.
        times: How often it runs.
    """

    node: NodeProto
    operator: str
    inputs: Sequence[Value | None]
    values: Values
    times: int

    def require_inputs(self, least: int) -> None:
        """Raise `UnfitError` for a node with too few inputs, as in a damaged file."""
        if len(self.inputs) < least:
            raise UnfitError(f"the {self._describe()} has {len(self.inputs)} inputs and needs {least}; {_ADVICE}")

    def find_graph(self, attribute: str, inputs: int, outputs: int) -> GraphProto:
        """Return the graph that an attribute of the node holds, with so many inputs and outputs.

        Raises `UnfitError` if there is none, or if it has other numbers of them, as in a damaged file.
        """
        graph: GraphProto | None = next((entry.g for entry in self.node.attribute if entry.name == attribute), None)
        if graph is None:
            raise UnfitError(f"the {self._describe()} has no {attribute}; {_ADVICE}")
        sizes = len(graph.input), len(graph.output)
        if sizes != (inputs, outputs):
            raise UnfitError(
                f"the {attribute} of the {self._describe()} has {sizes[0]} inputs and {sizes[1]} outputs, and must "
                f"have {inputs} and {outputs}; {_ADVICE}"
            )
        return graph

    def _describe(self) -> str:
        return f"{self.operator} {self.node.name!r}"


@dataclass
class Walk:
    """Walks over nodes in order, and notes the operators that run.

    Attributes:
        handlers: Walk over the operators that hold graphs, by their names.
        paths: The path of the layer of each node of the model's own graph; empty if nobody asks for choices.
        declared: The declarations of operators and values in the file, or in the function that is walked.
        work: The operators that run.
        constants: How many nodes depend on constants and shapes alone: a runtime computes them once, before the first
            run. ``Constant`` nodes, which compute nothing, are not among them.
        made_constants: The bytes of what these nodes make, except of few elements, by the numbers of the values.
        nodes_in_functions: How many nodes in bodies of functions were walked so far, with repeated calls.
        node: The index of the current node of the model's own graph; -1 before the first.
        numbers: Counts the numbers of new values.
        follows_inputs: Whether elements of inputs that the call gives decide which nodes run, or how often.
    """

    handlers: Mapping[str, Handler] = field(default_factory=dict)
    paths: Sequence[str] = ()
    declared: Declarations = _NOTHING
    work: Work = field(default_factory=Work)
    constants: int = 0
    made_constants: dict[int, int] = field(default_factory=dict)
    nodes_in_functions: int = 0
    node: int = -1
    numbers: count[int] = field(default_factory=count)
    follows_inputs: bool = False

    @property
    def path(self) -> str:
        """The path of the layer of the current node of the model's own graph; empty if there are no ``paths``."""
        return self.paths[self.node] if self.paths else ""

    def add_initializers(self, graph: GraphProto, values: Mapping[str, Value]) -> Values:
        """Return the values around a graph, together with its own constants."""
        inner = dict(values)
        for tensor in graph.initializer:
            kind, array = tensor_type(tensor.data_type, tensor.dims), read_array(tensor)
            inner[tensor.name] = Value(next(self.numbers), kind, constant=True, array=array)
        return inner

    def walk_model(self, nodes: Sequence[NodeProto], values: Values) -> None:
        """Go over the nodes of the model's own graph; their outputs are added to ``values``."""
        for index in order_nodes(nodes):
            self.node = index
            self._walk_node(nodes[index], values, 1)

    def walk_nodes(self, nodes: Iterable[NodeProto], values: Values, times: int) -> None:
        """Go over nodes inside others, which run so many times; their outputs are added to ``values``."""
        for node in nodes:
            self._walk_node(node, values, times)

    def walk_body(
        self, visit: Visit, graph: GraphProto, inputs: Sequence[Value | None] = (), turns: int = 1
    ) -> Body[Work, Value]:
        """Go over a graph of a node; return its work and its outputs, without adding the work to the walk's.

        ``inputs`` are the values of the graph's own inputs. The graph runs ``turns`` times in each run of the node.
        """
        formals = zip(graph.input, inputs, strict=True)
        own_values = {formal.name: value for formal, value in formals if value is not None}
        inner = {**self.add_initializers(graph, visit.values), **own_values}
        with note_apart(self) as work:
            self.walk_nodes(graph.node, inner, visit.times * turns)
        return Body(work, [find_value(output.name, inner) for output in graph.output])

    def hold_reads(self, visit: Visit) -> None:
        """Keep values alive until a node begins: its inputs, and the outer values that any of its graphs reads."""
        names = list_reads(visit.node)
        read = [value for name, value in visit.values.items() if name in names]
        self.work.hold(Executed(visit.node.op_type, self.node, read, ()))

    def _walk_node(self, node: NodeProto, values: Values, times: int) -> None:
        inputs = [find_value(name, values, node) if name else None for name in node.input]
        visit = Visit(node, name_operator(node), inputs, values, times)
        handler = self.handlers.get(visit.operator)
        function = self.declared.functions.get((node.domain, node.op_type, node.overload))
        outputs: Sequence[Value | None]
        if handler is not None:
            outputs = handler(self, visit)
        elif function is not None:
            outputs = self._walk_function(visit, function)
        else:
            outputs = self._walk_operator(visit)
        for name, value in zip(node.output, outputs, strict=False):
            if name and value is not None:
                values[name] = value

    def _walk_function(self, visit: Visit, function: FunctionProto) -> list[Value | None]:
        """Walk the body of the function that a node calls; return its outputs, None for an output without a value."""
        self.nodes_in_functions += len(function.node)
        if self.nodes_in_functions > MOST_NODES:
            raise UnfitError(
                f"its functions call one another more than {MOST_NODES:,} operators in all, the last "
                f"{visit.node.op_type!r}; have the exporter write them as a loop, or inline what is needed"
            )
        named = zip(function.input, visit.inputs, strict=False)
        inner: Values = {name: value for name, value in named if value is not None}
        body = fill_body(function, visit.node, set(function.input) - inner.keys())
        around = self.declared
        opsets = {**around.opsets, **read_opsets(function.opset_import)}
        self.declared = around._replace(opsets=opsets, types={})
        try:
            self.walk_nodes(body, inner, visit.times)
        finally:
            self.declared = around
        return [inner.get(name) for name in function.output]

    def _walk_operator(self, visit: Visit) -> Sequence[Value]:
        """Go over an operator without graphs inside, note its cost, and return its outputs."""
        definition = find_definition(visit.node, self.declared.opsets)
        outputs = make_outputs(visit.node, visit.inputs, definition, self.declared, self.numbers)
        if outputs and all(value.constant for value in outputs):
            self._note_constants(visit.node, outputs)
            return outputs
        defaults = {} if definition is None else definition.default_values
        cost, missing = OPERATORS.price(describe_call(visit.node, visit.inputs, outputs, defaults))
        self.note(visit, outputs, cost.times(visit.times), missing)
        return outputs

    def _note_constants(self, node: NodeProto, outputs: Sequence[Value]) -> None:
        """Note a node that a runtime computes once, with the bytes of what it makes."""
        if node.op_type != "Constant":
            self.constants += 1
            self.made_constants.update({value.number: value.bytes for value in outputs if value.array is None})

    def note(self, visit: Visit, outputs: Sequence[Value], cost: Cost, missing: str) -> None:
        """Note an operator that runs; ``cost`` is the cost of all its runs, ``missing`` names uncounted work."""
        node, inputs = visit.node, visit.inputs
        read = tuple(filter(None, inputs))
        made = tuple(value for name, value in zip(node.output, outputs, strict=True) if name)
        if visit.operator in RECURRENT and cost.flops:
            self._note_lengths(visit, cost)
        is_masked = visit.operator in MASKS and may_hide_scores(describe_call(node, inputs))
        self.work.append(
            Executed(visit.operator, self.node, read, made, visit.times, *cost, missing=missing, is_masked=is_masked)
        )

    def _note_lengths(self, visit: Visit, cost: Cost) -> None:
        """Note that a recurrent operator does between none and all of its work, if lengths are not known."""
        lengths = visit.inputs[LENGTHS] if len(visit.inputs) > LENGTHS else None
        if lengths is not None and lengths.array is None:
            all_work = Branch.of([(self.path, *cost)])
            self.work.choices.append(Choice((all_work, Branch({})), 0, _SHORTER.format(name_node(visit.node))))
