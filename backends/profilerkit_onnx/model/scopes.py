"""Layers by the scopes of exporters: which layer of the source model each node comes from.

torch's exporter by ``torch.export`` (``dynamo=True``) writes paths and classes of the modules into the metadata of each
node. Its older one by TorchScript writes the scopes into the names of the nodes alone: ``/block/convolution/Conv``. A
Keras model that tf2onnx has converted has the scopes of TensorFlow (`keras_scopes`). Nodes without either belong to the
model itself.

So there are three ways to read the layers around each node (`_Around`). What follows is the same for all: the types of
the layers, and which call of each layer a node is in (`_CallCounter`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from onnx import ModelProto, NodeProto

from profilerkit.backend_kit.keras_scopes import KerasNames
from profilerkit.backend_kit.scoped_calls import Scope

__all__ = ["Scope", "Scopes", "find_name", "find_scopes", "write_scope"]

#: The keys of torch's exporter in the metadata of a node.
_PATHS, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
#: What the type of a layer is called that only holds others, where the exporter does not tell.
CONTAINER = "Module"


@dataclass
class Scopes:
    """The layers of a model.

    Attributes:
        chains: For each node of the graph the calls of layers that it is in, the model's own first.
        types: The type of each layer by its path, layers in the order of the graph, the model itself first.
    """

    chains: list[tuple[Scope, ...]] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)


class _Around(NamedTuple):
    """The layers around a node, from the outermost on, without the model itself.

    Attributes:
        paths: The path of each layer.
        calls: Which call of each layer it is, from 0; empty where the exporter does not number them.
    """

    paths: tuple[str, ...]
    calls: tuple[int, ...] = ()


def find_scopes(model: ModelProto) -> Scopes:
    """Return the layers of a model by the scopes of its nodes."""
    nodes = list(model.graph.node)
    if any(_read_metadata(node, _PATHS) for node in nodes):
        around_nodes = [_read_layers_in_metadata(node) for node in nodes]
        types = _read_types_in_metadata(nodes)
    else:
        names = KerasNames(nodes).paths() if _is_from_keras(model) else None
        around_nodes = _read_names(model) if names is None else [_Around(*layers) for layers in names]
        types = _name_types_by_operators(model, around_nodes)
    scopes = Scopes(types={"": find_name(model)})
    counter = _CallCounter()
    for node, around in zip(nodes, around_nodes, strict=True):
        for path in around.paths:
            if path not in scopes.types:
                for outer in accumulate(path.split("."), lambda prefix, name: f"{prefix}.{name}"):
                    scopes.types.setdefault(outer, types.get(outer, CONTAINER))
        scopes.chains.append(counter.enter(node, around))
    return scopes


def find_name(model: ModelProto) -> str:
    """Return the class of the model that was exported, the name of a Keras model, or that of the graph."""
    if _is_from_keras(model):
        name = KerasNames(list(model.graph.node)).name
    else:
        layers = (layer for node in model.graph.node for layer in _pair_with_classes(node))
        name = next((kind for path, kind in layers if not path), "").rpartition(".")[2]
    return name or model.graph.name or type(model).__name__


def _is_from_keras(model: ModelProto) -> bool:
    """Say whether tf2onnx has made a model."""
    return bool(model.producer_name == "tf2onnx")


def write_scope(node: NodeProto, layers: Sequence[tuple[str, str]]) -> None:
    """Write the layers of a node, paths and types from the outermost on, into its metadata as torch's exporter does."""
    del node.metadata_props[:]
    paths, types = ([layer[index] for layer in layers] or [""] for index in (0, 1))
    node.metadata_props.add(key=_PATHS, value=repr([*paths, node.name]))
    node.metadata_props.add(key=_CLASSES, value=repr([*types, node.op_type]))


# Layers in metadata ---------------------------------------------------------------------------------------------------


def _read_layers_in_metadata(node: NodeProto) -> _Around:
    return _Around(tuple(dict.fromkeys(path for path in _read_list(node, _PATHS) if path and _is_path(path))))


def _read_types_in_metadata(nodes: Iterable[NodeProto]) -> dict[str, str]:
    """Return the name of the class of each layer by its path."""
    types: dict[str, str] = {}
    for node in nodes:
        for path, name in _pair_with_classes(node):
            types.setdefault(path, name.rpartition(".")[2])
    return types


def _pair_with_classes(node: NodeProto) -> Iterator[tuple[str, str]]:
    """Yield the path and the class of each layer around a node, the model itself (an empty path) first."""
    if node.metadata_props:
        yield from zip(_read_list(node, _PATHS), _read_list(node, _CLASSES), strict=False)


def _read_list(node: NodeProto, key: str) -> list[str]:
    """Return the list of texts that an entry of the metadata holds, without its last one, which is of the operator.

    It is empty for what is no such list.
    """
    text = _read_metadata(node, key)
    try:
        names = ast.literal_eval(text) if text else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)][:-1] if isinstance(names, list) else []


def _read_metadata(node: NodeProto, key: str) -> str:
    return next((entry.value for entry in node.metadata_props if entry.key == key), "")


