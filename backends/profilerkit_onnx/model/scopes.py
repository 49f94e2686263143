"""Layers by the scopes of exporters: which layer of the source model each node comes from.

torch's exporter by ``torch.export`` (``dynamo=True``) writes paths and classes of the modules into the metadata of each
node. Its older one by TorchScript writes the scopes into the names of the nodes alone: ``/block/convolution/Conv``. A
Keras model that tf2onnx has converted has the scopes of TensorFlow (`keras_scopes`). Nodes without either belong to the
model itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from onnx import ModelProto, NodeProto

from profilerkit.backend_kit.scoped_calls import Scope

from .keras_scopes import KerasNames, is_converted

__all__ = ["Scope", "Scopes", "find_name", "find_scopes", "write_scope"]

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


def find_scopes(model: ModelProto) -> Scopes:
    """Return the layers of a model by the scopes of its nodes."""
    nodes = list(model.graph.node)
    if _has_metadata(nodes):
        chains = [_paths_of_metadata(node) for node in nodes]
        types = _types_of_metadata(nodes)
    elif is_converted(model):
        chains = KerasNames(model).paths()
        types = _types_of_nodes(model, nodes, [paths for paths, _ in chains])
    else:
        chains = _paths_of_names(model, nodes)
        types = _types_of_nodes(model, nodes, [paths for paths, _ in chains])
    scopes = Scopes(types={"": find_name(model)})
    calls = _Calls()
    for node, (paths, marks) in zip(nodes, chains, strict=True):
        for path in paths:
            if path in scopes.types:
                continue
            for around in accumulate(path.split("."), lambda outer, inner: f"{outer}.{inner}"):
                scopes.types.setdefault(around, types.get(around, CONTAINER))
        scopes.chains.append(calls.enter(node, paths, marks))
    return scopes


def find_name(model: ModelProto) -> str:
    """Return the class of the model that was exported, the name of a Keras model, or that of the graph."""
    if is_converted(model):
        name = KerasNames(model).name
    else:
        layers = (zip(*_layers_of_metadata(node), strict=False) for node in model.graph.node)
        name = next((kind for layer in layers for path, kind in layer if not path), "").rpartition(".")[2]
    return name or model.graph.name or type(model).__name__


def write_scope(node: NodeProto, layers: Sequence[tuple[str, str]]) -> None:
    """Write the layers of a node, paths and types from the outermost on, into its metadata as torch's exporter does."""
    del node.metadata_props[:]
    paths, types = ([layer[index] for layer in layers] or [""] for index in (0, 1))
    node.metadata_props.add(key=_PATHS, value=repr([*paths, node.name]))
    node.metadata_props.add(key=_CLASSES, value=repr([*types, node.op_type]))


def _has_metadata(nodes: Iterable[NodeProto]) -> bool:
    return any(_metadata(node, _PATHS) for node in nodes)


def _layers_of_metadata(node: NodeProto) -> tuple[list[str], list[str]]:
    """Return the paths and the classes of the layers around a node; the last of each is the operator."""
    if not node.metadata_props:
        return [], []
    return _read_list(_metadata(node, _PATHS))[:-1], _read_list(_metadata(node, _CLASSES))


def _metadata(node: NodeProto, key: str) -> str:
    return next((entry.value for entry in node.metadata_props if entry.key == key), "")


def _read_list(text: str) -> list[str]:
    """Return the list of texts that metadata holds; none for what is no such list."""
    try:
        names = ast.literal_eval(text) if text else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


Paths = tuple[tuple[str, ...], tuple[int, ...]]


def _paths_of_metadata(node: NodeProto) -> Paths:
    """Return the paths of the layers around a node; the first entry is the model, the last the operator."""
    paths = tuple(dict.fromkeys(path for path in _read_list(_metadata(node, _PATHS))[:-1] if path and _is_path(path)))
    return paths, ()


def _is_path(path: str) -> bool:
    return all(path.split("."))


def _types_of_metadata(nodes: Iterable[NodeProto]) -> dict[str, str]:
    types: dict[str, str] = {}
    for node in nodes:
        for path, name in zip(*_layers_of_metadata(node), strict=False):
            types.setdefault(path, name.rpartition(".")[2])
    return types


