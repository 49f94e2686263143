"""Layers by the scopes of exporters: which layer of the source model each node comes from.

torch's exporter writes paths and classes of the modules into the metadata of each node (`layer_metadata`), its older
one the scopes into the names of the nodes alone: ``/block/conv/Conv``. A Keras model that tf2onnx has converted has the
scopes of TensorFlow (`keras_scopes`). Nodes without any of these belong to the model itself.
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

#: The calls of layers that a node is in, the outermost first, without the model's own.
_Around: TypeAlias = tuple[Scope, ...]

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
    are_scoped = [bool(layers.paths) for layers in in_metadata]
    if any(are_scoped):  # first, as `optimize` writes them for all models
        around_nodes = list(map(_list_calls, in_metadata))
        return Scopes(_count_calls(nodes, around_nodes, are_scoped), _read_types(name, in_metadata, around_nodes))
    if model.producer_name == _FROM_KERAS:  # the names of Keras' calls have numbers
        around_nodes = find_keras_layers(nodes)
        chains = [(ROOT, *around) for around in around_nodes]
    else:
        around_nodes = _read_names(model)
        # The names of the model's own nodes begin with a slash too: "/Add".
        chains = _count_calls(nodes, around_nodes, ["/" in node.name for node in nodes])
    return Scopes(chains, _derive_types(name, model, around_nodes))


def _count_calls(
    nodes: Iterable[NodeProto], around_nodes: Iterable[_Around], are_scoped: Iterable[bool]
) -> list[_Around]:
    """Return the calls of layers that each node is in, the call of the model first.

    ``are_scoped`` says of each node whether the exporter tells its layer.
    """
    counter = CallCounter()
    facts = zip(nodes, around_nodes, are_scoped, strict=True)
    return [counter.enter(node.op_type, around, is_scoped) for node, around, is_scoped in facts]


def _list_calls(layers: NodeLayers) -> _Around:
    """Return the layers around a node by its metadata, each once, without the model itself."""
    return tuple(Scope(path) for path in dict.fromkeys(layers.paths) if path and is_path(path))


def _derive_types(name: str, model: ModelProto, around_nodes: Iterable[_Around]) -> dict[str, str]:
    """Return the type of each layer by its path, from the operators in it: the names of nodes have no classes.

    A node with graphs counts as reading the weights of its layer in them.
    """
    weights = set()
    for tensor in model.graph.initializer:
        if tensor.dims and tensor.data_type not in _NEVER_WEIGHTS:
            weights.add(tensor.name)
    operators = []
    for node, around in zip(model.graph.node, around_nodes, strict=True):
        path, operator = around[-1].path if around else "", node.op_type
        reads_weight = not weights.isdisjoint(node.input) or bool(list_inner_graphs(node))
        if operator != _UNPACKING:
            operators.append(TypedOperator(path, operator, reads_weight, operator in OPERATORS.free))
            continue
        if reads_weight:  # the node that reads what is unpacked shows the type of the layer
            weights.update(node.output)
        operators.append(TypedOperator(path, operator, has_weight=False, is_free=True))
    return name_types(name, operators)


def _read_types(name: str, in_metadata: Iterable[NodeLayers], around_nodes: Iterable[_Around]) -> dict[str, str]:
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


def _read_names(model: ModelProto) -> list[_Around]:
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
