"""Layers of Keras models in converted graphs, from the scopes of TensorFlow in the names of the nodes.

Keras opens a scope for each layer twice a call: once to build it, once to call it, and TensorFlow numbers scopes of one
name. So the first call of ``dense`` in ``classifier`` stands in ``classifier_1/dense_1``, the second in
``classifier_1/dense_3``, and a layer whose own name ends in a number in ``classifier_1/dense_1_2``. Functions of
TensorFlow open scopes too, which have no number unless they come again: these are no layers.

A converter writes nodes without a scope. Such a node is in the innermost layer that all of its neighbors are in; a
recurrent one in that of its initial state. A product into which it has folded a batch norm has the name of the norm;
the weight tells the layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["KerasNames", "ScopedNode"]

#: Scopes that functions of TensorFlow open.
_FUNCTIONS = re.compile(
    r"(zeros|ones|moments|batchnorm|while|cond|Repeat|Tensordot|einsum|stack|unstack|split|Shape|Reshape"
    r"|strided_slice|transpose|map|Cast|truediv|assert_\w+|dropout)(_like)?(_\d+)?"
)
#: What the converter puts before the names of nodes that it takes from the body of a loop.
_INLINED = re.compile(r".*_frozen_\d+_")
_NUMBERED = re.compile(r"(.+)_(\d+)")
_PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
_RECURRENT = ("LSTM", "GRU", "RNN")
#: Which input of a recurrent operator is its initial state.
_STATE = 5

#: Names of scopes, from the outermost on.
Parts = tuple[str, ...]


class ScopedNode(Protocol):
    """A node of a graph, as ONNX writes it: its name with scopes, its operator, and the names of what it reads."""

    @property
    def name(self) -> str:
        """Its name: "net_1/dense_1/MatMul"."""

    @property
    def op_type(self) -> str:
        """Its operator."""

    @property
    def input(self) -> Sequence[str]:
        """The names of the values that it reads; empty for one that is left out."""

    @property
    def output(self) -> Sequence[str]:
        """The names of the values that it makes."""


@dataclass
class KerasNames:
    """The layers that the names in a converted graph tell.

    Attributes:
        nodes: The nodes of the converted graph.
        root: The name of the model's own scope; empty if nodes have no scope in common.
        is_numbered: Whether the scopes of layers have numbers, as current Keras writes them.
        scopes: For each node the scopes that it is in, those of layers alone.
    """

    nodes: Sequence[ScopedNode]
    root: str = ""
    is_numbered: bool = False
    scopes: list[Parts] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes = self.nodes
        split = [_split_scopes(node.name) for node in nodes]
        scoped = [parts for parts in split if parts]
        roots = {parts[0] for parts in scoped}
        self.root = roots.pop() if len(roots) == 1 else ""
        inner = {parts[1] for parts in scoped if self.root and len(parts) > 1}
        layers = {part for part in inner if not _FUNCTIONS.fullmatch(part)}
        self.is_numbered = all(_NUMBERED.fullmatch(part) for part in {self.root, *layers})
        self.siblings: set[Parts] = {parts[: length + 1] for parts in split for length in range(len(parts))}
        named = [self._find_layers(parts) if parts else None for parts in split]
        named = [self._find_owner(node, parts, scopes) for node, parts, scopes in zip(nodes, split, named, strict=True)]
        self.scopes = _add_neighbors(nodes, named)

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return self._strip_number(self.root)

    def paths(self) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
        """Return for each node the paths of the layers that it is in, and which call of each that is, from 0."""
        calls: dict[Parts, list[int]] = {}
        for scopes in self.scopes:
            for length in range(1, len(scopes) + 1):
                numbers = calls.setdefault(self._strip_numbers(scopes[:length]), [])
                if (number := self._read_number(scopes[length - 1])) not in numbers:
                    numbers.append(number)
        return [self._find_call(scopes, calls) for scopes in self.scopes]

    def _find_call(self, scopes: Parts, calls: Mapping[Parts, list[int]]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the paths of the layers that a node is in, and which call of each that is."""
        keys = [self._strip_numbers(scopes[:length]) for length in range(1, len(scopes) + 1)]
        marks = (sorted(calls[key]).index(self._read_number(part)) for key, part in zip(keys, scopes, strict=True))
        return tuple(".".join(key) for key in keys), tuple(marks)

    def _strip_numbers(self, scopes: Parts) -> Parts:
        return tuple(self._strip_number(part) for part in scopes)

    def _strip_number(self, part: str) -> str:
        numbered = _NUMBERED.fullmatch(part) if self.is_numbered else None
        return numbered[1] if numbered else part

    def _read_number(self, part: str) -> int:
        numbered = _NUMBERED.fullmatch(part) if self.is_numbered else None
        return int(numbered[2]) if numbered else 0

    def _find_layers(self, parts: Parts) -> Parts:
        """Return the scopes of layers among the scopes of a node: up to the first that a function has opened."""
        start = 1 if self.root else 0
        for length in range(start, len(parts)):
            if self._is_function(parts[: length + 1]):
                return parts[start:length]
        return parts[start:]

    def _is_function(self, parts: Parts) -> bool:
        """Return whether a function has opened the last of these scopes, and no layer."""
        if _FUNCTIONS.fullmatch(parts[-1]):
            return True
        if not self.is_numbered:
            return False
        numbered = _NUMBERED.fullmatch(parts[-1])
        if numbered is None:
            return True
        is_numbered_layer = _NUMBERED.fullmatch(numbered[1])  # ``dense_1_2`` beside ``dense_1``
        return not is_numbered_layer and (*parts[:-1], numbered[1]) in self.siblings

    def _find_owner(self, node: ScopedNode, parts: Parts, scopes: Parts | None) -> Parts | None:
        """Return the layers of a node; of a product with a batch norm folded into it, those of its weight."""
        if node.op_type in _PRODUCTS and any(part.startswith("batchnorm") for part in parts):
            for name in node.input[1:2]:
                if owner := _split_scopes(name):
                    return self._find_layers(owner)
        return scopes


