"""Layers by the scopes of exporters: which layer of the source model each node comes from.

torch's exporter writes paths and classes of the modules into the metadata of each node (`layer_metadata`), its older
one the scopes into the names of the nodes alone (`scope_names`). A Keras model that tf2onnx has converted has the
scopes of TensorFlow (`keras_scopes`). Nodes without any of these belong to the model itself.

So there are three ways to read the layers around each node (`LayersAround`). What follows is the same for all: the
types of the layers, and which call of each layer a node is in: `CallCounter`, or for Keras the scopes themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from onnx import AttributeProto, ModelProto, NodeProto, TensorProto

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
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.trace.layer_paths import walk_outwards

from ..costs.registry import OPERATORS
from .layer_metadata import NodeLayers, read_layers
from .scope_names import read_names

__all__ = ["find_name", "find_scopes"]

#: What produces the models that tf2onnx has made of Keras'.
_FROM_KERAS = "tf2onnx"
#: The dtypes of shapes, indices and the like.
_NEVER_WEIGHTS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING)
#: The operator that unpacks a weight of integers, before the operator that multiplies with it.
_UNPACKING = "DequantizeLinear"


def find_scopes(model: ModelProto) -> Scopes:
    """Return the layers of a model by the scopes of its nodes."""
    nodes = list(model.graph.node)
    in_metadata = list(map(read_layers, nodes))
    if any(layers.paths for layers in in_metadata):  # first, as `optimize` writes them for all models
        around_nodes = [_drop_model(layers) for layers in in_metadata]
        types = _read_types(in_metadata)
        chains = _count_calls(nodes, around_nodes, in_metadata)
    elif model.producer_name == _FROM_KERAS:
        around_nodes = find_keras_layers(nodes)
        types = _name_types(model, around_nodes)
        chains = [(Scope(""), *map(Scope, around.paths, around.calls)) for around in around_nodes]
    else:
        around_nodes = read_names(model)
        types = _name_types(model, around_nodes)
        chains = _count_calls(nodes, around_nodes, in_metadata)
    return Scopes(chains, {"": find_name(model, in_metadata), **_order_types(types, around_nodes)})


def _count_calls(
    nodes: Iterable[NodeProto], around_nodes: Iterable[LayersAround], in_metadata: Iterable[NodeLayers]
) -> list[tuple[Scope, ...]]:
    """Return the calls of layers that each node is in, the call of the model first."""
    counter = CallCounter()
    chains = []
    for node, around, layers in zip(nodes, around_nodes, in_metadata, strict=True):
        # The older exporter begins the names of the model's own nodes with a slash too: "/Add".
        is_scoped = bool(layers.paths) or "/" in node.name
        chains.append(counter.enter(node.op_type, around, is_scoped))
    return chains


def _drop_model(layers: NodeLayers) -> LayersAround:
    """Return layers as their metadata has them, each once, without the model itself."""
    return LayersAround(tuple(dict.fromkeys(path for path in layers.paths if path and is_path(path))))


def _name_types(model: ModelProto, around_nodes: Iterable[LayersAround]) -> dict[str, str]:
    """Return the type of each layer by its path, after the operators in it: names of nodes do not tell classes."""
    weights = {
        tensor.name for tensor in model.graph.initializer if tensor.dims and tensor.data_type not in _NEVER_WEIGHTS
    }
    operators = [
        TypedOperator(
            around.paths[-1] if around.paths else "",
            node.op_type,
            has_weight=_has_weight(node, weights),
            is_free=node.op_type in OPERATORS.free or node.op_type == _UNPACKING,
        )
        for node, around in zip(model.graph.node, around_nodes, strict=True)
    ]
    return name_types("", operators)


def _has_weight(node: NodeProto, weights: Set[str]) -> bool:
    """Return whether a node is taken to read a weight: one that holds graphs reads those of its layer in them.

    What unpacks a weight reads one too, and does not tell what its layer is.
    """
    holds_graphs = any(attribute.type == AttributeProto.GRAPH for attribute in node.attribute)
    return node.op_type != _UNPACKING and (holds_graphs or not weights.isdisjoint(node.input))


def _order_types(types: Mapping[str, str], around_nodes: Iterable[LayersAround]) -> dict[str, str]:
    """Return the type of each layer by its path in the order of the graph, a layer behind those that it is in."""
    ordered: dict[str, str] = {}
    for path in dict.fromkeys(path for around in around_nodes for path in around.paths):
        outermost_first = reversed(list(walk_outwards(path)))
        next(outermost_first)  # the model itself
        for outer in outermost_first:
            ordered[outer] = types.get(outer, CONTAINER)
    return ordered


def find_name(model: ModelProto, in_metadata: Iterable[NodeLayers]) -> str:
    """Return the class of the model that was exported, the name of a Keras model, or that of the graph.

    ``in_metadata`` are the layers around its nodes that their metadata tells; a file may lack some classes.
    """
    around = (layer for layers in in_metadata for layer in zip(layers.paths, layers.types, strict=False))
    name = next((kind for path, kind in around if not path), "")
    if not name and model.producer_name == _FROM_KERAS:
        name = find_keras_name(list(model.graph.node))
    return name or model.graph.name or type(model).__name__


def _read_types(layers_of_nodes: Iterable[NodeLayers]) -> dict[str, str]:
    """Return the name of the class of each layer by its path; where nodes tell different ones, that of the first."""
    types: dict[str, str] = {}
    for layers in layers_of_nodes:
        for path, kind in zip(layers.paths, layers.types, strict=False):
            types.setdefault(path, kind)
    return types
