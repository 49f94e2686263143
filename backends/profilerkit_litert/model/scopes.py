"""Layers by the scopes in the names of tensors: which layer of the source model each operator comes from.

A converter names what it fuses by all of its parts: ``net_1/relu_1/Relu;net_1/conv1_1/convolution``. An operator with
a weight is in the layer of that weight, any other in the first layer that the name of its output tells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from profilerkit.backend_kit.keras_scopes import find_keras_layers, find_keras_name
from profilerkit.backend_kit.named_layers import Scopes, TypedOperator, name_types
from profilerkit.backend_kit.scoped_calls import Scope

from .reading import Graph, Operator

__all__ = ["find_scopes"]


class _Node(NamedTuple):
    """An operator as `ScopedNode` describes it: its scopes, and what it reads and makes."""

    name: str
    op_type: str
    input: Sequence[str]
    output: Sequence[str]


def find_scopes(graph: Graph, name: str) -> Scopes:
    """Return the layers of a graph; ``name`` is the type of the model where its scopes tell none."""
    weights = _find_weights(graph)
    nodes = [
        _Node(
            _choose_scope(_name_output(graph, operator), weight),
            operator.name,
            _write_numbers(operator.inputs),
            _write_numbers(operator.outputs),
        )
        for operator, weight in zip(graph.operators, weights, strict=True)
    ]
    around = find_keras_layers(nodes)
    typed = [
        TypedOperator(layers.paths[-1] if layers.paths else "", operator.name, bool(weight or operator.graphs))
        for operator, weight, layers in zip(graph.operators, weights, around, strict=True)
    ]
    typed.sort(key=lambda operator: operator.type == "DEQUANTIZE")  # what unpacks weights stands before all else
    chains = [(Scope(""), *map(Scope, layers.paths, layers.calls)) for layers in around]
    return Scopes(chains, name_types(find_keras_name(nodes) or name, typed))


def _write_numbers(indices: Sequence[int]) -> list[str]:
    """Return tensors by their numbers, as their names may be equal; an empty text for one that is left out."""
    return [str(index) if index >= 0 else "" for index in indices]


def _name_output(graph: Graph, operator: Operator) -> str:
    return next((graph.tensors[index].name for index in operator.outputs if index >= 0), "")


def _find_weights(graph: Graph) -> list[str]:
    """Return for each operator the name of its largest constant of at least two dimensions; empty for none.

    Of a weight that is unpacked first, it is the packed one.
    """
    packed = {
        made: op.inputs[0] for op in graph.operators if op.name == "DEQUANTIZE" for made in op.outputs if op.inputs
    }
    names = []
    for operator in graph.operators:
        tensors = [graph.tensors[packed.get(index, index)] for index in operator.inputs if index >= 0]
        weights = [tensor for tensor in tensors if tensor.is_weight and len(tensor.shape or ()) > 1]
        largest = max(weights, key=lambda tensor: (len(tensor.data), tensor.name), default=None)
        names.append("" if largest is None else largest.name)
    return names


def _choose_scope(output: str, weight: str) -> str:
    """Return the part of the names of an operator's output and weight that tells its layer; empty where none does.

    A layer that is called twice has one weight, with the name of one call: the name of the output tells the call.

    >>> _choose_scope("net/relu_1/Relu;net/conv_1/convolution", weight="net/conv/convolution")
    'net/conv_1/convolution'
    """
    parts, owners = _split_name(output), _split_name(weight)
    of_layer = [part for part in parts if owners and _leave_out_numbers(part) == _leave_out_numbers(owners[0])]
    return next(iter((*of_layer, *owners, *parts)), "")


def _split_name(name: str) -> list[str]:
    """Return the scopes of the operators that a name consists of, as TensorFlow writes them.

    In a name by litert-torch a scope has a class too, and the last operator of those that were fused comes first.

    >>> _split_name("net/relu/Relu;net/conv/convolution;constant")
    ['net/relu/Relu', 'net/conv/convolution']
    >>> _split_name("models.Net/torch.nn.modules.activation.ReLU_act;models.Net/torch.nn.modules.linear.Linear_up")
    ['Net/up/', 'Net/act/']
    """
    parts = [part for part in name.split(";") if "/" in part]
    if not any("." in part for part in parts):
        return parts
    return ["".join(f"{_read_torch_scope(scope)}/" for scope in part.split("/")) for part in reversed(parts)]


def _read_torch_scope(scope: str) -> str:
    """Return the name of the layer in a scope by litert-torch; of the model, which has none, that of its class."""
    _, dot, name = scope.rpartition(".")
    kind, _, layer = name.lstrip("_").partition("_")
    return (layer or kind) if dot else scope


def _leave_out_numbers(name: str) -> str:
    """Return the scopes of a name without the numbers of calls: "net/conv/" of "net/conv_1/convolution"."""
    return re.sub(r"_\d+(?=/)", "", f"{name.rpartition('/')[0]}/")
