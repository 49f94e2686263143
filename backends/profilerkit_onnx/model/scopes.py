"""Layers by the scopes of exporters: which layer of the source model each node comes from.

torch's exporter by ``torch.export`` (``dynamo=True``) writes paths and classes of the modules into the metadata of each
node. Its older one by TorchScript writes the scopes into the names of the nodes alone: ``/block/convolution/Conv``. A
Keras model that tf2onnx has converted has the scopes of TensorFlow (`keras_scopes`). Nodes without any of these belong
to the model itself.

So there are three ways to read the layers around each node (`LayersAround`). What follows is the same for all: the
types of the layers, and which call of each layer a node is in: `CallCounter`, or for Keras the scopes themselves.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

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
    nest_scopes,
)
from profilerkit.backend_kit.scoped_calls import Scope
from profilerkit.trace.layer_paths import add_outer, walk_outwards

from ..costs.registry import OPERATORS

__all__ = ["NodeLayers", "find_name", "find_scopes", "read_layers", "write_layers"]

#: What produces the models that tf2onnx has made of Keras'.
_FROM_KERAS = "tf2onnx"
#: The dtypes of shapes, indices and the like.
_NEVER_WEIGHTS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING)
#: The operator that unpacks a weight of integers, before the operator that multiplies with it.
_UNPACKING = "DequantizeLinear"
#: The keys of both entries.
_PATHS, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"


def find_scopes(model: ModelProto) -> Scopes:
    """Return the layers of a model by the scopes of its nodes."""
    nodes = list(model.graph.node)
    in_metadata = [read_layers(node) for node in nodes]
    if any(layers.paths for layers in in_metadata):  # first, as `optimize` writes them for all models
        around_nodes = [_drop_model(layers) for layers in in_metadata]
        types = _read_types(in_metadata)
        chains = _count_calls(nodes, around_nodes, in_metadata)
    elif model.producer_name == _FROM_KERAS:
        around_nodes = find_keras_layers(nodes)
        types = _name_types(model, around_nodes)
        chains = [(Scope(""), *map(Scope, around.paths, around.calls)) for around in around_nodes]
    else:
        around_nodes = _read_names(model)
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


class NodeLayers(NamedTuple):
    """The layers around a node, the model itself first; none where its metadata does not tell them.

    Attributes:
        paths: The path of each; empty for the model itself.
        types: The name of the class of each, without the module that defines it; a file may lack some.
    """

    paths: Sequence[str] = ()
    types: Sequence[str] = ()


def read_layers(node: NodeProto) -> NodeLayers:
    """Return the layers around a node, of two lists in its metadata, as Python writes them.

    These are the paths of the modules around the node, the model itself (an empty path) first, and their classes. Each
    list ends with the node: its name, or its operator. Of a convolution in ``block.conv``::

        pkg.torch.onnx.name_scopes      ['', 'block', 'block.conv', 'conv2d']
        pkg.torch.onnx.class_hierarchy  ['net.Net', 'net.Block', 'torch.nn.modules.conv.Conv2d', 'aten.conv2d.default']
    """
    if not node.metadata_props:
        return NodeLayers()
    texts = {entry.key: entry.value for entry in node.metadata_props}
    types = [name.rpartition(".")[2] for name in _read_list(texts.get(_CLASSES, ""))]
    return NodeLayers(_read_list(texts.get(_PATHS, "")), types)


def _read_types(layers_of_nodes: Iterable[NodeLayers]) -> dict[str, str]:
    """Return the name of the class of each layer by its path; where nodes tell different ones, that of the first."""
    types: dict[str, str] = {}
    for layers in layers_of_nodes:
        for path, kind in zip(layers.paths, layers.types, strict=False):
            types.setdefault(path, kind)
    return types


def write_layers(node: NodeProto, layers: NodeLayers) -> None:
    """Write the layers around a node; all other metadata of it is deleted."""
    del node.metadata_props[:]
    node.metadata_props.add(key=_PATHS, value=repr([*layers.paths, node.name]))
    node.metadata_props.add(key=_CLASSES, value=repr([*layers.types, node.op_type]))


def _read_list(text: str) -> list[str]:
    """Return the texts in a list of the metadata, without the last one, which is the node; none if it is no list."""
    try:
        names = ast.literal_eval(text) if text else []
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # all that ``literal_eval`` may raise
        return []
    return [name for name in names if isinstance(name, str)][:-1] if isinstance(names, list) else []


def _read_names(model: ModelProto) -> list[LayersAround]:
    """Return the layers that names such as ``/block/block.0/Conv`` tell, and which call of the innermost it is.

    The second call of a layer has a number at its name, ``/block/convolution_1/Conv``. It is told from a layer that is
    called so by its sibling ``/block/convolution``, and by the weights: those that the sibling reads, or those that
    have the names of their layers. Of layers without weights nothing tells it: ``relu`` and ``relu_1`` are one layer.
    """
    scopes = [node.name.lstrip("/").rpartition("/")[0] for node in model.graph.node]
    paths_by_scope = {scope: tuple(nest_scopes(scope.split("/"))) for scope in dict.fromkeys(scopes)}
    weights = _list_weights(model, [paths_by_scope[scope] for scope in scopes])
    owners = add_outer(tensor.name.rpartition(".")[0] for tensor in model.graph.initializer)
    calls = {path: _split_number(path, weights, owners) for path in weights}
    around = {
        scope: LayersAround(tuple(calls[path].layer for path in paths), tuple(calls[path].number for path in paths))
        for scope, paths in paths_by_scope.items()
    }
    return [around[scope] for scope in scopes]


def _list_weights(model: ModelProto, paths: Iterable[Sequence[str]]) -> Mapping[str, Set[str]]:
    """Return the matrices, and what has more dimensions, that the nodes inside each path read.

    ``paths`` has those of each node. A weight that is read in several places may have a copy for each.
    """
    originals = {tensor.name: tensor.name for tensor in model.graph.initializer if len(tensor.dims) > 1}
    read: defaultdict[str, set[str]] = defaultdict(set)
    for node, around in zip(model.graph.node, paths, strict=True):
        names = {originals[name] for name in node.input if name in originals}
        if node.op_type == "Identity":
            originals.update((node.output[0], name) for name in names)
        for path in around:
            read[path] |= names
    return read


class _NumberedCall(NamedTuple):
    """A call of a layer: the path of the layer, and the number of the call."""

    layer: str
    number: int


def _split_number(path: str, weights: Mapping[str, Set[str]], owners: Container[str]) -> _NumberedCall:
    """Return the call that a path is; ``owners`` are the layers whose names weights have, and those around them."""
    numbered = re.fullmatch(r"(.+)_(\d+)", path)
    if numbered is None or numbered[1] not in weights or path in owners:
        return _NumberedCall(path, 0)
    if weights[path] and weights[path].isdisjoint(weights[numbered[1]]):
        return _NumberedCall(path, 0)
    return _NumberedCall(numbered[1], int(numbered[2]))