# Layers in the names of nodes -----------------------------------------------------------------------------------------


def _read_names(model: ModelProto) -> list[_Around]:
    """Return the layers that names such as ``/block/block.0/Conv`` tell, and which call of the innermost it is.

    The second call of a layer has a number at its name, ``/block/convolution_1/Conv``. It is told from a layer that is
    called so by its sibling ``/block/convolution``, and by the weights, which have the names of their layers.
    """
    scopes = [node.name.lstrip("/").rpartition("/")[0] for node in model.graph.node]
    paths_by_scope = {scope: tuple(_join_parts(scope.split("/"))) for scope in dict.fromkeys(scopes)}
    paths = {path for paths in paths_by_scope.values() for path in paths}
    owners = {tensor.name.rpartition(".")[0] for tensor in model.graph.initializer}
    layers = {path: _split_number(path, paths, owners) for path in paths}
    around = {
        scope: _Around(tuple(layers[path][0] for path in paths), tuple(layers[path][1] for path in paths))
        for scope, paths in paths_by_scope.items()
    }
    return [around[scope] for scope in scopes]


def _split_number(path: str, paths: Container[str], owners: Iterable[str]) -> tuple[str, int]:
    """Return the layer that a path is a call of, and the number of the call; ``owners`` are the layers with weights."""
    numbered = re.fullmatch(r"(.+)_(\d+)", path)
    if numbered is None or numbered[1] not in paths or _has_weights(path, owners):
        return path, 0
    return numbered[1], int(numbered[2])


def _has_weights(path: str, owners: Iterable[str]) -> bool:
    return any(owner == path or owner.startswith(f"{path}.") for owner in owners)


def _join_parts(parts: Sequence[str]) -> Iterator[str]:
    """Yield the paths of nested scopes: ``features/features.0/conv`` is features, features.0, features.0.conv.

    A part may repeat the name of the container that it is in, whose scope is the one before.
    """
    path, last = "", ""
    for part in parts:
        if not _is_path(part):
            continue
        inside = part.removeprefix(f"{last}.") if last else part
        path, last = (f"{path}.{inside}" if path else inside), part
        yield path


def _is_path(text: str) -> bool:
    """Return whether a text is names with dots between them."""
    return all(text.split("."))


def _name_types_by_operators(model: ModelProto, around_nodes: Sequence[_Around]) -> dict[str, str]:
    """Return the type of each innermost layer: the operator that has a weight, else the last one of it."""
    weights = {tensor.name for tensor in model.graph.initializer}
    types: dict[str, str] = {}
    with_weight: set[str] = set()
    containers = {path.rpartition(".")[0] for around in around_nodes for path in around.paths}
    for node, around in zip(model.graph.node, around_nodes, strict=True):
        path = around.paths[-1] if around.paths else ""
        if not path or path in containers or path in with_weight:
            continue
        types[path] = node.op_type
        if weights.intersection(node.input):
            with_weight.add(path)
    return types


# Calls of layers ------------------------------------------------------------------------------------------------------


class _CallCounter:
    """Counts the calls of layers along the nodes of a graph.

    Where the exporter numbers the calls, that is the number. Elsewhere a layer that is entered again, after nodes
    outside of it, by the operator that its first call began with, is called once more.
    """

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._first_operators: dict[str, str] = {}
        #: The layers around the last node that is in any, or in the model itself, and their calls.
        self._last: tuple[_Around, tuple[Scope, ...]] = (_Around(()), (Scope(""),))

    def enter(self, node: NodeProto, around: _Around) -> tuple[Scope, ...]:
        """Return the calls of layers that a node is in."""
        if not around.paths and not _is_scoped(node):
            return (Scope(""),)  # what an exporter adds between the nodes of a layer does not end its call
        last, chain = self._last
        if around != last:
            chain = self._number_calls(node, around, last.paths)
            self._last = around, chain
        return chain

    def _number_calls(self, node: NodeProto, around: _Around, open_paths: Sequence[str]) -> tuple[Scope, ...]:
        """Return the calls around a node; layers that are not open yet are entered by it."""
        numbers = around.calls or (0,) * len(around.paths)
        is_open = True
        chain = [Scope("")]
        for depth, (path, number) in enumerate(zip(around.paths, numbers, strict=True)):
            is_open = is_open and depth < len(open_paths) and path == open_paths[depth]
            if not is_open:
                self._count(path, node.op_type, is_numbered=bool(number))
            chain.append(Scope(path, number or self._calls[path]))
        return tuple(chain)

    def _count(self, path: str, operator: str, *, is_numbered: bool) -> None:
        """Count that a layer is entered by an operator; its number, where it has one, tells the call."""
        if path not in self._calls:
            self._calls[path], self._first_operators[path] = 0, operator
        elif self._first_operators[path] == operator and not is_numbered:
            self._calls[path] += 1


def _is_scoped(node: NodeProto) -> bool:
    """Say whether the exporter tells the layer of a node, if only that it is the model itself: ``/Add``."""
    return "/" in node.name or bool(_read_metadata(node, _PATHS))
