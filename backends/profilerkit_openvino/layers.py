"""Layers by the names of nodes: torch's converter writes ``__module.block.conv/aten::_convolution/Convolution``.

Names with slashes alone are scopes, as those of ONNX and TensorFlow: ``/block/conv/Conv``. The optimizations of the
converter give new names to what they fuse, such as a convolution that has taken in the scale of a batch norm. A node
without a layer belongs to the layer that reads what it makes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from profilerkit.backend_kit.scoped_calls import Scope

from .costs import OPERATORS

__all__ = ["Layers", "find_layers", "read_consumers"]

_TORCH = re.compile(r"__module\.([^/]+)/")
#: What torch's converter calls the operators of the model itself.
_ROOT = re.compile(r"(aten|prim|quantized|torchvision)::")
#: The type of a layer that only holds others: the format has no names of classes.
_CONTAINER = "Module"


@dataclass(frozen=True)
class Layers:
    """The layers of a model.

    Attributes:
        chains: For each node the calls of layers that it is in, the model's name_path first.
        types: The type of each layer by its path, the model itself first.
        unnamed: How many operators that compute something have lost their names, in a model that has names of layers.
    """

    chains: Sequence[tuple[Scope, ...]]
    types: Mapping[str, str]
    unnamed: int = 0


def find_layers(nodes: Sequence[Any], weighted: Sequence[bool], name: str) -> Layers:
    """Return the layers of nodes in the order in which they run; ``weighted`` says which of them read a parameter."""
    named = [_read_path(node.get_friendly_name()) for node in nodes]
    paths = _fill_gaps(nodes, named)
    types, computing = {"": name}, set[str]()
    weight_types: dict[str, str] = {}
    for node, path, has_weight in zip(nodes, paths, weighted, strict=True):
        kind = node.get_type_name()
        if kind in ("Constant", "Parameter", "Result"):
            continue
        for outer in accumulate(path.split("."), lambda prefix, part: f"{prefix}.{part}"):
            types.setdefault(outer, _CONTAINER)
        if path and has_weight:
            weight_types.setdefault(path, kind)
        if path and (kind not in OPERATORS.free or path not in computing):
            types[path] = kind
            computing |= {path} if kind not in OPERATORS.free else set()
    computing_nodes = [
        path for node, path in zip(nodes, named, strict=True) if node.get_type_name() not in OPERATORS.free
    ]
    unnamed = computing_nodes.count(None) if any(named) else 0
    return Layers(_number_calls(nodes, paths, named), {**types, **weight_types}, unnamed)


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
    path, last = "", ""
    for part in name.strip("/").split("/")[:-1]:  # a part may repeat the name of the container that it is in
        path, last = ".".join(filter(None, (path, part.removeprefix(f"{last}.") if last else part))), part
    return path or ("" if name.startswith("/") else None)


def _fill_gaps(nodes: Sequence[Any], named: Sequence[str | None]) -> list[str]:
    """Return the layer of each node; of one whose name tells none, what is common to those that read its results."""
    index = {node.get_name(): position for position, node in enumerate(nodes)}
    paths = list(named)
    for position in reversed(range(len(nodes))):
        if paths[position] is None:
            readers = [paths[index[target.get_node().get_name()]] for target in read_consumers(nodes[position])]
            told = [path.split(".") for path in readers if path is not None]
            common = [parts[0] for parts in zip(*told, strict=False) if len(set(parts)) == 1] if told else []
            paths[position] = ".".join(common) if told else None
    return [path or "" for path in paths]


def _number_calls(nodes: Sequence[Any], paths: Sequence[str], named: Sequence[str | None]) -> list[tuple[Scope, ...]]:
    """Return the calls that each node is in.

    A layer that is entered again, by the operator that its first call began with, is called once more.
    """
    calls: dict[str, int] = {}
    begun: dict[str, str] = {}
    chains: list[tuple[Scope, ...]] = []
    last: tuple[str, ...] = ()
    for node, path, name_path in zip(nodes, paths, named, strict=True):
        around = tuple(accumulate(path.split("."), lambda prefix, part: f"{prefix}.{part}")) if path else ()
        kind = node.get_type_name()
        if kind not in ("Constant", "Parameter", "Result") and (name_path is not None or around):
            for depth, layer in enumerate(around):
                if last[: depth + 1] != around[: depth + 1]:
                    if layer not in calls:
                        calls[layer], begun[layer] = 0, kind
                    elif begun[layer] == kind:
                        calls[layer] += 1
            last = around
        chains.append((Scope(""), *(Scope(layer, calls.get(layer, 0)) for layer in around)))
    return chains
