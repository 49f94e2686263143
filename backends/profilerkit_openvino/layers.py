"""Layers by the names of nodes: torch's converter writes ``__module.block.conv/aten::_convolution/Convolution``.

Names of TensorFlow's converter have the scopes of Keras layers and of their calls (`keras_scopes`). Other names with
slashes, such as the names of ONNX, are scopes too: ``/block/conv/Conv``. The optimizations of the converters give new
names to fused nodes, such as a convolution with the scale of a batch norm. A node without a layer belongs to the layer
that reads its result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

from profilerkit.backend_kit.keras_scopes import find_keras_layers, find_keras_name
from profilerkit.backend_kit.named_layers import CallCounter, Scopes, TypedOperator, name_types, nest_scopes
from profilerkit.backend_kit.scoped_calls import ROOT, Scope
from profilerkit.trace.layer_paths import walk_outwards

from .costs import OPERATORS
from .nodes import read_consumers
from .weights import Weight, find_readers, find_weights

__all__ = ["Layers", "find_layers", "name_model", "read_name"]

#: The name that TensorFlow's converter gives every model.
_OF_TENSORFLOW = "TensorFlow_Frontend_IR"
#: The name that torch's converter gives an operator inside of a layer; the group is the layer's path.
_TORCH = re.compile(r"__module\.([^/]+)/")
#: The names that torch's converter gives the operators of the model itself.
_ROOT = re.compile(r"(aten|prim|quantized|torchvision)::")
#: Nodes that compute nothing, and of which no layer has its type.
_PASSIVE = ("Constant", "Parameter", "Result")

#: The calls of layers that a node is in, the outermost first, without the model's own; empty for the model itself.
_Around: TypeAlias = tuple[Scope, ...]


@dataclass
class Layers(Scopes):
    """The layers of a model.

    Attributes:
        weights: The weights of the model, which tell the types of layers.
        unnamed: How many operators that compute have lost their names, in a model that has names of layers.
    """

    weights: Sequence[Weight] = ()
    unnamed: int = 0


def name_model(model: Any) -> str:
    """Return the name of a model; for a converted Keras model, the name of the Keras model."""
    name = read_name(model)
    if name == _OF_TENSORFLOW:
        return find_keras_name(list(_list_scoped(model.get_ordered_ops()))) or name
    return name


def read_name(model: Any) -> str:
    """Return the name that a model has; "Model" if OpenVINO has numbered it, as that differs from run to run."""
    name = str(model.get_friendly_name())
    return "Model" if re.fullmatch(r"Model\d+", name) else name


def find_layers(model: Any) -> Layers:
    """Return the layers of the nodes of a model, in the order in which they run."""
    nodes, is_keras = model.get_ordered_ops(), model.get_friendly_name() == _OF_TENSORFLOW
    by_name = _read_keras_names(nodes) if is_keras else [_read_name(node.get_friendly_name()) for node in nodes]
    weights = find_weights(nodes)
    readers = find_readers(weights)
    counter = CallCounter()
    chains, typed, unnamed = [], [], 0
    for node, named, around in zip(nodes, by_name, _ask_readers(nodes, by_name), strict=True):
        kind = node.get_type_name()
        if is_keras or kind in _PASSIVE:  # the names of Keras' calls have numbers; a constant may be anywhere
            chains.append((ROOT, *around))
        else:
            chains.append(counter.enter(kind, around, is_scoped=named is not None))
        if kind not in _PASSIVE:
            is_free = kind in OPERATORS.free
            typed.append(TypedOperator(around[-1].path if around else "", kind, node.get_name() in readers, is_free))
            unnamed += named is None and not is_free
    types = name_types(name_model(model), typed, with_containers=True)
    return Layers(chains, types, weights, unnamed if any(by_name) else 0)


# The layers that names tell -------------------------------------------------------------------------------------------


def _read_name(name: str) -> _Around | None:
    """Return the layers that the name of a node tells; None if it tells none."""
    match = _TORCH.match(name)
    if match:
        return _nest(match[1])
    if _ROOT.match(name):
        return ()
    paths = list(nest_scopes(name.strip("/").split("/")[:-1]))
    if paths:
        return _nest(paths[-1])
    return () if name.startswith("/") else None


def _nest(path: str) -> _Around:
    """Return the layers around a path, and its own."""
    return tuple(Scope(outer) for outer in reversed(list(walk_outwards(path))) if outer)


def _read_keras_names(nodes: Sequence[Any]) -> list[_Around | None]:
    """Return the calls of Keras layers that the name of each node tells; None if it tells none."""
    layers = iter(find_keras_layers(list(_list_scoped(nodes))))
    return [next(layers) if "/" in node.get_friendly_name() else None for node in nodes]


class _ScopedNode(NamedTuple):
    """A node as `keras_scopes` reads it, which looks for scopes in its name alone."""

    name: str
    op_type: str
    input: Sequence[str] = ()
    output: Sequence[str] = ()


def _list_scoped(nodes: Sequence[Any]) -> Iterator[_ScopedNode]:
    """Yield the nodes whose names have scopes."""
    for node in nodes:
        if "/" in node.get_friendly_name():
            yield _ScopedNode(node.get_friendly_name(), node.get_type_name())


# The layers of nodes whose names tell none ----------------------------------------------------------------------------


def _ask_readers(nodes: Sequence[Any], named: Sequence[_Around | None]) -> list[_Around]:
    """Return the layers of each node: the layers that its name tells, or else the common layers of its readers."""
    layers_by_node: dict[str, _Around | None] = {}
    for node, around in zip(reversed(nodes), reversed(named), strict=True):  # readers run later: theirs are found
        if around is None:
            readers = [target.get_node().get_name() for target in read_consumers(node, layers_by_node)]
            of_readers = [layers_by_node[reader] for reader in readers]
            around = _find_common([layers for layers in of_readers if layers is not None])
        layers_by_node[node.get_name()] = around
    return [layers_by_node[node.get_name()] or () for node in nodes]


def _find_common(chains: Sequence[_Around]) -> _Around | None:
    """Return the layers around all of these: ``a`` and ``a.b`` of ``a.b.x`` and ``a.b.y.z``; None without any."""
    if not chains:
        return None
    shared = takewhile(lambda scopes: len(set(scopes)) == 1, zip(*chains, strict=False))
    return tuple(scopes[0] for scopes in shared)
