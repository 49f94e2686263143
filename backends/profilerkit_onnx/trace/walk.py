"""The walk over a graph in its order: shapes, constants and costs of every node, function bodies and subgraphs too."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto
from onnx.shape_inference import InferenceError

from profilerkit.backend_kit.graph_work import Executed, Work, note_apart
from profilerkit.costs import Cost, Shape
from profilerkit.trace.bounds import Branch, Choice

from ..costs import is_known
from ..model.types import read_shape, tensor_type
from .folding import fold, is_of_shape, read_array
from .functions import find_body, function_key
from .inference import find_schema, infer
from .pricing import has_unknown_lengths, name_node, name_operator, price, read_attributes
from .signatures import Known, signature
from .values import MadeConstant, Origin, Value

__all__ = ["Handler", "Values", "Walk", "find_value"]

#: The values that a graph can read, by their names.
Values: TypeAlias = dict[str, Value]
#: Types of values that the file declares, for operators that onnx's inference does not know.
Declared: TypeAlias = Mapping[str, TypeProto]
#: Goes over a node that holds graphs: the walk, the node, its inputs, the values around it, and how often it runs.
Handler: TypeAlias = "Callable[[Walk, NodeProto, Sequence[Value | None], Values, int], None]"

_SHORTER = "the lengths of the sequences of {!r} depend on values: all are counted as the longest possible"
#: The most nodes in functions that are gone over, some seconds: 17 functions that each call the last one twice have as
#: many, in a file of a kilobyte.
_MOST_IN_FUNCTIONS = 100_000


class UnfitError(Exception):
    """The shapes that reach a node do not fit its operator."""


def find_value(name: str, values: Mapping[str, Value], node: NodeProto | None = None) -> Value:
    """Return a value by its name; raise `UnfitError` if nothing in the graph has made it, as in a damaged file."""
    if name in values:
        return values[name]
    reader = "the graph returns" if node is None else f"the node {node.name or node.op_type!r} reads"
    raise UnfitError(f"{reader} the value {name!r}, which nothing before it makes; export the model again")


@dataclass
class Walk:
    """Goes over nodes in order, and notes what runs.

    Attributes:
        opsets: The version of each operator set.
        functions: The functions that the model defines itself, by name.
        declared: The types that the file declares for values.
        sizes: The open sizes that the inputs bind.
        handlers: What goes over the operators that hold graphs, by their names.
        paths: The path of the layer of each node of the model's own graph; empty where nobody asks for choices.
        work: What runs, and what is known of it.
        notes: What a reader of the numbers must know besides.
        constants: How many nodes depend on constants alone.
        calls: How many nodes the bodies of functions had so far, each time that they were gone over.
        node: The index of the node of the model's own graph that is gone over.
        seen: What the nodes so far have shown, by their signatures.
        origins: Where constants come from, by their numbers.
    """

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], FunctionProto] = field(default_factory=dict)
    declared: Declared = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    paths: Sequence[str] = ()
    work: Work = field(default_factory=Work)
    notes: list[str] = field(default_factory=list)
    constants: int = 0
    calls: int = 0
    node: int = -1
    numbers: count[int] = field(default_factory=count)
    seen: dict[Hashable, Known] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)

    def number(self) -> int:
        """Return a number for a new value."""
        return next(self.numbers)

    @property
    def path(self) -> str:
        """The path of the layer of the node of the model's own graph that is gone over; empty where nobody asks."""
        return self.paths[self.node] if self.paths else ""

    def with_initializers(self, graph: GraphProto, values: Mapping[str, Value]) -> Values:
        """Return the values around a graph and those of its own constants."""
        inner = dict(values)
        for tensor in graph.initializer:
            shape, array = Shape(tensor.dims), read_array(tensor)
            inner[tensor.name] = Value.of(self.number(), tensor.data_type, shape, constant=True, array=array)
            self.origins[inner[tensor.name].number] = tensor
        for sparse in graph.sparse_initializer:
            name, shape = sparse.values.name, Shape(sparse.dims)
            inner[name] = Value.of(self.number(), sparse.values.data_type, shape, constant=True)
            self.origins[inner[name].number] = sparse
        return inner

    def over(self, nodes: Iterable[NodeProto], values: Values, times: int = 1, top: bool = False) -> None:
        """Go over nodes in order; ``values`` are those of their surroundings, and gain what the nodes make."""
        for index, node in enumerate(nodes):
            if top:
                self.node = index
            inputs = [find_value(name, values, node) if name else None for name in node.input]
            handler = None if node.domain else self.handlers.get(node.op_type)
            if handler is None:
                self.step(node, inputs, values, times)
            else:
                handler(self, node, inputs, values, times)

    def step(self, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
        """Go over one node: a function by its body, any other by its formula."""
        function = self.functions.get(function_key(node))
        if function is not None:
            self._inside(node, function, inputs, values, times)
            return
        key = None if node.op_type == "Constant" else signature(node, inputs, self.opsets)
        outcome = self.seen.get(key)
        if outcome is not None:
            again = [value.with_number(self.number()) for value in outcome.outputs]
            self._take(outcome, node, inputs, again, values, times)
            return
        outputs, inferred_alone = self._outputs(node, inputs)
        if not is_known(name_operator(node)) and not all(value.constant for value in outputs):
            body = find_body(node, inputs, self.opsets)
            if body is not None and self._by_definition(node, body, inputs, values, times):
                return
        constant = bool(outputs) and all(value.constant for value in outputs)
        cost, missing = (Cost(0, 0), "") if constant else price(node, inputs, outputs, read_attributes(node))
        outcome = Known(outputs, constant, cost, missing)
        if key is not None and inferred_alone:
            self.seen[key] = outcome
        self._take(outcome, node, inputs, outputs, values, times)

    def _take(
        self,
        outcome: Known,
        node: NodeProto,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        values: Values,
        times: int,
    ) -> None:
        """Take the outputs of a node into the values, and note what it does."""
        values.update(zip(node.output, outputs, strict=True))
        if outcome.constant:
            self.constants += node.op_type != "Constant"
            for index, value in enumerate(outputs):
                self.origins[value.number] = MadeConstant(node, index, tuple(inputs), self.opsets)
        else:
            self.note(node, inputs, outputs, times, *outcome.cost, outcome.missing)

    def note(
        self,
        node: NodeProto,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        times: int,
        macs: int = 0,
        flops: int = 0,
        missing: str = "",
    ) -> None:
        """Note what one node does; ``macs`` and ``flops`` are those of one run."""
        read = tuple(value for value in inputs if value is not None)
        made = tuple(value for name, value in zip(node.output, outputs, strict=True) if name)
        macs, flops = macs * times, flops * times
        if flops and has_unknown_lengths(node, inputs):
            every = Branch.of([(self.path, macs, flops)])
            self.work.choices.append(Choice((every, Branch({})), 0, _SHORTER.format(name_node(node))))
        self.work.executed.append(Executed(name_operator(node), self.node, read, made, times, macs, flops, missing))

    def _by_definition(
        self,
        node: NodeProto,
        body: FunctionProto,
        inputs: Sequence[Value | None],
        values: Values,
        times: int,
    ) -> bool:
        """Go over the body by which the standard defines an operator; say no where that leads nowhere."""
        try:
            with note_apart(self) as work:
                self._inside(node, body, inputs, values, times)
        except (UnfitError, KeyError):  # a body of the standard may lean on what onnx's own inference refuses
            return False
        self.work.add(work)
        return True

    def _inside(
        self,
        node: NodeProto,
        function: FunctionProto,
        inputs: Sequence[Value | None],
        values: Values,
        times: int,
    ) -> None:
        """Go over the body of a function, with the values of its caller under the names of its own."""
        inner: Values = {name: value for name, value in zip(function.input, inputs, strict=False) if value is not None}
        opsets = {entry.domain: entry.version for entry in function.opset_import}
        self.calls += len(function.node)
        if self.calls > _MOST_IN_FUNCTIONS:
            raise UnfitError(
                f"its functions call one another more than {_MOST_IN_FUNCTIONS:,} operators in all, the last "
                f"{node.op_type!r}; have the exporter write them as a loop, or inline what is needed"
            )
        outer, declared = self.opsets, self.declared
        attributes = {attribute.name: attribute for attribute in node.attribute}
        attributes = {**{attribute.name: attribute for attribute in function.attribute_proto}, **attributes}
        self.opsets, self.declared = {**outer, **opsets}, {}
        try:
            body = [_fill_attributes(item, attributes, inner, set(function.input)) for item in function.node]
            self.over(body, inner, times)
        finally:
            self.opsets, self.declared = outer, declared
        for name, output in zip(function.output, node.output, strict=False):
            if output and name in inner:
                values[output] = inner[name]

    def _outputs(self, node: NodeProto, inputs: Sequence[Value | None]) -> tuple[list[Value], bool]:
        """Return the outputs of a node: types, and elements where they are known before the model runs.

        And whether no type of theirs depends on what the file declares of a value by its name.
        """
        if node.op_type == "Constant" and not node.domain:
            return [self._constant(node)], False
        try:
            types = infer(node, find_schema(node, self.opsets), inputs, self.opsets)
        except InferenceError as error:
            shapes = ", ".join("-" if value is None else str(value.info.shape) for value in inputs)
            words = " ".join(str(error).split())
            raise UnfitError(
                f"the operator {name_operator(node)} of the node {name_node(node)!r} does not fit inputs "
                f"of the shapes {shapes}: {words}"
            ) from None
        arrays = fold(node, inputs, self.opsets)
        values = [value for value in inputs if value is not None]
        constant = bool(values) and all(value.constant for value in values)
        from_inputs = not is_of_shape(node) and any(value.from_inputs for value in values)
        outputs = [
            Value(
                self.number(),
                self._type(name, kind, array),
                constant or not (array is None or from_inputs),
                array,
                from_inputs,
            )
            for name, kind, array in zip(node.output, types, arrays, strict=True)
        ]
        return outputs, all(map(_is_settled, outputs, types))

    def _type(self, name: str, kind: TypeProto | None, array: object) -> TypeProto:
        """Return the type of an output: as inferred, else as the file declares it."""
        if kind is not None and kind.WhichOneof("value") not in (None, "tensor_type"):
            return kind
        if array is not None and kind is not None:
            return tensor_type(kind.tensor_type.elem_type, tuple(getattr(array, "shape", ())))
        declared = self.declared.get(name)
        if declared is not None and (kind is None or read_shape(kind, {}) is None):
            shape = read_shape(declared, self.sizes)
            if shape is not None:
                return tensor_type(declared.tensor_type.elem_type, shape)
        return declared or TypeProto() if kind is None else kind

    def _constant(self, node: NodeProto) -> Value:
        """Return the value of a ``Constant`` node, without its elements where these are many."""
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.HasField("t"):
                tensor = attribute.t
                return Value.of(
                    self.number(), tensor.data_type, Shape(tensor.dims), constant=True, array=read_array(tensor)
                )
        [array] = fold(node, [], self.opsets)
        kinds = infer(node, find_schema(node, self.opsets), [], self.opsets)
        return Value(self.number(), kinds[0] or TypeProto(), constant=True, array=array)


def _is_settled(value: Value, kind: TypeProto | None) -> bool:
    """Say whether a value has the type that was inferred for it, and no declaration could tell more of it."""
    if kind is None or kind.WhichOneof("value") is None:
        return False
    return value.array is not None or (value.type is kind and (not value.is_tensor or value.shape is not None))


def _fill_attributes(
    node: NodeProto, attributes: Mapping[str, AttributeProto], inner: Values, formal: set[str]
) -> NodeProto:
    """Return a node of a function's body with the attributes of the call, without inputs that the call leaves out."""
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        source = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is not None:
            copy.attribute.add().CopyFrom(source)
            copy.attribute[-1].name = attribute.name
    for index, name in enumerate(copy.input):
        if name in formal and name not in inner:
            copy.input[index] = ""
    return copy
