"""Layers by the scopes in the names of tensors: which layer of the source model each operator comes from.

A converter names a fused operator by all of its parts: ``net_1/relu_1/Relu;net_1/conv1_1/convolution``. An operator
with a weight is in the layer of that weight, any other in the first layer that the name of its output tells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    """

    op_type: str
    name: str
    input: Sequence[str]
    output: Sequence[str]


def find_scopes(graph: Graph, name: str) -> Scopes:
    """Return the layers of a graph; ``name`` is the type of the model if its scopes tell none."""
    weights = _name_weights(graph)
    nodes = [
        _Node(
            operator.name,
            _choose_scope(_name_output(graph, operator), weight),
            _write_numbers(operator.inputs),
            _write_numbers(operator.outputs),
        )
        for operator, weight in zip(graph.operators, weights, strict=True)
    ]
    around_nodes, typed = find_keras_layers(nodes), []
    for operator, weight, around in zip(graph.operators, weights, around_nodes, strict=True):
        path, is_unpacking = around[-1].path if around else "", operator.name == _UNPACKING
        has_weight = not is_unpacking and bool(weight or operator.graphs)  # graphs inside may have some
        typed.append(TypedOperator(path, operator.name, has_weight, is_free=is_unpacking))
    types = name_types(find_keras_name(nodes) or name, typed)
    return Scopes([(ROOT, *around) for around in around_nodes], types)


def _write_numbers(indices: Sequence[int]) -> list[str]:
    return [str(index) if index >= 0 else "" for index in indices]


def _name_output(graph: Graph, operator: Operator) -> str:
    return next((graph.tensors[index].name for index in operator.outputs if index >= 0), "")


def _name_weights(graph: Graph) -> list[str]:
    """Return for each operator the name of the largest constant of several dimensions that it reads; empty for none.

    If a weight of integers is unpacked before it is read, the name is the name of the constant with the integers.
    """
    packed, names = dict[int, int](), []
    for operator in graph.operators:
        read = [graph.tensors[packed.get(index, index)] for index in operator.inputs if index >= 0]
        weights = [tensor for tensor in read if tensor.is_weight and len(tensor.shape) > 1]
        largest = max(weights, key=lambda tensor: (len(tensor.data), tensor.name), default=None)
        names.append("" if largest is None else largest.name)
        if operator.name == _UNPACKING and operator.inputs:
            packed.update(dict.fromkeys(operator.outputs, operator.inputs[0]))
    return names


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
    made_by, owner = _split_name(output), next(iter(_split_name(weight)), None)
    if owner is None:
        return made_by[0] if made_by else ""
    if _leave_out_operator(owner) in map(_leave_out_operator, made_by):
        return owner
    calls = [scope for scope in made_by if _leave_out_numbers(scope) == _leave_out_numbers(owner)]
    return calls[0] if calls else owner


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
    """Return the name of the layer in a scope by litert-torch; for the model, which has none, the name of its class.

    A scope is the class, an underscore and the name of the layer. Nothing tells where the name of a class with an
    underscore ends: the layer ``up`` of a class ``Conv_Block`` is named ``Block_up``.
    """
    _, dot, name = scope.rpartition(".")
    kind, _, layer = name.lstrip("_").partition("_")
    return (layer or kind) if dot else scope


def _leave_out_operator(name: str) -> str:
    """Return the scopes of a name without its operator: "net/conv_1/" of "net/conv_1/convolution"."""
    return f"{name.rpartition('/')[0]}/"


def _leave_out_numbers(name: str) -> str:
    """Return the scopes of a name without the numbers of calls: "net/conv/" of "net/conv_1/convolution"."""
    return re.sub(r"_\d+(?=/)", "", _leave_out_operator(name))
