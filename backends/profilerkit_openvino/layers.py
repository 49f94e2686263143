"""Layers by the names of nodes: torch's converter writes ``__module.block.conv/aten::_convolution/Convolution``.

Names with slashes alone are scopes, as those of ONNX and TensorFlow: ``/block/conv/Conv``. The optimizations of the
converter give new names to what they fuse, such as a convolution that has taken in the scale of a batch norm. A node
without a layer belongs to the layer that reads what it makes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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

__all__ = ["Layers", "find_layers", "read_consumers"]

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


def find_layers(nodes: Sequence[Any], weighted: Sequence[bool], name: str) -> Layers:
    """Return the layers of nodes in the order in which they run; ``weighted`` says which of them read a parameter."""
    named = [_read_path(node.get_friendly_name()) for node in nodes]
    paths = _fill_gaps(nodes, named)
    kinds = [node.get_type_name() for node in nodes]
    types = name_types(
        name,
        (
            TypedOperator(path, kind, has_weight, kind in OPERATORS.free)
            for kind, path, has_weight in zip(kinds, paths, weighted, strict=True)
            if kind not in _PASSIVE
        ),
        with_containers=True,
    )
    computing = [path for kind, path in zip(kinds, named, strict=True) if kind not in OPERATORS.free]
    return Layers(_number_calls(kinds, paths, named), types, computing.count(None) if any(named) else 0)


def read_consumers(node: Any) -> list[Any]:
    """Return the inputs of other nodes that read what a node makes."""
    return [target for output in node.outputs() for target in output.get_target_inputs()]


def _read_path(name: str) -> str | None:
    """Return the path of the layer that a name tells: empty for the model itself, None where it tells none."""
    match = _TORCH.match(name)
    if match:
        return match[1]
    if _ROOT.match(name):
        return ""
    paths = [*nest_scopes(name.strip("/").split("/")[:-1])]
    return paths[-1] if paths else "" if name.startswith("/") else None


def _fill_gaps(nodes: Sequence[Any], named: Sequence[str | None]) -> list[str]:
    """Return the layer of each node; of one whose name tells none, the innermost around all that read its results."""
    index = {node.get_name(): position for position, node in enumerate(nodes)}
    paths = list(named)
    for position in reversed(range(len(nodes))):
        if paths[position] is None:
            readers = [paths[index[target.get_node().get_name()]] for target in read_consumers(nodes[position])]
            around = [{*walk_outwards(path)} for path in readers if path is not None]
            paths[position] = max(set.intersection(*around), key=len) if around else None
    return [path or "" for path in paths]


def _number_calls(kinds: Sequence[str], paths: Sequence[str], named: Sequence[str | None]) -> list[tuple[Scope, ...]]:
    """Return the calls that each node is in."""
    counter = CallCounter()
    chains = []
    for kind, path, name_path in zip(kinds, paths, named, strict=True):
        around = tuple(reversed([outer for outer in walk_outwards(path) if outer]))
        if kind in _PASSIVE:  # it stands anywhere before those that read it
            chains.append((Scope(""), *map(Scope, around)))
        else:
            chains.append(counter.enter(kind, LayersAround(around), name_path is not None))
    return chains
