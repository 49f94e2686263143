"""The origins of the nodes of a rewritten graph: the nodes of the written graph that each of them stands for.

The runtime keeps the names of the values that remain. So the work of a rewritten node is the written nodes between the
written values that it reads and the written values that it makes; a fused node does the work of several. If the runtime
replaces nodes by several others, such as a product by ``Reshape``, ``Gemm`` and ``Reshape``, or a call of a function by
the nodes of the function, the values between these have no written names: together they do the work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from onnx import ModelProto, NodeProto

from ..costs.registry import OPERATORS
from ..model.nodes import name_operator

__all__ = ["Origin", "find_origins", "main_node"]

#: The suffix that the runtime adds to the name of a result of a convolution in its blocked layout.
_BLOCKED = "_nchwc"


@dataclass
class Origin:
    """The origin of a node of the rewritten graph, as indices of nodes of the original graph.

    Attributes:
        covered: The nodes whose work it does, in their order; none for a node that the runtime has added.
        near: The node whose result it makes, alone or with the nodes after it; None if it makes no written value.
    """

    covered: tuple[int, ...] = ()
    near: int | None = None


def main_node(origin: Origin) -> int | None:
    """Return the node of the written graph that a rewritten node stands for: the first that it covers, if any."""
    return origin.covered[0] if origin.covered else origin.near


class _Source(NamedTuple):
    """The source of a value of the rewritten graph: written values, and the rewritten nodes that make it of these.

    A value that is a written value under another name has that as its source, and no nodes.
    """

    nodes: tuple[int, ...]
    values: tuple[str, ...]


def find_origins(written: ModelProto, rewritten: ModelProto) -> list[Origin]:
    """Return the origin of each node of the rewritten graph, in its order.

    Of several nodes that do work together, one covers all of it: the last, or an earlier node if the last only moves
    data.
    """
    graph, nodes = _WrittenGraph(written.graph.node), rewritten.graph.node
    origins = [Origin() for _ in nodes]
    sources: dict[str, _Source] = {}
    for index, node in enumerate(nodes):
        before = _join_sources([sources.get(name) or _Source((), (name,)) for name in node.input if name])
        together = (*before.nodes, index)
        made = graph.find_made(node)
        if not made:
            sources.update(dict.fromkeys(node.output, _Source(together, before.values)))
            continue
        sources.update({name: _Source((), (value,)) for name, value in made.items()})
        for number in together:
            if origins[number].near is None:
                origins[number].near = graph.makers[next(iter(made.values()))]
        worker = origins[_choose_worker(nodes, together)]
        worker.covered = tuple(sorted({*worker.covered, *graph.take_between(before.values, made.values())}))
    return origins


def _join_sources(sources: Iterable[_Source]) -> _Source:
    """Return the nodes and the values of all sources, each once."""
    nodes, values = dict[int, None](), dict[str, None]()
    for source in sources:
        nodes |= dict.fromkeys(source.nodes)
        values |= dict.fromkeys(source.values)
    return _Source(tuple(nodes), tuple(values))


def _choose_worker(nodes: Sequence[NodeProto], together: Sequence[int]) -> int:
    """Return the last of some nodes if it does not only move data; else the first of them that does not, if any."""
    last = together[-1]
    candidates = [last, *together[:-1]]
    return next((index for index in candidates if name_operator(nodes[index]) not in OPERATORS.free), last)


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
