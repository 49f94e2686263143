"""The walk over a graph in its order: shapes, constants and costs of every node, function bodies and subgraphs too."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from onnx import FunctionProto, GraphProto, NodeProto

from profilerkit.backend_kit.graph_work import Executed, Work, note_apart
from profilerkit.costs import Cost, Shape
from profilerkit.trace.bounds import Branch, Choice

from ..costs import is_known
from .folding import read_array
from .functions import fill_body, find_body, read_key
from .node_outputs import Declarations, make_outputs
from .pricing import has_unknown_lengths, name_node, name_operator, price, read_attributes
from .signatures import Known, make_signature
from .values import MadeConstant, Origin, UnfitError, Value, Values, find_value

__all__ = ["Handler", "Walk"]

#: Goes over a node that holds graphs: the walk, the node, its inputs, the values around it, and how often it runs.
Handler: TypeAlias = "Callable[[Walk, NodeProto, Sequence[Value | None], Values, int], None]"

_NO_WORK = Cost(0, 0)
#: The most nodes in functions that are gone over, some seconds: 17 functions that each call the last one twice have as
#: many, in a file of a kilobyte.
_MOST_NODES = 100_000
_SHORTER = "the lengths of the sequences of {!r} depend on values: all are counted as the longest possible"


@dataclass
class Walk:
    """Goes over nodes in order, and notes what runs.

    Attributes:
        declared: What the file says of its operators and values, or the function that is gone over.
        functions: The functions that the model defines itself, by name.
        handlers: What goes over the operators that hold graphs, by their names.
        paths: The path of the layer of each node of the model's own graph; empty where nobody asks for choices.
        work: What runs, and what is known of it.
        constants: How many nodes depend on constants alone.
        nodes_in_functions: How many nodes the bodies of functions had so far, each time that they were gone over.
        node: The index of the node of the model's own graph that is gone over.
        numbers: The numbers of new values.
        seen: What the nodes so far have shown, by their signatures.
        origins: Where constants come from, by their numbers.
    """

    declared: Declarations
    functions: Mapping[tuple[str, str, str], FunctionProto] = field(default_factory=dict)
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    paths: Sequence[str] = ()
    work: Work = field(default_factory=Work)
    constants: int = 0
    nodes_in_functions: int = 0
    node: int = -1
    numbers: count[int] = field(default_factory=count)
    seen: dict[Hashable, Known] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)

    @property
    def opsets(self) -> Mapping[str, int]:
        """The version of each operator set, where the walk is."""
        return self.declared.opsets

    def take_number(self) -> int:
        """Return a number for a new value."""
        return next(self.numbers)

    @property
    def path(self) -> str:
        """The path of the layer of the node of the model's own graph that is gone over; empty where nobody asks."""
        return self.paths[self.node] if self.paths else ""

    def add_initializers(self, graph: GraphProto, values: Mapping[str, Value]) -> Values:
        """Return the values around a graph and those of its own constants."""
        inner = dict(values)
        for tensor in graph.initializer:
            shape, array = Shape(tensor.dims), read_array(tensor)
            inner[tensor.name] = Value.of(self.take_number(), tensor.data_type, shape, constant=True, array=array)
            self.origins[inner[tensor.name].number] = tensor
        for sparse in graph.sparse_initializer:
            name, shape = sparse.values.name, Shape(sparse.dims)
            inner[name] = Value.of(self.take_number(), sparse.values.data_type, shape, constant=True)
            self.origins[inner[name].number] = sparse
        return inner

    def walk_model(self, nodes: Iterable[NodeProto], values: Values) -> None:
        """Go over the nodes of the model's own graph; ``values`` gain what they make."""
        for index, node in enumerate(nodes):
            self.node = index
            self._walk_node(node, values, 1)

    def walk_nodes(self, nodes: Iterable[NodeProto], values: Values, times: int) -> None:
        """Go over nodes inside others, which run so many times; ``values`` gain what they make."""
        for node in nodes:
            self._walk_node(node, values, times)

    def _walk_node(self, node: NodeProto, values: Values, times: int) -> None:
        inputs = [find_value(name, values, node) if name else None for name in node.input]
        handler = None if node.domain else self.handlers.get(node.op_type)
        function = self.functions.get(read_key(node))
        if handler is not None:
            handler(self, node, inputs, values, times)
        elif function is not None:
            self._walk_function(node, function, inputs, values, times)
        else:
            self._walk_operator(node, inputs, values, times)

    def _walk_function(
        self, node: NodeProto, function: FunctionProto, inputs: Sequence[Value | None], values: Values, times: int
    ) -> None:
        """Go over the body of the function that a node calls; ``values`` gain what it returns."""
        self.nodes_in_functions += len(function.node)
        if self.nodes_in_functions > _MOST_NODES:
            raise UnfitError(
                f"its functions call one another more than {_MOST_NODES:,} operators in all, the last "
                f"{node.op_type!r}; have the exporter write them as a loop, or inline what is needed"
            )
        inner: Values = {name: value for name, value in zip(function.input, inputs, strict=False) if value is not None}
        body = fill_body(function, node, set(function.input) - inner.keys())
        around = self.declared
        opsets = {**around.opsets, **{entry.domain: entry.version for entry in function.opset_import}}
        self.declared = Declarations(opsets, {}, around.sizes)
        try:
            self.walk_nodes(body, inner, times)
        finally:
            self.declared = around
        for name, output in zip(function.output, node.output, strict=False):
            if output and name in inner:
                values[output] = inner[name]

    def _walk_operator(self, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
        """Go over an operator: by its formula, or by the body by which the standard defines one without a formula.

        What one of its signature has shown before is not inferred and priced again.
        """
        key = None if node.op_type == "Constant" else make_signature(node, inputs, self.opsets)
        shown = self.seen.get(key)
        if shown is not None:
            again = [value.with_number(self.take_number()) for value in shown.outputs]
            self._take(shown, node, inputs, again, values, times)
            return
        outputs, are_inferred = make_outputs(node, inputs, self.declared, self.numbers)
        is_constant = bool(outputs) and all(value.constant for value in outputs)
        needs_body = not is_known(name_operator(node)) and not is_constant and bool(outputs)
        if needs_body and self._walk_definition(node, inputs, values, times):
            return
        cost, missing = (_NO_WORK, "") if is_constant else price(node, inputs, outputs, read_attributes(node))
        shown = Known(outputs, is_constant, cost, missing)
        if key is not None and are_inferred:
            self.seen[key] = shown
        self._take(shown, node, inputs, outputs, values, times)

    def _walk_definition(self, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> bool:
        """Go over the body by which the standard defines an operator; say whether there is one that leads somewhere."""
        body = find_body(node, inputs, self.opsets)
        if body is None:
            return False
        try:
            with note_apart(self) as work:
                self._walk_function(node, body, inputs, values, times)
        except (UnfitError, KeyError):  # a body of the standard may lean on what onnx's own inference refuses
            return False
        self.work.add(work)
        return True

    def _take(
        self,
        shown: Known,
        node: NodeProto,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        values: Values,
        times: int,
    ) -> None:
        """Take the outputs of a node into the values, and note what it does."""
        values.update(zip(node.output, outputs, strict=True))
        if not shown.constant:
            self.note(node, inputs, outputs, times, shown.cost, shown.missing)
            return
        self.constants += node.op_type != "Constant"
        for index, value in enumerate(outputs):
            self.origins[value.number] = MadeConstant(node, index, tuple(inputs), self.opsets)

    def note(
        self,
        node: NodeProto,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        times: int,
        cost: Cost,
        missing: str = "",
    ) -> None:
        """Note what one node does; ``cost`` is that of one run."""
        read = tuple(value for value in inputs if value is not None)
        made = tuple(value for name, value in zip(node.output, outputs, strict=True) if name)
        macs, flops = cost.times(times)
        if flops and has_unknown_lengths(node, inputs):
            every = Branch.of([(self.path, macs, flops)])
            self.work.choices.append(Choice((every, Branch({})), 0, _SHORTER.format(name_node(node))))
        self.work.executed.append(Executed(name_operator(node), self.node, read, made, times, macs, flops, missing))
