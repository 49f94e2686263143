"""The weights of a model: the role of each constant, how it is stored, and which layers use it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

from profilerkit.backend_kit.graph_work import count_bytes
from profilerkit.backend_kit.scoped_calls import PlacedWeight
from profilerkit.trace.records import WeightRecord

from .nodes import dtype_name, is_made_of_constants, list_inner, read_bits
from .roles import Role, Use, find_role

__all__ = ["Weight", "find_readers", "find_weights", "identify_weights", "place_weights"]

#: How many elements of a constant are compared before all of them are read.
_HEAD = 64
#: What the names of PyTorch's weights begin with.
_TORCH = "self."
#: Constants by dtype, shape and first elements: of each the elements, PyTorch's name or "", and the number.
_Alike: TypeAlias = dict[Hashable, list[tuple[Any, str, int]]]


@dataclass(frozen=True)
class Weight:
    """A constant that is a parameter or a buffer.

    Attributes:
        node: Its node.
        role: Its role.
        users: The names of the nodes that run and read it, or a value that is computed from it; all of them are nodes
            of the model's own graph: a weight inside of a loop is used by the loop.
    """

    node: Any
    role: Role
    users: Sequence[str]


def find_weights(nodes: Sequence[Any]) -> list[Weight]:
    """Return the weights in a graph and in the graphs inside its nodes."""
    weights = []
    for node in nodes:
        for inner in list_inner(node):
            for weight in find_weights(inner.get_ordered_ops()):
                weights.append(Weight(weight.node, weight.role, [node.get_name()] if weight.users else []))
    for constant in _find_constants(nodes):
        role = find_role(constant.node, constant.uses, constant.reads)
        if role is not Role.NUMBER:
            weights.append(Weight(constant.node, role, constant.users))
    return weights


def find_readers(weights: Iterable[Weight]) -> set[str]:
    """Return the names of the nodes that use a parameter, also a converted and scaled parameter."""
    return {user for weight in weights if weight.role is Role.PARAMETER for user in weight.users}


def identify_weights(weights: Iterable[Weight]) -> list[int]:
    """Return for each weight the place of the first one with its elements: often its own.

    Constants with equal elements are one weight: a converter repeats a constant where it is used, as in each step of an
    unrolled layer. Two that have the names of two weights of a PyTorch model are two, as in a layer and its copy of
    which none was trained, unless they share their bytes, as tied weights do, and all equal constants of a file.
    """
    alike: _Alike = {}
    return [_identify(weight.node, number, alike) for number, weight in enumerate(weights)]


def place_weights(
    weights: Iterable[Weight], identities: Iterable[int], paths: Mapping[str, str]
) -> Iterator[PlacedWeight]:
    """Yield the weights of the layers that use them; a weight without a user belongs to the model itself.

    ``identities`` are as `identify_weights` returns them; ``paths`` has the layer of each node by the node's name.
    """
    for weight, identity in zip(weights, identities, strict=True):
        constant = weight.node
        shape, dtype = tuple(constant.get_output_shape(0)), dtype_name(constant.get_output_element_type(0))
        name = constant.get_friendly_name().removeprefix(_TORCH).removesuffix("_compressed")
        for path in dict.fromkeys(paths[user] for user in weight.users) or [""]:
            label = name.removeprefix(f"{path}.") if path else name
            size = count_bytes(prod(shape), dtype)
            record = WeightRecord(label, identity, prod(shape), size, dtype, None, shape=shape)
            yield PlacedWeight(path, record, weight.role is Role.PARAMETER)


def _identify(constant: Any, number: int, alike: _Alike) -> int:
    """Return the number of the first constant with these elements; ``number`` if there is none before it.

    Only constants that begin with the same elements are compared. Equal single values, such as the zeros of biases that
    were not trained, do not show that two weights are one.
    """
    array = read_bits(constant)
    if array is None or not array.size:
        return number
    beginning = str(constant.get_output_element_type(0)), tuple(constant.get_output_shape(0)), bytes(array.flat[:_HEAD])
    name = constant.get_friendly_name()
    name = name if name.startswith(_TORCH) else ""
    before = alike.setdefault(beginning, [])
    for other, other_name, identity in before:
        has_own_name = bool(name and other_name and name != other_name)
        is_same = array.ctypes.data == other.ctypes.data or (not has_own_name and np.array_equal(array, other))
        if is_same and bool((array != array.flat[0]).any()):
            return identity
    before.append((array, name, number))
    return number


@dataclass(eq=False)
class _Constant:
    """A constant of a graph.

    Attributes:
        node: Its node.
        uses: The uses of it, and of all values that are computed from its elements before the model runs.
        reads: The uses of its own elements, converted or reshaped, by nodes that run.
        users: The names of the nodes that run among the users.
    """

    node: Any
    uses: list[Use] = field(default_factory=list)
    reads: list[Use] = field(default_factory=list)
    users: list[str] = field(default_factory=list)


def _find_constants(nodes: Sequence[Any]) -> list[_Constant]:
    """Return the constants of a graph, whose nodes are in the order in which they run."""
    constants = []
    is_constant: dict[str, bool] = {}
    #: By the name of a node: the constants that its constant results are computed from, and the one whose elements they
    #: have: it goes through the first inputs of nodes.
    origins: dict[str, dict[_Constant, None]] = {}
    elements: dict[str, _Constant | None] = {}
    for node in nodes:
        name, sources = node.get_name(), [value.get_node().get_name() for value in node.input_values()]
        is_constant[name] = is_made_of_constants(node, [is_constant[source] for source in sources])
        origins[name], elements[name] = {}, None
        if node.get_type_name() == "ShapeOf":
            continue  # it reads no elements
        for position, source in enumerate(sources):
            for constant in origins[source]:
                use = Use(node, position)
                constant.uses.append(use)
                if not is_constant[name]:
                    constant.users.append(name)
                    if constant is elements[source]:
                        constant.reads.append(use)
        if node.get_type_name() == "Constant":
            constants.append(_Constant(node))
            origins[name], elements[name] = {constants[-1]: None}, constants[-1]
        elif is_constant[name] and sources:
            origins[name] = {constant: None for source in sources for constant in origins[source]}
            elements[name] = elements[sources[0]]
    return constants
