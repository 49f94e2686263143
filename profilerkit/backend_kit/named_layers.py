"""Layers that the names of operators tell, for formats that have no layers: paths, types and calls.

A backend reads from the name of each operator which layers it is in (`nest_scopes` splits names such as
``block/block.0/conv``). `name_types` gives each layer a type, and `CallCounter` tells the calls of a layer apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from ..trace.layer_paths import parent_path, walk_outwards
from .scoped_calls import ROOT, Scope

__all__ = [
    "CONTAINER",
    "CallCounter",
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
    own_operators: dict[str, list[TypedOperator]] = {}
    for operator in operators:
        if operator.layer:
            own_operators.setdefault(operator.layer, []).append(operator)
            for path in reversed([*walk_outwards(operator.layer)]):  # outer layers come before the layers inside
                types.setdefault(path, CONTAINER)
    types |= {path: _choose_type(members) for path, members in own_operators.items()}
    if not with_containers:
        types |= {parent: CONTAINER for path in types if (parent := parent_path(path))}
    return types


def _choose_type(operators: Sequence[TypedOperator]) -> str:
    """Return the type of a layer with these operators of its own, in order."""
    with_weights = [operator for operator in operators if operator.has_weight]
    if with_weights:
        return with_weights[0].type
    working = [operator for operator in operators if not operator.is_free]
    return (working or operators)[-1].type


@dataclass
class _CountedLayer:
    """The operator that the first call of a layer began with, and the index of the layer's last call."""

    first_operator: str
    call: int = 0


class CallCounter:
    """Counts the calls of layers along the nodes of a graph.

    A number other than 0 that the exporter gives a call is used: torch's older exporter numbers the further calls of a
    layer, but not of a layer with layers inside. Otherwise a layer is called again if it is entered again, after nodes
    outside of it, by the operator that its first call began with.
    """

    def __init__(self) -> None:
        self._layers: dict[str, _CountedLayer] = {}
        #: The layers around the last node that is in any, or in the model itself; and their calls, as they are counted.
        self._last: Sequence[Scope] = ()
        self._last_chain: tuple[Scope, ...] = (ROOT,)

    def enter(self, operator: str, around: Sequence[Scope], is_scoped: bool) -> tuple[Scope, ...]:
        """Return the calls of layers that a node is in, the model's own first.

        Args:
            operator: Its operator.
            around: The layers around it, from the outermost on, each with the number that the exporter gives the call.
            is_scoped: Whether the exporter tells its layer.
        """
        if not around and not is_scoped:
            return (ROOT,)  # a node that an exporter adds between the nodes of a layer does not end its call
        if around != self._last:
            self._last_chain = self._number_calls(operator, around)
            self._last = around
        return self._last_chain

    def _number_calls(self, operator: str, around: Sequence[Scope]) -> tuple[Scope, ...]:
        """Return the calls around a node; layers that are not around the last node are entered by its operator."""
        chain = [ROOT]
        is_open = True
        for (path, number), last in zip_longest(around, self._last[: len(around)]):
            is_open = is_open and last is not None and last.path == path
            layer = self._layers.get(path)
            if layer is None:
                layer = self._layers[path] = _CountedLayer(operator)
            elif not is_open and not number and layer.first_operator == operator:  # a number tells the call itself
                layer.call += 1
            chain.append(Scope(path, number or layer.call))
        return tuple(chain)
