"""Where the nodes of a graph that onnxruntime has rewritten come from: the nodes whose work each of them does.

The runtime keeps the names of the values that remain. So a node does what lies, in the graph as it was written, between
the values that it reads and those that it makes; a fused one does the work of several nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx import ModelProto, NodeProto

__all__ = ["Origin", "find_origins"]

#: What the runtime adds to the name of the value that a convolution in its blocked layout makes.
_BLOCKED = "_nchwc"


@dataclass(frozen=True)
class Origin:
    """Where a node of the rewritten graph comes from, as indices of nodes of the written one.

    Attributes:
        covered: The nodes whose work it does, in their order; none for a node that the runtime has added.
        near: The node that makes the value which it hands on; None where that is not known.
    """

    covered: tuple[int, ...] = ()
    near: int | None = None


def find_origins(written: ModelProto, rewritten: ModelProto) -> list[Origin]:
    """Return the origin of each node of the rewritten graph, in its order."""
    search = _OriginSearch(written.graph.node)
    return [search.find_origin(node) for node in rewritten.graph.node]


class _OriginSearch:
    """Goes along the rewritten graph; no node of the written one is given away twice."""

    def __init__(self, written: Iterable[NodeProto]) -> None:
        self._nodes = list(written)
        #: The index of the node that makes each value of the written graph.
        self._makers = {name: index for index, node in enumerate(self._nodes) for name in node.output if name}
        self._nodes_by_name = {node.name: node for node in self._nodes if node.name}
        #: The written values that values of the rewritten graph stand for, whose names differ.
        self._written_names: dict[str, str] = {}
        self._taken: set[int] = set()

    def find_origin(self, node: NodeProto) -> Origin:
        """Return the origin of the next node: the nodes between what it reads and what it makes."""
        read = [self._translate(name) for name in node.input]
        made = [name for name in map(self._translate, node.output) if name in self._makers]
        if not made:
            made = self._find_results_by_name(node)
            self._written_names.update(zip(node.output, made, strict=False))
        if not made:
            return self._hand_on(node, read)
        covered = self._find_between(set(read), made)
        self._taken.update(covered)
        return Origin(tuple(sorted(covered)), self._makers[made[0]])

    def _translate(self, name: str) -> str:
        return self._written_names.get(name, name)

    def _hand_on(self, node: NodeProto, read: Iterable[str]) -> Origin:
        """Return the origin of a node that the runtime has added: it hands on a value in another layout or dtype."""
        source = next((name for name in read if name in self._makers), None)
        if source is None:
            return Origin()
        self._written_names.update(dict.fromkeys(node.output[:1], source))
        return Origin((), self._makers[source])

    def _find_results_by_name(self, node: NodeProto) -> list[str]:
        """Return the written values that a node makes under other names, as its own name tells."""
        same = self._nodes_by_name.get(node.name.removeprefix("fused "))
        if same is not None and same.op_type == node.op_type:
            return list(same.output)
        value = node.name.removesuffix(_BLOCKED)
        return [value] if value != node.name and value in self._makers else []

    def _find_between(self, read: set[str], made: Iterable[str]) -> set[int]:
        """Return the written nodes, none of them taken yet, on the ways back from what is made to what is read."""
        covered: set[int] = set()
        waiting = [name for name in made if name not in read]
        while waiting:
            index = self._makers.get(waiting.pop())
            if index is None or index in covered or index in self._taken:
                continue
            covered.add(index)
            waiting += [name for name in self._nodes[index].input if name and name not in read]
        return covered
