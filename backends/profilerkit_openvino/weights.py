"""The weights of a model: which constants are parameters, how they are stored, and which layer holds them.

A floating-point constant with dimensions is a parameter, statistics of a batch norm aside. So is a constant of narrow
numbers that is converted and scaled where it is used; its scales and zero points are buffers. Other integers, such as
shapes, are buffers. Single numbers are neither, biases aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from math import prod
from typing import Any, NamedTuple

import numpy as np

from profilerkit.backend_kit.scoped_calls import PlacedWeight, Scope
from profilerkit.costs.numbers import is_float
from profilerkit.trace.records import WeightRecord

from .layers import read_consumers

__all__ = ["dtype_name", "find_weighted", "is_made_of_constants", "list_inner", "list_weights", "read_constant"]

_NAMES = {"bf16": "bfloat16", "boolean": "bool", "dynamic": "", "nf4": "float4_nf4", "undefined": ""}
_KINDS = {"f": "float", "i": "int", "u": "uint"}
#: Dtypes of weights that are narrower than what they stand for.
_NARROW = ("int4", "uint4", "int8", "uint8", "uint2", "uint1", "uint3", "uint6", "float4", "float8")
#: The inputs of operators that are values which the model keeps, but no parameters.
_KEPT = {"BatchNormInference": (3, 4), "FakeQuantize": (1, 2, 3, 4), "Interpolate": (1, 2, 3)}
#: Where recurrent operators take their states, which are buffers, and their biases: those that are all zero are none.
_STATES = {
    f"{kind}{form}": (1, 2)[: 1 + (kind == "LSTM")] for kind in ("LSTM", "GRU", "RNN") for form in ("Sequence", "Cell")
}
_BIASES = {"LSTMSequence": 6, "GRUSequence": 5, "RNNSequence": 5, "LSTMCell": 5, "GRUCell": 4, "RNNCell": 4}
_PRODUCTS = ("MatMul", "Convolution", "GroupConvolution", "ConvolutionBackpropData", "GroupConvolutionBackpropData")
_RANDOM = ("Multinomial", "RandomUniform", "ReadValue")


def dtype_name(element: Any) -> str:
    """Return the name of an element type as numpy has it: "float32", "int4", "float8_e4m3"."""
    name = str(element.get_type_name())
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith(("f8", "f4")):
        return f"float{name[1]}_{name[2:]}"
    return _KINDS.get(name[0], name[0]) + name[1:]


def list_inner(node: Any) -> list[Any]:
    """Return the models inside a node: two of an ``If``, one of a loop, none of any other."""
    kind = node.get_type_name()
    if kind == "If":
        return [node.get_function(0), node.get_function(1)]
    return [node.get_function()] if kind in ("Loop", "TensorIterator") else []


def is_made_of_constants(node: Any, constant: Sequence[bool]) -> bool:
    """Return whether what a node makes follows from the file and from shapes alone; ``constant`` are its inputs."""
    kind = node.get_type_name()
    if kind in ("Constant", "ShapeOf"):
        return True
    return bool(constant) and all(constant) and kind not in _RANDOM and not list_inner(node)


def read_constant(node: Any) -> Any:
    """Return the values of a constant, also of one that is converted or repeated; None for what is none."""
    while node.get_type_name() in ("Convert", "Broadcast"):
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant":
        return None
    try:
        return np.asarray(node.data)
    except (RuntimeError, TypeError):  # of a dtype that numpy lacks
        return None


def list_weights(nodes: Sequence[Any], chains: Sequence[Sequence[Scope]]) -> Iterator[PlacedWeight]:
    """Yield the parameters and buffers: a weight belongs to the layers that use it."""
    for identity, weight in enumerate(_find_weights(nodes, [chain[-1].path for chain in chains])):
        constant = weight.node
        shape, dtype = tuple(constant.get_output_shape(0)), dtype_name(constant.get_output_element_type(0))
        name = constant.get_friendly_name().removeprefix("self.").removesuffix("_compressed")
        for path in dict.fromkeys(weight.users):
            label = name.removeprefix(f"{path}.") if path else name
            size = int(constant.get_byte_size())
            record = WeightRecord(label, identity, prod(shape), size, dtype, None, shape=shape)
            yield PlacedWeight(path, record, weight.role is _Role.PARAMETER)


def find_weighted(nodes: Sequence[Any]) -> list[bool]:
    """Return for each node whether it reads a parameter, converted and scaled ones included."""
    weights = _find_weights(nodes, [node.get_name() for node in nodes])
    readers = {name for weight in weights if weight.role is _Role.PARAMETER for name in weight.users}
    return [node.get_name() in readers for node in nodes]


class _Role(Enum):
    """What a constant is."""

    PARAMETER = auto()
    BUFFER = auto()
    #: A number in the graph, such as a bound or an axis.
    NUMBER = auto()


class _Weight(NamedTuple):
    """A constant that is a weight, and what its users are called."""

    node: Any
    role: _Role
    users: list[str]


def _find_weights(nodes: Sequence[Any], paths: Sequence[str]) -> Iterator[_Weight]:
    """Yield the weights in a graph and in those inside of it; ``paths`` are what its nodes are called."""
    constant: dict[str, bool] = {}
    for node in nodes:
        sources = [constant[value.get_node().get_name()] for value in node.input_values()]
        constant[node.get_name()] = is_made_of_constants(node, sources)
    by_name = {node.get_name(): path for node, path in zip(nodes, paths, strict=True)}
    for node, path in zip(nodes, paths, strict=True):
        for inner in list_inner(node):
            inside = inner.get_ordered_ops()
            yield from _find_weights(inside, [path] * len(inside))
        if node.get_type_name() == "Constant":
            uses = list(_trace_uses(node, constant))
            role = _find_role(node, uses)
            if role is not _Role.NUMBER:
                users = [by_name[user.get_name()] for user, _ in uses if not constant[user.get_name()]]
                yield _Weight(node, role, users or [""])


def _trace_uses(node: Any, constant: Mapping[str, bool]) -> Iterator[tuple[Any, int]]:
    """Yield each node that reads what a constant becomes, with the index among its inputs, up to those that run."""
    for target in read_consumers(node):
        user = target.get_node()
        yield user, target.get_index()
        if constant[user.get_name()]:
            yield from _trace_uses(user, constant)


def _find_role(node: Any, uses: Sequence[tuple[Any, int]]) -> _Role:
    """Return what a constant is, by its dtype and by what its users do with it."""
    shape, dtype = node.get_output_shape(0), dtype_name(node.get_output_element_type(0))
    has_several = prod(shape) > 1
    first, index = uses[0]
    if any(_is_scale(user, position) for user, position in uses):
        return _Role.BUFFER
    if dtype.startswith(_NARROW) and first.get_type_name() == "Convert":
        return _Role.PARAMETER
    if not is_float(dtype):
        return _Role.BUFFER if has_several else _Role.NUMBER
    kinds = [(user.get_type_name(), position) for user, position in uses]
    if has_several and any(position in (*_KEPT.get(kind, ()), *_STATES.get(kind, ())) for kind, position in kinds):
        return _Role.BUFFER
    if any(_BIASES.get(kind) == position for kind, position in kinds) and not np.any(read_constant(node)):
        return _Role.BUFFER if has_several else _Role.NUMBER
    if has_several or (first.get_type_name() in _PRODUCTS and len(shape) > 1):
        return _Role.PARAMETER
    is_bias = first.get_type_name() == "Add" and first.input_value(1 - index).get_node().get_type_name() in _PRODUCTS
    return _Role.PARAMETER if is_bias else _Role.NUMBER


def _is_scale(user: Any, index: int) -> bool:
    """Return whether an input scales or shifts narrow numbers that are converted."""
    if user.get_type_name() not in ("Multiply", "Subtract"):
        return False
    other = user.input_value(1 - index).get_node()
    if other.get_type_name() in ("Subtract", "Multiply", "Reshape"):
        other = other.input_value(0).get_node()
    if other.get_type_name() != "Convert":
        return False
    narrow = other.input_value(0)
    is_narrow = dtype_name(narrow.get_element_type()).startswith(_NARROW)
    return is_narrow and (user.get_type_name() == "Multiply" or index == 1)
