"""The weights of a model: which constants are parameters, how they are stored, and which layer holds them.

A floating-point constant with dimensions is a parameter, statistics of a batch norm aside. So is a constant of narrow
numbers that is converted and scaled where it is used; its scales and zero points are buffers. So are integers that are
a factor of a product. Other integers, such as shapes, are buffers. Single numbers are neither, unless their place says
that they are a weight, such as a bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from math import prod
from typing import Any, NamedTuple

import numpy as np

from profilerkit.backend_kit.scoped_calls import PlacedWeight, Scope
from profilerkit.costs.numbers import is_float
from profilerkit.trace.records import WeightRecord

from .nodes import count_bytes, dtype_name, is_made_of_constants, list_inner, read_constant, read_consumers
from .recurrent_inputs import RECURRENT

__all__ = ["find_weighted", "list_weights"]

#: Dtypes of weights that are narrower than the numbers that they stand for.
_NARROW = ("int4", "uint4", "int8", "uint8", "uint2", "uint1", "uint3", "uint6", "float4", "float8")
#: The inputs of operators that are values which the model keeps, but no parameters.
_KEPT = {
    "BatchNormInference": (3, 4),  # mean and variance
    "FakeQuantize": (1, 2, 3, 4),  # the bounds of the input and the output
    "Interpolate": (1, 2, 3),  # sizes, scales, axes
    **{kind: inputs.states for kind, inputs in RECURRENT.items()},
}
_PRODUCTS = ("MatMul", "Convolution", "GroupConvolution", "ConvolutionBackpropData", "GroupConvolutionBackpropData")
#: How many inputs of a product come first that are factors; behind them a convolution may have the shape of its output.
_FACTORS = 2
#: The inputs of operators that are a parameter even if it is a single number.
_SINGLE = {"BatchNormInference": (1, 2), "GroupNormalization": (1, 2), "PRelu": (1,)}


def list_weights(nodes: Sequence[Any], chains: Sequence[Sequence[Scope]]) -> Iterator[PlacedWeight]:
    """Yield the parameters and buffers: a weight belongs to the layers that use it."""
    paths = {node.get_name(): chain[-1].path for node, chain in zip(nodes, chains, strict=True)}
    for identity, weight in enumerate(_find_weights(nodes)):
        constant = weight.node
        shape, element = tuple(constant.get_output_shape(0)), constant.get_output_element_type(0)
        name = constant.get_friendly_name().removeprefix("self.").removesuffix("_compressed")
        for path in dict.fromkeys(paths[user] for user in weight.users) or [""]:
            label = name.removeprefix(f"{path}.") if path else name
            size = count_bytes(prod(shape), element)
            record = WeightRecord(label, identity, prod(shape), size, dtype_name(element), None, shape=shape)
            yield PlacedWeight(path, record, weight.role is _Role.PARAMETER)


def find_weighted(nodes: Sequence[Any]) -> list[bool]:
    """Return for each node whether it reads a parameter, also a converted and scaled parameter."""
    parameters = [weight for weight in _find_weights(nodes) if weight.role is _Role.PARAMETER]
    readers = {user for parameter in parameters for user in parameter.users}
    return [node.get_name() in readers for node in nodes]


class _Role(Enum):
    """The role of a constant."""

    PARAMETER = auto()
    BUFFER = auto()
    #: A number in the graph, such as a bound or an axis.
    NUMBER = auto()


class _Use(NamedTuple):
    """A node that reads a value, and the index of this input."""

    node: Any
    position: int

    @property
    def kind(self) -> str:
        """The operator of the node."""
        return str(self.node.get_type_name())

    @property
    def reader(self) -> str:
        """The unique name of the node."""
        return str(self.node.get_name())

    @property
    def other_input(self) -> Any:
        """The node that makes the other input of two."""
        return self.node.input_value(1 - self.position).get_node()


class _Weight(NamedTuple):
    """A constant that is a weight, and the names of its users: nodes of the model's own graph."""

    node: Any
    role: _Role
    users: list[str]


def _find_weights(nodes: Sequence[Any], holder: str = "") -> Iterator[_Weight]:
    """Yield the weights in a graph and in the graphs inside it; ``holder`` is the node around the graph, if any."""
    is_constant: dict[str, bool] = {}
    for node in nodes:
        sources = [is_constant[value.get_node().get_name()] for value in node.input_values()]
        is_constant[node.get_name()] = is_made_of_constants(node, sources)
    for node in nodes:
        for inner in list_inner(node):
            yield from _find_weights(inner.get_ordered_ops(), holder or node.get_name())
        if node.get_type_name() == "Constant":
            uses = list(_trace_uses(node, is_constant))
            reads = [use for use in _trace_uses(node, is_constant, by_elements=True) if not is_constant[use.reader]]
            users = [use.reader for use in uses if not is_constant[use.reader]]
            role = _find_role(node, uses, reads)
            if role is not _Role.NUMBER:
                yield _Weight(node, role, [holder] if holder and users else users)