def _paths_of_names(model: ModelProto, nodes: Sequence[NodeProto]) -> list[Paths]:
    """Return the paths that names such as ``/block/block.0/Conv`` tell, and which call of the innermost it is.

    The second call of a layer has a number at its name, ``/block/convolution_1/Conv``. It is told from a layer that is
    called so by its sibling ``/block/convolution``, and by the weights, which have the names of their layers.
    """
    texts = [node.name.lstrip("/").rpartition("/")[0] for node in nodes]
    joined = {text: tuple(_join(text.split("/"))) for text in dict.fromkeys(texts)}
    split = [joined[text] for text in texts]
    every = {path for paths in split for path in paths}
    owners = {tensor.name.rpartition(".")[0] for tensor in model.graph.initializer}
    renamed: dict[str, tuple[str, int]] = {}
    for path in every:
        numbered = re.fullmatch(r"(.+)_(\d+)", path)
        repeats = numbered is not None and numbered[1] in every and not _owns(path, owners)
        renamed[path] = (numbered[1], int(numbered[2])) if numbered is not None and repeats else (path, 0)
    return [_rename(paths, renamed) for paths in split]


def _owns(path: str, owners: Iterable[str]) -> bool:
    return any(owner == path or owner.startswith(f"{path}.") for owner in owners)


def _rename(paths: tuple[str, ...], renamed: dict[str, tuple[str, int]]) -> Paths:
    names = [renamed[path][0] for path in paths]
    return tuple(names), tuple(renamed[path][1] for path in paths)


def _join(parts: Sequence[str]) -> Iterator[str]:
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


def _types_of_nodes(model: ModelProto, nodes: Sequence[NodeProto], chains: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the type of each innermost layer: the operator that has a weight, else the last one of it."""
    weights = {tensor.name for tensor in model.graph.initializer}
    types: dict[str, str] = {}
    weighted: set[str] = set()
    containers = {path.rpartition(".")[0] for paths in chains for path in paths}
    for node, paths in zip(nodes, chains, strict=True):
        path = paths[-1] if paths else ""
        if not path or path in containers or path in weighted:
            continue
        types[path] = node.op_type
        if weights.intersection(node.input):
            weighted.add(path)
    return types


def _is_scoped(node: NodeProto) -> bool:
    """Say whether the exporter tells the layer of a node, if only that it is the model itself: ``/Add``."""
    return "/" in node.name or bool(_metadata(node, _PATHS))


class _Calls:
    """Counts the calls of layers along the nodes of a graph.

    Where the exporter numbers the calls, that is the number. Elsewhere a layer that is entered again, after nodes
    outside of it, by the operator that its first call began with, is called once more.
    """

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.first: dict[str, str] = {}
        self.open: tuple[str, ...] = ()
        self.last: tuple[tuple[str, ...], tuple[int, ...], tuple[Scope, ...]] | None = None

    def enter(self, node: NodeProto, paths: tuple[str, ...], marks: tuple[int, ...]) -> tuple[Scope, ...]:
        """Return the calls of layers that a node is in."""
        if not paths and not _is_scoped(
            node
        ):  # what an exporter adds between the nodes of a layer does not end its call
            return (Scope(""),)
        if self.last is not None and self.last[:2] == (paths, marks):
            return self.last[2]
        chain = self._enter(node, paths, marks)
        self.last = (paths, marks, chain)
        return chain

    def _enter(self, node: NodeProto, paths: tuple[str, ...], marks: tuple[int, ...]) -> tuple[Scope, ...]:
        marks = marks or (0,) * len(paths)
        shared = 0
        while shared < min(len(paths), len(self.open)) and paths[shared] == self.open[shared]:
            shared += 1
        for path, mark in list(zip(paths, marks, strict=True))[shared:]:
            if path not in self.calls:
                self.calls[path], self.first[path] = 0, node.op_type
            elif self.first[path] == node.op_type and not mark:
                self.calls[path] += 1
        self.open = paths
        numbers = [mark or self.calls[path] for path, mark in zip(paths, marks, strict=True)]
        return (Scope(""), *(Scope(path, number) for path, number in zip(paths, numbers, strict=True)))
