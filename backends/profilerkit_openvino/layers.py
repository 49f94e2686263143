"""Layers by the names of nodes: torch's converter writes ``__module.block.conv/aten::_convolution/Convolution``.

Names with slashes alone are scopes, as those of ONNX and TensorFlow: ``/block/conv/Conv``. The optimizations of the
converter give new names to what they fuse, such as a convolution that has taken in the scale of a batch norm. A node
without a layer belongs to the layer that reads what it makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from profilerkit.backend_kit.named_layers import (
    CallCounter,
    LayersAround,
    Scopes,
    TypedOperator,
    name_types,
    nest_scopes,
)
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.trace.layer_paths import walk_outwards

from .costs import OPERATORS
from .nodes import read_consumers

__all__ = ["Layers", "find_layers"]

_TORCH = re.compile(r"__module\.([^/]+)/")
#: What torch's converter calls the operators of the model itself.
_ROOT = re.compile(r"(aten|prim|quantized|torchvision)::")
#: Nodes that compute nothing, and of which no layer has its type.
_PASSIVE = ("Constant", "Parameter", "Result")


@dataclass
class Layers(Scopes):
    """The layers of a model.

    Attributes:
        unnamed: How many operators that compute something have lost their names, in a model that has names of layers.
    """

    unnamed: int = 0


class _PlacedNode(NamedTuple):
    """A node with the layer that it is in.

    Attributes:
        kind: Its operator: "Convolution".
        path: The path of its layer; empty for the model itself.
        is_named: Whether its own name tells the layer.
        has_weight: Whether it reads a parameter.
    """

    kind: str
    path: str
    is_named: bool
    has_weight: bool


def find_layers(nodes: Sequence[Any], weighted: Sequence[bool], name: str) -> Layers:
    """Return the layers of nodes in the order in which they run.

    ``weighted`` says of each node whether it reads a parameter, and ``name`` is the type of the model.
    """
    paths = _find_paths(nodes)
    placed = [
        _PlacedNode(node.get_type_name(), paths[node.get_name()] or "", _read_path(node) is not None, has_weight)
        for node, has_weight in zip(nodes, weighted, strict=True)
    ]
    typed = [
        TypedOperator(node.path, node.kind, node.has_weight, is_free=node.kind in OPERATORS.free)
        for node in placed
        if node.kind not in _PASSIVE
    ]
    return Layers(_number_calls(placed), name_types(name, typed, with_containers=True), _count_unnamed(placed))


def _find_paths(nodes: Sequence[Any]) -> dict[str, str | None]:
    """Return the path of the layer of each node, by the node's unique name; None where nothing tells a layer.

    Where its own name does not tell it, the layer is the innermost one around all that read what the node makes.
    """
    paths: dict[str, str | None] = {}
    for node in reversed(nodes):  # what reads a result runs later: its layer is known already
        path = _read_path(node)
        if path is None:
            readers = [paths[target.get_node().get_name()] for target in read_consumers(node, paths)]
            path = _find_common([reader for reader in readers if reader is not None])
        paths[node.get_name()] = path
    return paths


def _read_path(node: Any) -> str | None:
    """Return the path of the layer that a node's name tells: empty for the model itself, None where it tells none."""
    name = node.get_friendly_name()
    match = _TORCH.match(name)
    if match:
        return match[1]
    if _ROOT.match(name):
        return ""
    paths = list(nest_scopes(name.strip("/").split("/")[:-1]))
    if paths:
        return paths[-1]
    return "" if name.startswith("/") else None


def _find_common(paths: Sequence[str]) -> str | None:
    """Return the innermost layer around all of these: ``a.b`` of ``a.b.x`` and ``a.b.y.z``; None without any."""
    around = [set(walk_outwards(path)) for path in paths]
    return max(set.intersection(*around), key=len) if around else None


def _number_calls(nodes: Iterable[_PlacedNode]) -> list[tuple[Scope, ...]]:
    """Return the calls that each node is in, the model's own first."""
    counter = CallCounter()
    chains = []
    for node in nodes:
        around = tuple(reversed([outer for outer in walk_outwards(node.path) if outer]))
        if node.kind in _PASSIVE:  # it may stand anywhere before its readers, and enters no layer
            chains.append((Scope(""), *map(Scope, around)))
        else:
            chains.append(counter.enter(node.kind, LayersAround(around), node.is_named))
    return chains


def _count_unnamed(nodes: Sequence[_PlacedNode]) -> int:
    """Return how many nodes compute something and have lost their names; 0 in a model without names of layers."""
    has_layers = any(node.is_named and node.path for node in nodes)
    return sum(not node.is_named and node.kind not in OPERATORS.free for node in nodes) if has_layers else 0
