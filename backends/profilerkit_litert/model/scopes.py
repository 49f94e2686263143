"""Layers by the scopes in the names of tensors: which layer of the source model each operator comes from.

A converter names what it fuses by all of its parts: ``net_1/relu_1/Relu;net_1/conv1_1/convolution``. An operator with
a weight is in the layer of that weight, any other in the first layer that the name of its output tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from profilerkit.backend_kit.keras_scopes import find_keras_layers, find_keras_name
from profilerkit.backend_kit.named_layers import LayersAround, Scopes, TypedOperator, name_types
from profilerkit.backend_kit.scoped_calls import Scope

from .reading import Graph, Operator

__all__ = ["find_scopes"]

#: The operator that unpacks a weight of integers, before the operator that reads the weight.
_UNPACKING = "DEQUANTIZE"


class _Node(NamedTuple):
    """An operator in the form of `ScopedNode`, which `find_keras_layers` reads; the fields are called as ONNX's are.

    Attributes:
        name: The scope that tells its layer; empty where none does.
        op_type: Its type: "CONV_2D".
        input: The tensors that it reads, by their numbers as text.
        output: The tensors that it makes.
    """

    name: str
    op_type: str
    input: Sequence[str]
    output: Sequence[str]


class _PlacedOperator(NamedTuple):
    """An operator with the name of its weight, empty where it has none, and the layers that it is in."""

    operator: Operator
    weight: str
    layers: LayersAround

    @property
    def layer(self) -> str:
        """The path of the innermost layer around it; empty where it is in none but the model itself."""
        return self.layers.paths[-1] if self.layers.paths else ""


def find_scopes(graph: Graph, name: str) -> Scopes:
    """Return the layers of a graph; ``name`` is the type of the model where its scopes tell none."""
    weights = _find_weights(graph)
    nodes = [_make_node(graph, operator, weight) for operator, weight in zip(graph.operators, weights, strict=True)]
    around = find_keras_layers(nodes)
    placed = [
        _PlacedOperator(operator, weight, layers)
        for operator, weight, layers in zip(graph.operators, weights, around, strict=True)
    ]
    return Scopes(
        chains=[(Scope(""), *map(Scope, layers.paths, layers.calls)) for layers in around],
        types=name_types(find_keras_name(nodes) or name, _list_typed(placed)),
    )


def _make_node(graph: Graph, operator: Operator, weight: str) -> _Node:
    return _Node(
        name=_choose_scope(_name_output(graph, operator), weight),
        op_type=operator.name,
        input=_write_numbers(operator.inputs),
        output=_write_numbers(operator.outputs),
    )


def _list_typed(operators: Iterable[_PlacedOperator]) -> list[TypedOperator]:
    """Return what decides the types of layers: the operators, those that unpack weights last.

    A layer has the type of its first operator with a weight (`name_types`). What unpacks a weight reads one too, and
    stands before the operator that uses it: the layer of both is a CONV_2D, no DEQUANTIZE. An operator that holds
    graphs, such as a WHILE, counts as one with a weight, as the weights are those of the operators in these graphs.
    """
    typed = [
        TypedOperator(
            layer=placed.layer,
            type=placed.operator.name,
            has_weight=bool(placed.weight) or bool(placed.operator.graphs),
        )
        for placed in operators
    ]
    return sorted(typed, key=lambda operator: operator.type == _UNPACKING)


def _write_numbers(indices: Sequence[int]) -> list[str]:
    """Return tensors by their numbers, as their names may be equal; an empty text for one that is left out."""
    return [str(index) if index >= 0 else "" for index in indices]


def _name_output(graph: Graph, operator: Operator) -> str:
    return next((graph.tensors[index].name for index in operator.outputs if index >= 0), "")


def _find_weights(graph: Graph) -> list[str]:
    """Return for each operator the name of its largest constant of at least two dimensions; empty for none.

    Where a weight of integers is unpacked before it is read, that is the name of the constant with the integers.
    """
    packed = _find_packed(graph)
    names = []
    for operator in graph.operators:
        tensors = [graph.tensors[packed.get(index, index)] for index in operator.inputs if index >= 0]
        weights = [tensor for tensor in tensors if tensor.is_weight and len(tensor.shape or ()) > 1]
        largest = max(weights, key=lambda tensor: (len(tensor.data), tensor.name), default=None)
        names.append("" if largest is None else largest.name)
    return names


def _find_packed(graph: Graph) -> dict[int, int]:
    """Return by the index of each unpacked tensor the index of the tensor that it is unpacked from."""
    packed = {}
    for operator in graph.operators:
        if operator.name == _UNPACKING and operator.inputs:
            for unpacked in operator.outputs:
                packed[unpacked] = operator.inputs[0]
    return packed


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
    if not _is_by_litert_torch(parts):
        return parts
    return ["".join(f"{_read_torch_scope(scope)}/" for scope in part.split("/")) for part in reversed(parts)]


def _is_by_litert_torch(parts: Sequence[str]) -> bool:
    """Return whether the scopes are by litert-torch: they have classes with their modules, ``torch.nn.modules.Linear``.

    A layer of TensorFlow's whose own name has a dot is taken for one too.
    """
    return any("." in part for part in parts)


def _read_torch_scope(scope: str) -> str:
    """Return the name of the layer in a scope by litert-torch; of the model, which has none, that of its class."""
    _, dot, name = scope.rpartition(".")
    kind, _, layer = name.lstrip("_").partition("_")
    return (layer or kind) if dot else scope


def _leave_out_numbers(name: str) -> str:
    """Return the scopes of a name without the numbers of calls: "net/conv/" of "net/conv_1/convolution"."""
    return re.sub(r"_\d+(?=/)", "", f"{name.rpartition('/')[0]}/")
