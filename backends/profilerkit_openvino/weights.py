"""The weights of a model: how its constants are stored, and which layers use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from profilerkit.backend_kit.scoped_calls import PlacedWeight, Scope
from profilerkit.trace.records import WeightRecord

from .nodes import count_bytes, dtype_name, is_made_of_constants, list_inner, read_consumers
from .roles import Role, Use, find_role

__all__ = ["find_weighted", "list_weights"]


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
            yield PlacedWeight(path, record, weight.role is Role.PARAMETER)


def find_weighted(nodes: Sequence[Any]) -> list[bool]:
    """Return for each node whether it reads a parameter, also a converted and scaled parameter."""
    parameters = [weight for weight in _find_weights(nodes) if weight.role is Role.PARAMETER]
    readers = {user for parameter in parameters for user in parameter.users}
    return [node.get_name() in readers for node in nodes]


class _Weight(NamedTuple):
    """A constant that is a weight, and the names of its users: nodes of the model's own graph."""

    node: Any
    role: Role
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
            role = find_role(node, uses, reads)
            if role is not Role.NUMBER:
                yield _Weight(node, role, [holder] if holder and users else users)


def _trace_uses(node: Any, is_constant: Mapping[str, bool], by_elements: bool = False) -> Iterator[Use]:
    """Yield the uses of a constant, and of the values that constant nodes compute from it, up to the nodes that run.

    With ``by_elements`` the values are followed that have the elements of the constant, converted or reshaped: they go
    through the first input of nodes.
    """
    waiting, seen = [node], set[str]()
    while waiting:
        for target in read_consumers(waiting.pop(), is_constant):
            use = Use(target.get_node(), target.get_index())
            yield use
            is_followed = is_constant[use.reader] and (use.position == 0 or not by_elements)
            if is_followed and use.reader not in seen:
                seen.add(use.reader)
                waiting.append(use.node)
