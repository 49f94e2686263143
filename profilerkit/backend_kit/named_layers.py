"""Layers that the names of operators tell, for formats that have no layers: paths, types and calls.

A backend reads from the name of each operator which layers it is in (`nest_scopes` splits names such as
``block/block.0/conv``). `name_types` gives each layer a type, and `named_calls` tells the calls of a layer apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..trace.layer_paths import parent_path, walk_outwards
from .scoped_calls import Scope

__all__ = [
    "CONTAINER",
    "Scopes",
    "TypedOperator",
    "is_path",
    "name_types",
    "nest_scopes",
]

#: The type of a layer that only holds others, where the format does not tell its class.
CONTAINER = "Module"


@dataclass
class Scopes:
    """The layers of a model.

    Attributes:
        chains: For each operator of the graph the calls of layers that it is in, the model's own first.
        types: The type of each layer by its path, layers in the order of the graph, the model itself first.
        paths: For each operator the path of the innermost layer that it is in; empty for the model itself.
    """

    chains: Sequence[tuple[Scope, ...]]
    types: Mapping[str, str]
    paths: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Read the paths."""
        self.paths = [chain[-1].path for chain in self.chains]


def nest_scopes(parts: Iterable[str]) -> Iterator[str]:
    """Yield the paths of nested scopes: ``features/features.0/conv`` is features, features.0, features.0.conv.

    A part may repeat the name of the container that it is in, whose scope is the one before.

    >>> list(nest_scopes(["features", "features.0", "conv"]))
    ['features', 'features.0', 'features.0.conv']
    """
    path, container = "", ""
    for part in filter(is_path, parts):
        inside = part.removeprefix(f"{container}.") if container else part
        path = f"{path}.{inside}" if path else inside
        container = part
        yield path


def is_path(text: str) -> bool:
    """Return whether a text is names with dots between them."""
    return all(text.split("."))


class TypedOperator(NamedTuple):
    """An operator of which the type of its layer may be.

    Attributes:
        layer: The path of the innermost layer that it is in; empty for the model itself.
        type: Its type.
        has_weight: Whether it reads a parameter.
        is_free: Whether it only moves data.
    """

    layer: str
    type: str
    has_weight: bool
    is_free: bool = False


def name_types(name: str, operators: Iterable[TypedOperator], with_containers: bool = False) -> dict[str, str]:
    """Return the type of each layer by its path, in the order of the operators; ``name`` is the name of the model.

    A layer has the type of its first operator with a weight; else of its last operator that does not only move data;
    else of its last operator. A layer without operators of its own is a ``Module``. So is a layer with layers inside,
    unless ``with_containers`` is set: for formats with operators such as attention, whose projections are inner layers.
    """
    types = {"": name}
    ranks: dict[str, int] = {}  # the rank of the operator that has given the layer its type
    for operator in operators:
        if not operator.layer:
            continue
        for outer in reversed([*walk_outwards(operator.layer)]):
            types.setdefault(outer, CONTAINER)
        rank, rank_so_far = _rank(operator), ranks.get(operator.layer, 0)
        is_last_of_its_rank = rank == rank_so_far and rank != _BEST
        if rank > rank_so_far or is_last_of_its_rank:
            types[operator.layer] = operator.type
            ranks[operator.layer] = rank
    if not with_containers:
        for path in types:
            parent = parent_path(path)
            if parent:
                types[parent] = CONTAINER
    return types


#: The rank of an operator with a weight.
_BEST = 2


def _rank(operator: TypedOperator) -> int:
    """Return how well an operator shows the type of its layer."""
    if operator.has_weight:
        return _BEST
    return 0 if operator.is_free else 1
