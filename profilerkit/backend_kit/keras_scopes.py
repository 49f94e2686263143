"""Layers of Keras models in converted graphs, from the scopes of TensorFlow in the names of the nodes.

The last part of a name is the operator, what stands before it are its scopes. For each call of a layer Keras opens two
scopes with the name of the layer: one to build it, one to call it. TensorFlow adds a number to a name that is taken, so
the scopes of a layer ``dense`` are ``dense`` (built), ``dense_1`` (first call), ``dense_2``, and ``dense_3`` (second
call). A layer named ``dense_1`` finds that name taken; it gets ``dense_1_1`` (built) and ``dense_1_2`` (first call).
Functions of TensorFlow open scopes too: these are no layers. In a model ``net``:

==================================  ==========================================================================
Name of a node                      Its layer
==================================  ==========================================================================
``net_1/dense_1/MatMul``            ``dense``, first call
``net_1/dense_3/MatMul``            ``dense``, second call
``net_1/dense_1_2/MatMul``          ``dense_1``, first call
``net_1/norm_1/moments/mean``       ``norm``: ``moments`` is a function of TensorFlow
``net_1/cell_1/mix/MatMul``         ``cell``: ``mix`` has no number, so it is a function
``net_1/cell_1/mix_1/MatMul``       ``cell``: ``mix_1`` stands beside ``mix``, so it is that function once more
``net_1/map_1/MatMul``              ``map``, although TensorFlow has a function of that name
``net_1/Add``                       none: the model itself
``Transpose__216``                  unknown: the converter has written it, without a scope
==================================  ==========================================================================

Older Keras numbers no scopes: there ``dense_1`` is the layer ``dense_1``, and each layer is called once.

A product into which the converter has folded a batch norm has the name of the norm; its weight tells its layer. The
layer of a node without a scope is found by its neighbors (`scope_neighbors`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .scope_neighbors import Chain, ScopedNode, place_by_neighbors
from .scoped_calls import Scope

__all__ = ["find_keras_layers", "find_keras_name"]

#: Scopes that functions of TensorFlow open.
_FUNCTIONS = re.compile(
    r"(zeros|ones|moments|batchnorm|while|cond|Repeat|Tensordot|einsum|stack|unstack|split|Shape|Reshape"
    r"|strided_slice|transpose|map|Cast|truediv|assert_\w+|dropout)(_like)?(_\d+)?"
)
#: The names among them that inner layers have too.
_LAYERS_TOO = re.compile(r"(stack|split|transpose|map|dropout)_\d+")
#: The prefix of the names of nodes that the converter takes from the body of a loop.
_INLINED = re.compile(r".*_frozen_\d+_")
_NUMBERED = re.compile(r"(.+)_(\d+)")
_PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")


def find_keras_name(nodes: Sequence[ScopedNode]) -> str:
    """Return the name of a converted model; empty if its nodes have no outermost scope in common."""
    naming = _Naming.learn(nodes)
    return naming.split_number(naming.root).name


def find_keras_layers(nodes: Sequence[ScopedNode]) -> list[tuple[Scope, ...]]:
    """Return for each node of a converted model the calls of layers that it is in, from the outermost on.

    >>> from types import SimpleNamespace as Node
    >>> names = ["net_1/dense_1/MatMul", "net_1/dense_3/MatMul", "net_1/dense_1_2/MatMul", "net_1/norm_1/moments/mean"]
    >>> nodes = [Node(name=name, op_type="MatMul", input=[], output=[name]) for name in names]
    >>> for calls in find_keras_layers(nodes):
    ...     print(*calls)
    Scope(path='dense', call=0)
    Scope(path='dense', call=1)
    Scope(path='dense_1', call=0)
    Scope(path='norm', call=0)
    """
    naming = _Naming.learn(nodes)
    told_by_name = [_read_layers(node, naming) for node in nodes]
    return _number_calls(place_by_neighbors(nodes, told_by_name), naming)


# Layers by names ------------------------------------------------------------------------------------------------------


class _NumberedName(NamedTuple):
    """A scope without its number, "dense", and the number: 0 for a scope that has none."""

    name: str
    number: int = 0


@dataclass(frozen=True)
class _Naming:
    """How a converted graph names its scopes.

    Attributes:
        root: The scope of the model, which contains all nodes with a scope; empty if they have no common scope.
        is_numbered: Whether the scopes of layers have numbers, as current Keras writes them.
        opened: Every scope of the graph, each with the scopes around it.
    """

    root: str
    is_numbered: bool
    opened: frozenset[Chain]

    @classmethod
    def learn(cls, nodes: Sequence[ScopedNode]) -> _Naming:
        """Return how a graph names its scopes: numbered if the scopes of the model and of all its layers are."""
        chains = {_split_scopes(node.name) for node in nodes} - {()}
        roots = {scopes[0] for scopes in chains}
        root = roots.pop() if len(roots) == 1 else ""
        children = {scopes[1] for scopes in chains if len(scopes) > 1} if root else set()
        layers = {scope for scope in children if not _FUNCTIONS.fullmatch(scope)}
        is_numbered = all(_NUMBERED.fullmatch(scope) for scope in (root, *layers))
        opened = {scopes[:length] for scopes in chains for length in range(1, len(scopes) + 1)}
        return cls(root, is_numbered, frozenset(opened))

    def split_number(self, scope: str) -> _NumberedName:
        """Return the name and the number of a scope."""
        match = _NUMBERED.fullmatch(scope) if self.is_numbered else None
        return _NumberedName(scope) if match is None else _NumberedName(match[1], int(match[2]))

    def keep_layers(self, scopes: Chain) -> Chain:
        """Return the scopes of layers among those of a node: after the model's, up to the first of a function."""
        start = 1 if self.root else 0
        for index in range(start, len(scopes)):
            if self._is_function(scopes[: index + 1]):
                return scopes[start:index]
        return scopes[start:]

    def _is_function(self, scopes: Chain) -> bool:
        """Return whether a function has opened the last of these scopes, and no layer."""
        *outer, scope = scopes
        has_name_of_function = bool(_FUNCTIONS.fullmatch(scope))
        if not self.is_numbered:
            return has_name_of_function
        # "zeros_1" in a layer of Keras: the converter has folded "zeros". Layers of the model itself have any name.
        if has_name_of_function and len(outer) > 1 and not _LAYERS_TOO.fullmatch(scope):
            return True
        match = _NUMBERED.fullmatch(scope)
        if match is None:  # "mix": the call of a layer has a number
            return True
        name = match[1]
        if _NUMBERED.fullmatch(name):  # "dense_1_2": the layer "dense_1", though "dense_1" is a scope too
            return False
        return (*outer, name) in self.opened  # "mix_1" beside "mix": nodes are in the calls of layers, never in "dense"