def _split_scopes(name: str) -> Parts:
    """Return the scopes that a name tells, without its last part."""
    return tuple(_INLINED.sub("", part) for part in name.split("/")[:-1])


def _add_neighbors(nodes: Sequence[ScopedNode], named: Sequence[Parts | None]) -> list[Parts]:
    """Return the layers of each node; where its name tells none, those that all of its neighbors are in."""
    makers = {output: index for index, node in enumerate(nodes) for output in node.output if output}
    before = [[makers[name] for name in node.input if name in makers] for node in nodes]
    after: list[list[int]] = [[] for _ in nodes]
    for index, sources in enumerate(before):
        for source in sources:
            after[source].append(index)
    above = _find_nearest(range(len(nodes)), before, named)
    below = _find_nearest(reversed(range(len(nodes))), after, named)
    chains: list[Parts] = []
    for index, (node, parts) in enumerate(zip(nodes, named, strict=True)):
        around = [item for item in (above[index], below[index]) if item is not None]
        inputs = [named[makers[name]] or above[makers[name]] if name in makers else None for name in node.input]
        state = inputs[_STATE] if node.op_type in _RECURRENT and len(inputs) > _STATE else None
        if parts is None and state is not None:
            parts = _find_common([inputs[0] or (), state]) or state
        chains.append(_find_common(around or [()]) if parts is None else parts)
    return chains


def _find_nearest(
    order: Iterable[int], neighbors: Sequence[Sequence[int]], named: Sequence[Parts | None]
) -> list[Parts | None]:
    """Return for each node what the nearest nodes with a scope, on one side of it, have in common; None for none."""
    nearest: list[Parts | None] = [None] * len(named)
    for index in order:
        around = [parts for neighbor in neighbors[index] if (parts := named[neighbor] or nearest[neighbor]) is not None]
        nearest[index] = _find_common(around) if around else None
    return nearest


def _find_common(chains: Sequence[Parts]) -> Parts:
    """Return the scopes that several nodes share, from the outermost on."""
    length = 0
    while all(len(chain) > length and chain[length] == chains[0][length] for chain in chains):
        length += 1
    return chains[0][:length]
