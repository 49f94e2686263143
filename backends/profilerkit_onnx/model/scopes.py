"""Layers by the scopes of exporters: which layer of the source model each node comes from.

torch's exporter by ``torch.export`` (``dynamo=True``) writes paths and classes of the modules into the metadata of each
node. Its older one by TorchScript writes the scopes into the names of the nodes alone (`named_scopes`). A Keras model
that tf2onnx has converted has the scopes of TensorFlow (`keras_scopes`). Nodes without either belong to the model
itself.

So there are three ways to read the layers around each node (`LayersAround`). What follows is the same for all: the
types of the layers, and which call of each layer a node is in (`CallCounter`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from onnx import ModelProto, NodeProto

from profilerkit.backend_kit.keras_scopes import find_keras_layers, find_keras_name
from profilerkit.backend_kit.named_layers import (
    CONTAINER,
    CallCounter,
    LayersAround,
    Scopes,
    TypedOperator,
    is_path,
    name_types,
)
from profilerkit.trace.layer_paths import walk_outwards

from .named_scopes import read_names

__all__ = ["find_name", "find_scopes", "write_scope"]

#: The keys of torch's exporter in the metadata of a node.
_PATHS, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"


def find_scopes(model: ModelProto) -> Scopes:
    """Return the layers of a model by the scopes of its nodes."""
    nodes = list(model.graph.node)
    if any(_read_metadata(node, _PATHS) for node in nodes):
        around_nodes = [_read_layers_in_metadata(node) for node in nodes]
        types = _read_types_in_metadata(nodes)
    else:
        around_nodes = find_keras_layers(nodes) if _is_from_keras(model) else read_names(model)
        types = name_types("", _list_typed(model, around_nodes))
    ordered = {"": find_name(model)}
    for around in around_nodes:
        for path in around.paths:
            if path not in ordered:
                ordered |= {outer: types.get(outer, CONTAINER) for outer in reversed([*walk_outwards(path)]) if outer}
    counter = CallCounter()
    placed = zip(nodes, around_nodes, strict=True)
    return Scopes([counter.enter(node.op_type, around, _is_scoped(node)) for node, around in placed], ordered)


def _list_typed(model: ModelProto, around_nodes: Sequence[LayersAround]) -> Iterator[TypedOperator]:
    """Yield the operators that the types of layers may be."""
    weights = {tensor.name for tensor in model.graph.initializer}
    for node, around in zip(model.graph.node, around_nodes, strict=True):
        path = around.paths[-1] if around.paths else ""
        yield TypedOperator(path, node.op_type, not weights.isdisjoint(node.input))


def find_name(model: ModelProto) -> str:
    """Return the class of the model that was exported, the name of a Keras model, or that of the graph."""
    if _is_from_keras(model):
        name = find_keras_name(list(model.graph.node))
    else:
        layers = (layer for node in model.graph.node for layer in _pair_with_classes(node))
        name = next((kind for path, kind in layers if not path), "").rpartition(".")[2]
    return name or model.graph.name or type(model).__name__


def _is_from_keras(model: ModelProto) -> bool:
    """Return whether tf2onnx has made a model."""
    return bool(model.producer_name == "tf2onnx")


def _is_scoped(node: NodeProto) -> bool:
    """Return whether the exporter tells the layer of a node, if only that it is the model itself: ``/Add``."""
    return "/" in node.name or bool(_read_metadata(node, _PATHS))


# Layers in metadata ---------------------------------------------------------------------------------------------------


def write_scope(node: NodeProto, layers: Sequence[tuple[str, str]]) -> None:
    """Write the layers of a node, paths and types from the outermost on, into its metadata as torch's exporter does."""
    paths = [path for path, _ in layers] or [""]
    types = [kind for _, kind in layers] or [""]
    del node.metadata_props[:]
    node.metadata_props.add(key=_PATHS, value=repr([*paths, node.name]))
    node.metadata_props.add(key=_CLASSES, value=repr([*types, node.op_type]))


def _read_layers_in_metadata(node: NodeProto) -> LayersAround:
    return LayersAround(tuple(dict.fromkeys(path for path in _read_list(node, _PATHS) if path and is_path(path))))


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
