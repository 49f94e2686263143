"""Layers by the scopes of exporters: which layer of the source model each node comes from.

torch's exporter by ``torch.export`` (``dynamo=True``) writes paths and classes of the modules into the metadata of each
node (`metadata_scopes`). Its older one by TorchScript writes the scopes into the names of the nodes alone
(`named_scopes`). A Keras model that tf2onnx has converted has the scopes of TensorFlow (`keras_scopes`). Nodes without
any of these belong to the model itself.

So there are three ways to read the layers around each node (`LayersAround`). What follows is the same for all: the
types of the layers, and which call of each layer a node is in (`CallCounter`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx import ModelProto, NodeProto

from profilerkit.backend_kit.keras_scopes import find_keras_layers, find_keras_name
from profilerkit.backend_kit.named_layers import (
    CONTAINER,
    CallCounter,
    LayersAround,
    Scopes,
    TypedOperator,
    name_types,
)
from profilerkit.trace.layer_paths import walk_outwards

from .metadata_scopes import has_scopes, list_layers, read_layers, read_types
from .named_scopes import read_names

__all__ = ["find_name", "find_scopes"]


def find_scopes(model: ModelProto) -> Scopes:
    """Return the layers of a model by the scopes of its nodes."""
    nodes = list(model.graph.node)
    if any(map(has_scopes, nodes)):
        around_nodes, types = [read_layers(node) for node in nodes], read_types(nodes)
    else:
        around_nodes = find_keras_layers(nodes) if _is_from_keras(model) else read_names(model)
        types = name_types("", _list_typed(model, around_nodes))
    counter = CallCounter()
    placed = zip(nodes, around_nodes, strict=True)
    chains = [counter.enter(node.op_type, around, _is_scoped(node)) for node, around in placed]
    return Scopes(chains, {"": find_name(model), **_order_types(types, around_nodes)})


def _order_types(types: Mapping[str, str], around_nodes: Iterable[LayersAround]) -> dict[str, str]:
    """Return the type of each layer by its path in the order of the graph, a layer behind those that it is in."""
    ordered: dict[str, str] = {}
    for path in dict.fromkeys(path for around in around_nodes for path in around.paths):
        for outer in reversed([*walk_outwards(path)]):
            if outer:
                ordered[outer] = types.get(outer, CONTAINER)
    return ordered


def _list_typed(model: ModelProto, around_nodes: Sequence[LayersAround]) -> Iterator[TypedOperator]:
    """Yield the operators by which layers get a type, each in the innermost layer around it."""
    weights = {tensor.name for tensor in model.graph.initializer}
    for node, around in zip(model.graph.node, around_nodes, strict=True):
        layer = around.paths[-1] if around.paths else ""
        yield TypedOperator(layer, node.op_type, has_weight=not weights.isdisjoint(node.input))


def find_name(model: ModelProto) -> str:
    """Return the class of the model that was exported, the name of a Keras model, or that of the graph."""
    if _is_from_keras(model):
        name = find_keras_name(list(model.graph.node))
    else:
        layers = (layer for node in model.graph.node for layer in list_layers(node))
        name = next((layer.type for layer in layers if not layer.path), "")
    return name or model.graph.name or type(model).__name__


def _is_from_keras(model: ModelProto) -> bool:
    """Return whether tf2onnx has made a model."""
    return bool(model.producer_name == "tf2onnx")


def _is_scoped(node: NodeProto) -> bool:
    """Return whether the exporter tells the layer of a node, if only that it is the model itself: ``/Add``."""
    return "/" in node.name or has_scopes(node)
