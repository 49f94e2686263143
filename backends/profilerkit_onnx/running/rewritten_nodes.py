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
    search = _Search(written.graph.node)
    return [search.origin(node) for node in rewritten.graph.node]


class _Search:
    """Goes along the rewritten graph; no node of the written one is given away twice."""

    def __init__(self, written: Iterable[NodeProto]) -> None:
        self.nodes = list(written)
        self.makers = {name: index for index, node in enumerate(self.nodes) for name in node.output if name}
        self.by_name = {node.name: node for node in self.nodes if node.name}
        self.aliases: dict[str, str] = {}
        self.taken: set[int] = set()

    def origin(self, node: NodeProto) -> Origin:
        read = {self._resolve(name) for name in node.input}
        made = [self._resolve(name) for name in node.output if self._resolve(name) in self.makers]
        if not made:
            made = self._by_name(node)
            if made:
                self.aliases.update(zip(node.output, made, strict=False))
        if not made:  # it hands on a value in another layout or dtype
            source = next((name for name in map(self._resolve, node.input) if name in self.makers), None)
            if source is not None:
                self.aliases.update(dict.fromkeys(node.output[:1], source))
            return Origin((), None if source is None else self.makers[source])
        covered = self._between(read, made)
        self.taken.update(covered)
        return Origin(tuple(sorted(covered)), self.makers[made[0]])

    def _resolve(self, name: str) -> str:
        return self.aliases.get(name, name)

    def _by_name(self, node: NodeProto) -> list[str]:
        same = self.by_name.get(node.name.removeprefix("fused "))
        if same is not None and same.op_type == node.op_type:
            return list(same.output)
        value = node.name.removesuffix(_BLOCKED)
        return [value] if value != node.name and value in self.makers else []

    def _between(self, read: set[str], made: Iterable[str]) -> set[int]:
        covered: set[int] = set()
        values = [name for name in made if name not in read]
        while values:
            index = self.makers.get(values.pop())
            if index is None or index in covered or index in self.taken:
                continue
            covered.add(index)
            values += [name for name in self.nodes[index].input if name and name not in read]
        return covered
