"""The origins of the nodes of a rewritten graph: the nodes of the written graph that each of them stands for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from onnx import ModelProto, NodeProto

from ..costs.registry import OPERATORS
from ..model.nodes import name_operator

__all__ = ["Origin", "find_origins", "main_node"]

#: The suffix that the runtime adds to the name of a result of a convolution in its blocked layout.
_BLOCKED = "_nchwc"


@dataclass(frozen=True)
class Origin:
    """The origin of a node of the rewritten graph, as indices of nodes of the original graph.

    Attributes:
        covered: The nodes whose work it does, in their order; none for a node that the runtime has added.
        near: The node whose result it reads, or else the node that reads its result; None if neither is known.
    """

    covered: tuple[int, ...] = ()
    near: int | None = None


def main_node(origin: Origin) -> int | None:
    """Return the node of the written graph that a rewritten node stands for: the first that it covers, if any."""
    return origin.covered[0] if origin.covered else origin.near


def find_origins(written: ModelProto, rewritten: ModelProto) -> list[Origin]:
    """Return the origin of each node of the rewritten graph, in its order.

    The runtime keeps the names of the values that remain. So the work of a node is the written nodes between the values
    that it reads and the values that it makes; a fused node does the work of several. If the runtime replaces nodes by
    several others, such as a product by ``Reshape``, ``Gemm`` and ``Reshape``, the values between these have no written
    names: all the work belongs to the node that does not only move data.
    """
    search = _OriginSearch(_WrittenGraph(written.graph.node))
    for node in rewritten.graph.node:
        search.add(node)
    return search.origins


class _WrittenGraph:
    """The written graph; each of its nodes is taken once.

    Attributes:
        makers: The index of the node that makes each value.
    """

    def __init__(self, nodes: Sequence[NodeProto]) -> None:
        self.makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
        self._nodes = nodes
        self._nodes_by_name = {node.name: node for node in nodes if node.name}
        self._taken: set[int] = set()

    def find_made(self, node: NodeProto) -> dict[str, str]:
        """Return the written values that outputs of a rewritten node are, by their names or as its own name tells."""
        kept = {name: name for name in node.output if name in self.makers}
        if kept:
            return kept
        same = self._nodes_by_name.get(node.name.removeprefix("fused "))
        if same is not None and same.op_type == node.op_type:
            return dict(zip(node.output, same.output, strict=False))
        value = node.name.removesuffix(_BLOCKED)
        return {node.output[0]: value} if value != node.name and value in self.makers else {}

    def take_between(self, read: Collection[str], made: Iterable[str]) -> set[int]:
        """Take the nodes on the ways back from values that are made to values that are read."""
        between: set[int] = set()
        waiting = [name for name in made if name not in read]
        while waiting:
            index = self.makers.get(waiting.pop())
            if index is not None and index not in self._taken:
                between.add(index)
                self._taken.add(index)
                waiting += [name for name in self._nodes[index].input if name and name not in read]
        return between


class _Source(NamedTuple):
    """The source of a value of the rewritten graph: written values, and the rewritten nodes that make it of these.

    A value that is a written value under another name has that as its source, and no nodes.
    """

    nodes: tuple[int, ...]
    values: tuple[str, ...]


class _OriginSearch:
    """Goes along the rewritten graph, and finds the origin of one node after another."""

    def __init__(self, written: _WrittenGraph) -> None:
        self.origins: list[Origin] = []
        self._written = written
        #: The sources of values whose names the written graph does not have.
        self._sources: dict[str, _Source] = {}
        #: The nodes of the rewritten graph that do not only move data.
        self._working: set[int] = set()

    def add(self, node: NodeProto) -> None:
        """Find the origin of the next node."""
        index, before = len(self.origins), self._look_back(node)
        makers, made = self._written.makers, self._written.find_made(node)
        if name_operator(node) not in OPERATORS.free:
            self._working.add(index)
        self.origins.append(Origin(near=next((makers[name] for name in before.values if name in makers), None)))
        if not made:
            self._sources.update(dict.fromkeys(node.output, _Source((*before.nodes, index), before.values)))
            return
        self._sources.update({name: _Source((), (written,)) for name, written in made.items()})
        near = makers[next(iter(made.values()))]
        for number in before.nodes:
            if self.origins[number].near is None:
                self.origins[number] = replace(self.origins[number], near=near)
        self.origins[index] = Origin(near=near)
        worker = self._choose_worker(before.nodes, index)
        covered = {*self.origins[worker].covered, *self._written.take_between(before.values, made.values())}
        self.origins[worker] = Origin(tuple(sorted(covered)), near)

    def _look_back(self, node: NodeProto) -> _Source:
        """Return the written values that lead to the inputs of a node, and the nodes between them and the node."""
        nodes: dict[int, None] = {}
        values: dict[str, None] = {}
        for name in filter(None, node.input):
            source = self._sources.get(name) or _Source((), (name,))
            nodes |= dict.fromkeys(source.nodes)
            values |= dict.fromkeys(source.values)
        return _Source(tuple(nodes), tuple(values))

    def _choose_worker(self, before: Iterable[int], last: int) -> int:
        """Return the node with the work of several nodes: the last, or an earlier node if the last only moves data."""
        if last in self._working:
            return last
        return next((number for number in before if number in self._working), last)
