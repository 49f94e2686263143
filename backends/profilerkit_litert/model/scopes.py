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

#: A scope of litert-torch, ``torch.nn.modules.linear.Linear_up``: the class of the model, or the name of a layer.
_TORCH_SCOPE = re.compile(r".*\._*(?:([^_.]+)$|[^_.]+_(.+)$)")


class _Node(NamedTuple):
    """An operator as `ScopedNode` describes it."""

    name: str
    op_type: str
    input: Sequence[str]
    output: Sequence[str]


def find_scopes(graph: Graph, name: str) -> Scopes:
    """Return the layers of a graph; ``name`` is the type of the model where its scopes tell none."""
    weights = _find_weights(graph)
    nodes = [
        _Node(_find_scope(graph, operator, weight), operator.name, *_number(operator))
        for operator, weight in zip(graph.operators, weights, strict=True)
    ]
    placed = list(zip(graph.operators, weights, find_keras_layers(nodes), strict=True))
    typed = [
        TypedOperator(paths[-1] if paths else "", operator.name, bool(weight or operator.graphs))
        for operator, weight, (paths, _) in placed
    ]
    typed.sort(key=lambda operator: operator.type == "DEQUANTIZE")  # what unpacks weights stands before all else
    chains = [(Scope(""), *map(Scope, paths, calls)) for _, _, (paths, calls) in placed]
    return Scopes(chains, name_types(find_keras_name(nodes) or name, typed))


def _number(operator: Operator) -> tuple[list[str], list[str]]:
    """Return what an operator reads and makes, by the numbers of the tensors: their names may be equal."""
    inputs, outputs = (
        [str(index) if index >= 0 else "" for index in side] for side in (operator.inputs, operator.outputs)
    )
    return inputs, outputs


def _find_weights(graph: Graph) -> list[str]:
    """Return for each operator the name of its largest constant of at least two dimensions; empty for none."""
    sources = {
        made: op.inputs[0] for op in graph.operators if op.name == "DEQUANTIZE" for made in op.outputs if op.inputs
    }
    names = []
    for operator in graph.operators:
        tensors = [graph.tensors[sources.get(index, index)] for index in operator.inputs if index >= 0]
        sized = [
            (len(tensor.data), tensor.name) for tensor in tensors if tensor.is_weight and len(tensor.shape or ()) > 1
        ]
        names.append(max(sized, default=(0, ""))[1])
    return names


def _find_scope(graph: Graph, operator: Operator, weight: str) -> str:
    """Return the name that tells the layer of an operator; empty where none does.

    A layer that is called twice has one weight, with the name of one call: the name of the output tells the call.
    """
    made = next((graph.tensors[index].name for index in operator.outputs if index >= 0), "")
    parts, owner = _split_name(made), _split_name(weight)
    same = [part for part in parts if owner and _strip(part) == _strip(owner[0])]
    return (same or owner or parts or [""])[0]


def _split_name(name: str) -> list[str]:
    """Return the scopes of the operators that a name consists of, as TensorFlow writes them: ``net/block/conv/``.

    In a name by litert-torch a scope has a class too, and the last operator of those that were fused comes first.
    """
    parts = [part for part in name.split(";") if "/" in part]
    if not any("." in part for part in parts):
        return parts
    scopes = [[_TORCH_SCOPE.sub(r"\1\2", scope, count=1) for scope in part.split("/")] for part in reversed(parts)]
    return [f"{'/'.join(part)}/" for part in scopes]


def _strip(name: str) -> str:
    """Return the scopes of a name without the numbers of calls."""
    return re.sub(r"_\d+(?=/)", "", f"{name.rpartition('/')[0]}/")
