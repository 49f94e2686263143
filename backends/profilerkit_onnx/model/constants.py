"""The constants of a model, and the nodes that use them: in its graph, the graphs inside it, and its functions."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from profilerkit import InputError
from profilerkit.costs import Shape

from .nodes import MOST_NODES, list_inner_graphs
from .types import count_bytes, dtype_name

__all__ = ["Constant", "Use", "list_constants", "read_constant"]

#: Operators whose result has the elements of their first input, or some of them.
MOVES = ("Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
#: How many calls of functions inside each other are followed.
_DEEPEST = 200


class Use(NamedTuple):
    """A use of a constant: the node, the index among its inputs, and the path of its layer."""

    node: NodeProto
    input: int
    path: str


@dataclass(eq=False)
class Constant:
    """A tensor that stands in the file.

    Attributes:
        name: Its name.
        values: The tensor with its elements.
        shape: Its sizes.
        dtype: The name of its dtype.
        bytes: The bytes that it takes in the file.
        is_node: Whether it is a ``Constant`` node, and no initializer.
        uses: Its uses.
    """

    name: str
    values: TensorProto
    shape: Shape
    dtype: str
    bytes: int
    is_node: bool = False
    uses: list[Use] = field(default_factory=list)


def list_constants(model: ModelProto, paths: Sequence[str]) -> list[Constant]:
    """Return the tensors that stand in a model, with their uses: in its graph, the graphs inside it, its functions.

    ``paths`` has the layer of each node of its graph. Raises `InputError` for a sparse tensor: hardly a file has one.
    """
    search = _Search(model)
    search.enter_graph(model.graph, ChainMap(), paths)
    return list(search.constants.values())


#: The constants of each name in a graph: itself, or the constants of which it is a copy, a part or another form.
_Names: TypeAlias = ChainMap[str, tuple[Constant, ...]]


class _Search:
    """Goes over a model in the order of its file, along the calls of its functions, and notes the uses of constants.

    A copy, a part or another form of a constant stands for it: a node that reads the copy uses the constant, and the
    node that makes the copy does not. Nor does a node that passes a constant to a graph inside: the graph uses it.

    Attributes:
        constants: The constants by their places: two graphs may each have a constant of the same name.
    """

    def __init__(self, model: ModelProto) -> None:
        self.constants: dict[Hashable, Constant] = {}
        self._functions = {(one.domain, one.name, one.overload): one for one in model.functions}
        self._left, self._depth = MOST_NODES, 0

    def enter_graph(
        self,
        graph: GraphProto,
        around: _Names,
        paths: Iterable[str],
        location: Hashable = (),
        arguments: Sequence[str] = (),
    ) -> list[tuple[Constant, ...]]:
        """Go over a graph, and return the constants of each of its results.

        Args:
            graph: The graph.
            around: The names around it.
            paths: The layers of its nodes.
            location: The place of the graph in the model.
            arguments: The names of the values that a node passes to it.
        """
        names = around.new_child()
        for value, argument in zip(graph.input, chain(arguments, repeat("")), strict=False):
            names[value.name] = around.get(argument, ())
        for tensor in graph.initializer:
            names[tensor.name] = self._add(location, tensor.name, tensor)
        for sparse in graph.sparse_initializer:
            raise _refuse_sparse(sparse.values.name)
        self._go_over(graph.node, names, paths, location)
        return [names.get(value.name, ()) for value in graph.output]

    def _go_over(self, nodes: Sequence[NodeProto], names: _Names, paths: Iterable[str], location: Hashable) -> None:
        """Go over nodes in their order; ``names`` gets the values that stand for constants."""
        for node in nodes:  # first, as a file may have one behind the loop that reads it
            values = read_constant(node) if node.op_type == "Constant" and node.output else None
            if values is not None:
                names[node.output[0]] = self._add(location, node.output[0], values, is_node=True)
        for index, (node, path) in enumerate(zip(nodes, paths, strict=False)):
            results = self._follow(node, names, path, (location, index))
            names.update({name: constants for name, constants in zip(node.output, results, strict=False) if name})

    def _follow(self, node: NodeProto, names: _Names, path: str, location: Hashable) -> Sequence[tuple[Constant, ...]]:
        """Return for each output of a node the constants that it stands for; a node that computes uses its inputs."""
        function = self._functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            return self._call(function, node, names, path)
        graphs = list_inner_graphs(node)
        if graphs:
            states = _find_states(node, graphs[0])
            for position in states:  # the graph gets other values in later turns, so they are no weights
                _note_use(node, position, names, path)
            arguments = ["" if position in states else name for position, name in enumerate(node.input)]
            # The last results of each graph are the node's: the body of a loop returns its condition before them.
            results = [
                self.enter_graph(graph, names, repeat(path), (location, number), arguments)[-len(node.output) :]
                for number, graph in enumerate(graphs)
            ]
            return [tuple(chain.from_iterable(constants)) for constants in zip(*results, strict=False)]
        moved = _find_moved(node, names)
        if moved:
            return [moved] * len(node.output)
        for position in range(len(node.input)):
            _note_use(node, position, names, path)
        return ()

    def _call(
        self, function: FunctionProto, node: NodeProto, names: _Names, path: str
    ) -> Sequence[tuple[Constant, ...]]:
        """Go over a function; calls beyond the limits, at which the walk over the model gives up, are left out."""
        self._left -= len(function.node)
        if self._left < 0 or self._depth == _DEEPEST:
            return ()
        arguments = [names.get(name, ()) for name in node.input]
        inner: _Names = ChainMap(dict(zip(function.input, arguments, strict=False)))
        self._depth += 1
        self._go_over(function.node, inner, repeat(path), (function.domain, function.name, function.overload))
        self._depth -= 1
        return [inner.get(name, ()) for name in function.output]

    def _add(self, location: Hashable, name: str, values: TensorProto, is_node: bool = False) -> tuple[Constant]:
        """Return the constant at a location, and note it when it is first seen: a function may be called again.

        Tensors whose elements are the same bytes of another file are one constant, as tied weights are.
        """
        in_file = [(entry.key, entry.value) for entry in values.external_data]
        key = (values.data_type, *values.dims, *sorted(in_file)) if in_file else (location, name)
        if key not in self.constants:
            size, dtype = count_bytes(values.dims, values.data_type), dtype_name(values.data_type)
            self.constants[key] = Constant(name, values, Shape(values.dims), dtype, size, is_node)
        return (self.constants[key],)


def _note_use(node: NodeProto, position: int, names: _Names, path: str) -> None:
    """Note that a node uses the constants at one of its inputs."""
    for constant in names.get(node.input[position], ()):
        constant.uses.append(Use(node, position, path))


def _find_states(node: NodeProto, body: GraphProto) -> list[int]:
    """Return the inputs of a loop with which its first turn begins, and which its body replaces in each turn."""
    if node.op_type == "Loop":
        first, made = 2, body.output[1:]  # behind the limit and the condition
    elif node.op_type == "Scan":
        sliced = next((attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs"), 0)
        first, made = 0, body.output[: len(node.input) - sliced]
    else:
        return []
    handed_on = {value.name: value.name for value in body.input}
    for inner in body.node:
        if inner.op_type == "Identity" and inner.input[0] in handed_on:
            handed_on[inner.output[0]] = handed_on[inner.input[0]]
    carried = zip(range(first, len(node.input)), body.input[first:], made, strict=False)
    return [position for position, before, after in carried if handed_on.get(after.name) != before.name]


def _find_moved(node: NodeProto, names: _Names) -> tuple[Constant, ...]:
    """Return the constants whose elements a node hands on; none if it does anything else, or has further elements."""
    # Of other operators than Concat only the first input has elements, and the further ones are settings.
    inputs = node.input if node.op_type == "Concat" else node.input[:1] if node.op_type in MOVES else ()
    if not all(names.get(name) for name in inputs):
        return ()
    return tuple(dict.fromkeys(constant for name in inputs for constant in names[name]))


def read_constant(node: NodeProto) -> TensorProto | None:
    """Return the tensor of a ``Constant`` node; None for a node with other values or none."""
    for attribute in node.attribute:
        tensor: TensorProto = attribute.t
        if attribute.HasField("t"):
            return tensor
        if attribute.HasField("sparse_tensor"):
            raise _refuse_sparse(node.output[0])
        if attribute.name == "value_floats":
            return helper.make_tensor("", TensorProto.FLOAT, [len(attribute.floats)], attribute.floats)
    return None


def _refuse_sparse(name: str) -> InputError:
    return InputError(f"the tensor {name!r} of the model is sparse, which is not read; write it with all of its zeros")