def _trace_uses(node: Any, is_constant: Mapping[str, bool], by_elements: bool = False) -> Iterator[_Use]:
    """Yield the uses of a constant, and of the values that constant nodes compute from it, up to the nodes that run.

    With ``by_elements`` the values are followed that have the elements of the constant, converted or reshaped: they go
    through the first input of nodes.
    """
    waiting, seen = [node], set[str]()
    while waiting:
        for target in read_consumers(waiting.pop(), is_constant):
            use = _Use(target.get_node(), target.get_index())
            yield use
            is_followed = is_constant[use.reader] and (use.position == 0 or not by_elements)
            if is_followed and use.reader not in seen:
                seen.add(use.reader)
                waiting.append(use.node)


def _find_role(node: Any, uses: Sequence[_Use], reads: Sequence[_Use]) -> _Role:
    """Return the role of a constant; ``reads`` are the uses of its elements by nodes that run, converted or not.

    Narrow numbers that are converted, maybe in another order, are a parameter, and so are tables of narrow numbers
    whose rows are looked up, and integers of any width that are a factor of a product.
    """
    dtype = dtype_name(node.get_output_element_type(0))
    if any(map(_is_scale, uses)):
        return _Role.BUFFER
    if dtype.startswith(_NARROW) and any(use.kind in ("Convert", "Gather") for use in uses):
        return _Role.PARAMETER
    if is_float(dtype):
        return _find_role_of_floats(node, uses, reads)
    return _Role.PARAMETER if _has_several(node) and any(map(_is_factor, reads)) else _buffer_or_number(node)


def _find_role_of_floats(node: Any, uses: Sequence[_Use], reads: Sequence[_Use]) -> _Role:
    """Return the role of floating-point numbers: one alone is a weight only as a matrix of a product, or by its place.

    Biases of a recurrent layer that are all zero stand for no biases.
    """
    if _has_several(node) and any(use.position in _KEPT.get(use.kind, ()) for use in uses):
        return _Role.BUFFER
    if any(map(_is_recurrent_bias, uses)) and not np.any(read_constant(node)):
        return _buffer_or_number(node)
    is_matrix = len(node.get_output_shape(0)) > 1 and any(map(_is_factor, reads))
    return _Role.PARAMETER if _has_several(node) or is_matrix or any(map(_is_single, reads)) else _Role.NUMBER


def _has_several(node: Any) -> bool:
    return bool(prod(node.get_output_shape(0)) > 1)


def _buffer_or_number(node: Any) -> _Role:
    return _Role.BUFFER if _has_several(node) else _Role.NUMBER


def _is_factor(use: _Use) -> bool:
    """Return whether a value is a factor of a product."""
    return use.kind in _PRODUCTS and use.position < _FACTORS


def _is_recurrent_bias(use: _Use) -> bool:
    """Return whether a value is the biases of a recurrent layer; if it has none, they are zeros."""
    return use.kind in RECURRENT and use.position == RECURRENT[use.kind].biases


def _is_single(use: _Use) -> bool:
    """Return whether a value is a weight by its place, even if it is a single number: a bias, or one of `_SINGLE`."""
    is_bias = use.kind == "Add" and use.other_input.get_type_name() in _PRODUCTS
    return is_bias or use.position in _SINGLE.get(use.kind, ())


def _is_scale(use: _Use) -> bool:
    """Return whether a value is the zero or the scale of ``Multiply(Subtract(Convert(narrow), zero), scale)``.

    Either of the two steps may be missing, and the result of each may be reshaped. The narrow numbers are those of a
    constant, such as rows that are looked up in it, and no numbers that the call gives, such as the bytes of an image.
    """
    is_minuend = use.kind == "Subtract" and use.position == 0
    if use.kind not in ("Multiply", "Subtract") or is_minuend:
        return False
    source = _skip_nodes(use.other_input, lambda node: node.get_type_name() in ("Subtract", "Multiply", "Reshape"))
    if source.get_type_name() != "Convert" or not dtype_name(source.get_input_element_type(0)).startswith(_NARROW):
        return False
    origin = _skip_nodes(source, lambda node: node.get_input_size() > 0)
    return bool(origin.get_type_name() == "Constant")


def _skip_nodes(node: Any, is_skipped: Callable[[Any], bool]) -> Any:
    """Return the first node that is not skipped, on the way from a node back through first inputs."""
    while is_skipped(node):
        node = node.input_value(0).get_node()
    return node
