"""Layers by the scopes of exporters: which layer of the source model each node comes from.

torch's exporter writes paths and classes of the modules into the metadata of each node (`layer_metadata`), its older
one the scopes into the names of the nodes alone: ``/block/conv/Conv``. A Keras model that tf2onnx has converted has the
scopes of TensorFlow (`keras_scopes`). Nodes without any of these belong to the model itself.

So there are three ways to read the layers around each node. The next steps are nearly the same for all: the types of
the layers, and the call of each layer that a node is in: by `CallCounter`, or for Keras by the scopes themselves.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import TypeAlias

from onnx import ModelProto, NodeProto, TensorProto

from profilerkit.backend_kit.keras_scopes import find_keras_layers, find_keras_name
from profilerkit.backend_kit.named_layers import (
    CONTAINER,
    CallCounter,
    Scopes,
    TypedOperator,
    is_path,
    name_types,
    nest_scopes,
)
from profilerkit.backend_kit.scoped_calls import ROOT, Scope
from profilerkit.trace.layer_paths import add_outer, walk_outwards

from ..costs.registry import OPERATORS
from .layer_metadata import NodeLayers, read_layers
from .nodes import list_inner_graphs

__all__ = ["find_name", "find_scopes"]

#: The calls of layers that a node is in, the outermost first.
Calls: TypeAlias = tuple[Scope, ...]

#: The producer name of Keras models that tf2onnx has converted.
_FROM_KERAS = "tf2onnx"
#: The dtypes of shapes, indices and the like.
_NEVER_WEIGHTS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING)
#: The operator that unpacks a weight of integers, before the operator that multiplies with it.
_UNPACKING = "DequantizeLinear"


def find_scopes(model: ModelProto) -> Scopes:
    """Return the layers of a model by the scopes of its nodes."""
    nodes = model.graph.node
    in_metadata = list(map(read_layers, nodes))
    name = find_name(model, in_metadata)
    if any(layers.paths for layers in in_metadata):  # first, as `optimize` writes them for all models
        around_nodes = list(map(_list_calls, in_metadata))
        types = _read_types(name, in_metadata, around_nodes)
    else:
        is_keras = model.producer_name == _FROM_KERAS
        around_nodes = find_keras_layers(nodes) if is_keras else _read_names(model)
        types = _derive_types(name, model, around_nodes)
        if is_keras:  # the names of Keras' calls have numbers
            return Scopes([(ROOT, *calls) for calls in around_nodes], types)
    return Scopes(_count_calls(nodes, around_nodes, in_metadata), types)


def _count_calls(
    nodes: Iterable[NodeProto], around_nodes: Iterable[Calls], in_metadata: Iterable[NodeLayers]
) -> list[Calls]:
    """Return the calls of layers that each node is in, the call of the model first."""
    counter = CallCounter()
    chains = []
    for node, around, layers in zip(nodes, around_nodes, in_metadata, strict=True):
        # The older exporter begins the names of the model's own nodes with a slash too: "/Add".
        is_scoped = bool(layers.paths) or "/" in node.name
        chains.append(counter.enter(node.op_type, around, is_scoped))
    return chains


def _list_calls(layers: NodeLayers) -> Calls:
    """Return the layers around a node by its metadata, each once, without the model itself."""
    return tuple(Scope(path) for path in dict.fromkeys(layers.paths) if path and is_path(path))


def _derive_types(name: str, model: ModelProto, around_nodes: Iterable[Calls]) -> dict[str, str]:
    """Return the type of each layer by its path, from the operators in it: the names of nodes have no classes.

    A node with graphs counts as reading the weights of its layer in them. A node that unpacks a weight reads a weight
    too, but does not show the type of its layer; the node that reads what it has unpacked does.
    """
    weights = set()
    for tensor in model.graph.initializer:
        if tensor.dims and tensor.data_type not in _NEVER_WEIGHTS:
            weights.add(tensor.name)
    operators = []
    for node, around in zip(model.graph.node, around_nodes, strict=True):
        operator = node.op_type
        is_unpacking = operator == _UNPACKING
        reads_weight = not weights.isdisjoint(node.input) or bool(list_inner_graphs(node))
        if is_unpacking and reads_weight:
            weights.update(node.output)
        path = around[-1].path if around else ""
        is_free = is_unpacking or operator in OPERATORS.free
        operators.append(TypedOperator(path, operator, reads_weight and not is_unpacking, is_free))
    return name_types(name, operators)


def _read_types(name: str, in_metadata: Iterable[NodeLayers], around_nodes: Iterable[Calls]) -> dict[str, str]:
    """Return the class of each layer by its path, outer layers first; ``name`` is the class of the model.

    If nodes tell different classes, the first class is returned.
    """
    told: dict[str, str] = {}
    for layers in in_metadata:
        for path, kind in zip(layers.paths, layers.types, strict=False):
            told.setdefault(path, kind)
    types = {"": name}
    for around in around_nodes:
        for scope in around:
            for outer in reversed(list(walk_outwards(scope.path))):
                types.setdefault(outer, told.get(outer, CONTAINER))
    return types


def find_name(model: ModelProto, in_metadata: Iterable[NodeLayers]) -> str:
    """Return the class of the exported model, the name of a Keras model, or the name of the graph.

    ``in_metadata`` has the layers around its nodes by their metadata; a file may lack some classes.
    """
    for layers in in_metadata:
        for path, kind in zip(layers.paths, layers.types, strict=False):
            if not path and kind:
                return kind
    name = find_keras_name(model.graph.node) if model.producer_name == _FROM_KERAS else ""
    return name or model.graph.name or type(model).__name__


# Names by torch's older exporter (TorchScript) ------------------------------------------------------------------------


def _read_names(model: ModelProto) -> list[tuple[Scope, ...]]:
    """Return the layers in names such as ``/block/block.0/Conv``, and the number of the call of each layer.

    The second call of a layer has a number behind its name, ``/block/convolution_1/Conv``. A layer of that name is told
    from a second call of its sibling ``/block/convolution`` by the weights: the weights that the sibling reads, or
    weights with the names of their layers. Without weights nothing tells: ``relu`` and ``relu_1`` are one layer.
    """
    paths = [list(nest_scopes(node.name.lstrip("/").split("/")[:-1])) for node in model.graph.node]
    weights = _find_weights(model, paths)
    named = add_outer(tensor.name.rpartition(".")[0] for tensor in model.graph.initializer)
    calls = {path: _read_call(path, weights, named) for path in weights}
    return [tuple([calls[path] for path in nested]) for nested in paths]


def _find_weights(model: ModelProto, paths: Iterable[Sequence[str]]) -> Mapping[str, Set[str]]:
    """Return the weights of two or more dimensions that the nodes inside each path read.

    ``paths`` has the paths around each node. A weight that is read in several places may have a copy for each.
    """
    originals = {tensor.name: tensor.name for tensor in model.graph.initializer if len(tensor.dims) > 1}
    weights: defaultdict[str, set[str]] = defaultdict(set)
    for node, nested in zip(model.graph.node, paths, strict=True):
        names = {originals[name] for name in node.input if name in originals}
        if node.op_type == "Identity":
            originals.update((node.output[0], name) for name in names)
        for path in nested:
            weights[path] |= names
    return weights


def _read_call(path: str, weights: Mapping[str, Set[str]], named: Container[str]) -> Scope:
    """Return the call that a path stands for; ``named`` are the layers in the names of weights, and those around."""
    numbered = re.fullmatch(r"(.+)_(\d+)", path)
    if numbered is None or numbered[1] not in weights or path in named:
        return Scope(path)
    has_own_weights = weights[path] and weights[path].isdisjoint(weights[numbered[1]])
    return Scope(path) if has_own_weights else Scope(numbered[1], int(numbered[2]))