def _split_scopes(name: str) -> Chain:
    """Return the scopes that a name tells, without its last part; none for a name without a scope."""
    return tuple(_INLINED.sub("", part) for part in name.split("/")[:-1])


def _read_layers(node: ScopedNode, naming: _Naming) -> Chain | None:
    """Return the scopes of the layers that a node is in: empty in the model itself, None if its name tells nothing."""
    scopes = _split_scopes(node.name)
    is_folded = node.op_type in _PRODUCTS and any(scope.startswith("batchnorm") for scope in scopes)
    if is_folded and len(node.input) > 1:
        scopes = _split_scopes(node.input[1]) or scopes  # the weight
    return naming.keep_layers(scopes) if scopes else None


# The calls ------------------------------------------------------------------------------------------------------------


def _number_calls(placed: Sequence[Chain], naming: _Naming) -> list[tuple[Scope, ...]]:
    """Return the calls of the layers around each node, counted from 0 instead of 1, 3, 5."""
    numbered = {scopes: list(_name_calls(scopes, naming)) for scopes in dict.fromkeys(placed)}
    numbers = defaultdict[str, set[int]](set)
    for calls in numbered.values():
        for path, number in calls:
            numbers[path].add(number)
    in_order = {path: sorted(numbers_of_calls) for path, numbers_of_calls in numbers.items()}
    counted = {
        scopes: tuple(Scope(path, in_order[path].index(number)) for path, number in calls)
        for scopes, calls in numbered.items()
    }
    return [counted[scopes] for scopes in placed]


def _name_calls(scopes: Chain, naming: _Naming) -> Iterator[Scope]:
    """Yield the call of a layer for each scope, with the number that TensorFlow gives it."""
    path = ""
    for scope in scopes:
        name, number = naming.split_number(scope)
        path = f"{path}.{name}" if path else name
        yield Scope(path, number)
