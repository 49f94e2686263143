"""Layers by the scopes in the names of tensors: which layer of the source model each operator comes from.

A converter names a fused operator by all of its parts: ``net_1/relu_1/Relu;net_1/conv1_1/convolution``. An operator
with a weight is in the layer of that weight, any other in the first layer that the name of its output tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from profilerkit.backend_kit.keras_scopes import find_keras_layers, find_keras_name
from profilerkit.backend_kit.named_layers import Scopes, TypedOperator, name_types
from profilerkit.backend_kit.scoped_calls import ROOT

from .graphs import Graph, Operator

__all__ = ["find_scopes"]

#: The operator that unpacks a weight of integers, before the operator that reads the weight.
_UNPACKING = "DEQUANTIZE"


class _Node(NamedTuple):
    """An operator with the names that tell its layer: a `ScopedNode`, whose fields have the names of ONNX.

    Attributes:
        op_type: Its type: "CONV_2D".
        name: The scope that tells its layer; empty if none does.
        input: The tensors that it reads, by their numbers as text, because names may be equal; empty if left out.
        output: The tensors that it makes, in the same way.
        has_weight: Whether it has a weight: in the graphs that it runs, such as those of a WHILE, it may have some.
    """

    op_type: str
    name: str
    input: Sequence[str]
    output: Sequence[str]
    has_weight: bool


def find_scopes(graph: Graph, name: str) -> Scopes:
    """Return the layers of a graph; ``name`` is the type of the model if its scopes tell none."""
    packed = _find_packed(graph)
    nodes = [_make_node(graph, operator, packed) for operator in graph.operators]
    around = find_keras_layers(nodes)
    typed = [
        TypedOperator(layers[-1].path if layers else "", node.op_type, node.has_weight)
        for node, layers in zip(nodes, around, strict=True)
    ]
    # A layer has the type of its first operator with a weight: of one that computes with it before one that unpacks it.
    typed.sort(key=lambda operator: operator.type == _UNPACKING)
    return Scopes(
        chains=[(ROOT, *layers) for layers in around],
        types=name_types(find_keras_name(nodes) or name, typed),
    )


def _make_node(graph: Graph, operator: Operator, packed: Mapping[int, int]) -> _Node:
    output = next((graph.tensors[index].name for index in operator.outputs if index >= 0), "")
    weight = _name_weight(graph, operator, packed)
    return _Node(
        operator.name,
        _choose_scope(output, weight),
        _write_numbers(operator.inputs),
        _write_numbers(operator.outputs),
        has_weight=bool(weight or operator.graphs),
    )


def _write_numbers(indices: Sequence[int]) -> list[str]:
    return [str(index) if index >= 0 else "" for index in indices]


def _find_packed(graph: Graph) -> dict[int, int]:
    """Return by the index of each unpacked tensor the index of the tensor that it is unpacked from."""
    packed = {}
    for operator in graph.operators:
        if operator.name == _UNPACKING and operator.inputs:
            for unpacked in operator.outputs:
                packed[unpacked] = operator.inputs[0]
    return packed


def _name_weight(graph: Graph, operator: Operator, packed: Mapping[int, int]) -> str:
    """Return the name of the largest constant of at least two dimensions that an operator reads; empty for none.

    If a weight of integers is unpacked before it is read, the name is the name of the constant with the integers.
    """
    tensors = [graph.tensors[packed.get(index, index)] for index in operator.inputs if index >= 0]
    weights = [tensor for tensor in tensors if tensor.is_weight and len(tensor.shape) > 1]
    largest = max(weights, key=lambda tensor: (len(tensor.data), tensor.name), default=None)
    return "" if largest is None else largest.name


def _choose_scope(output: str, weight: str) -> str:
    """Return the part of the names of an operator's output and weight that tells its layer; empty if none does.

    A layer that is called twice has one weight, with the name of one call: the name of the output tells the call. But a
    name that is the same without its number may be the name of another layer, which is fused with the owner of the
    weight: it tells the call only if the owner is not in the name of the output.

    >>> _choose_scope("net/relu_1/Relu;net/conv_1/convolution", weight="net/conv/convolution")
    'net/conv_1/convolution'
    >>> _choose_scope("net/conv_2/Add;net/conv_1/convolution", weight="net/conv_1/convolution")
    'net/conv_1/convolution'
    """
    scopes, weight_scopes = _split_name(output), _split_name(weight)
    if not weight_scopes:
        return scopes[0] if scopes else ""
    owner = weight_scopes[0]
    if _leave_out_operator(owner) in map(_leave_out_operator, scopes):
        return owner
    call = _leave_out_numbers(owner)
    return next((scope for scope in scopes if _leave_out_numbers(scope) == call), owner)


def _split_name(name: str) -> list[str]:
    """Return the scopes of the operators that a name consists of, as TensorFlow writes them.

    In a name by litert-torch a scope has a class too, and the last of the fused operators comes first.

    >>> _split_name("net/relu/Relu;net/conv/convolution;constant")
    ['net/relu/Relu', 'net/conv/convolution']
    >>> _split_name("models.Net/torch.nn.modules.activation.ReLU_act;models.Net/torch.nn.modules.linear.Linear_up")
    ['Net/up/', 'Net/act/']
    """
    parts = [part for part in name.split(";") if "/" in part]
    # litert-torch writes classes with their modules. A layer of TensorFlow's with a dot in its name is taken for one.
    if not any("." in part for part in parts):
        return parts
    return ["".join(f"{_read_torch_scope(scope)}/" for scope in part.split("/")) for part in reversed(parts)]


def _read_torch_scope(scope: str) -> str:
    """Return the name of the layer in a scope by litert-torch; for the model, which has none, the name of its class."""
    _, dot, name = scope.rpartition(".")
    kind, _, layer = name.lstrip("_").partition("_")
    return (layer or kind) if dot else scope


def _leave_out_operator(name: str) -> str:
    """Return the scopes of a name without its operator: "net/conv_1/" of "net/conv_1/convolution"."""
    return f"{name.rpartition('/')[0]}/"


def _leave_out_numbers(name: str) -> str:
    """Return the scopes of a name without the numbers of calls: "net/conv/" of "net/conv_1/convolution"."""
    return re.sub(r"_\d+(?=/)", "", _leave_out_operator(name))
