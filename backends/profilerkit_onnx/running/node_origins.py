"""The origins of the nodes of a rewritten graph: the nodes of the written graph that each of them stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    """Return the origin of each node of the rewritten graph, in its order."""
    search = _OriginSearch(written.graph.node)
    for node in rewritten.graph.node:
        search.add(node)
    return search.origins


class _Unnamed(NamedTuple):
    """The source of a value that only the rewritten graph has: its nodes, and the written values that they read."""

    nodes: tuple[int, ...]
    read: tuple[str, ...]


class _OriginSearch:
    """Walks along the rewritten graph; no node of the original graph is assigned twice.

    The runtime keeps the names of the values that remain. So the work of a node is the original nodes between the
    values that it reads and the values that it makes; a fused node does the work of several. If the runtime replaces
    nodes by several others, such as a product by ``Reshape``, ``Gemm`` and ``Reshape``, the values between these have
    no original names: all the work belongs to the node that does not only move data.
    """

    def __init__(self, written: Iterable[NodeProto]) -> None:
        self.origins: list[Origin] = []
        self._written = list(written)
        #: The index of the node that makes each value of the written graph.
        self._makers = {name: index for index, node in enumerate(self._written) for name in node.output if name}
        self._written_by_name = {node.name: node for node in self._written if node.name}
        #: The written values that values of the rewritten graph stand for, whose names differ.
        self._written_names: dict[str, str] = {}
        self._unnamed: dict[str, _Unnamed] = {}
        self._taken: set[int] = set()
        #: Of each node of the rewritten graph so far, whether it only moves data.
        self._is_free: list[bool] = []

    def add(self, node: NodeProto) -> None:
        """Find the origin of the next node: the original nodes between its inputs and its outputs."""
        index, (before, read) = len(self.origins), self._look_back(node)
        self._is_free.append(name_operator(node) in OPERATORS.free)
        self.origins.append(Origin((), next((self._makers[name] for name in read if name in self._makers), None)))
        made = self._list_made(node)
        if not made:
            self._unnamed.update(dict.fromkeys(node.output, _Unnamed((*before, index), read)))
            return
        near = self._makers[made[0]]
        for number in (*before, index):
            if number == index or self.origins[number].near is None:
                self.origins[number] = replace(self.origins[number], near=near)
        covered = self._find_between(set(read), made)
        self._taken.update(covered)
        worker = self._choose_worker(before, index)
        self.origins[worker] = Origin(tuple(sorted({*self.origins[worker].covered, *covered})), near)

    def _look_back(self, node: NodeProto) -> _Unnamed:
        """Return the written values that lead to the inputs of a node, and the nodes between them and the node."""
        nodes: dict[int, None] = {}
        read: dict[str, None] = {}
        for name in filter(None, node.input):
            unnamed = self._unnamed.get(name) or _Unnamed((), (self._written_names.get(name, name),))
            nodes |= dict.fromkeys(unnamed.nodes)
            read |= dict.fromkeys(unnamed.read)
        return _Unnamed(tuple(nodes), tuple(read))

    def _list_made(self, node: NodeProto) -> list[str]:
        """Return the written values that a node makes, by their names or as its own name tells."""
        made = [name for name in node.output if name in self._makers]
        if not made:
            made = self._find_results_by_name(node)
            self._written_names.update(zip(node.output, made, strict=False))
        return made

    def _choose_worker(self, before: Sequence[int], last: int) -> int:
        """Return the node with the work of several nodes: the last, or an earlier node if the last only moves data."""
        if not self._is_free[last]:
            return last
        return next((number for number in before if not self._is_free[number]), last)

    def _find_results_by_name(self, node: NodeProto) -> list[str]:
        """Return the written values that a node makes under other names, as its own name tells."""
        same = self._written_by_name.get(node.name.removeprefix("fused "))
        if same is not None and same.op_type == node.op_type:
            return list(same.output)
        value = node.name.removesuffix(_BLOCKED)
        return [value] if value != node.name and value in self._makers else []

    def _find_between(self, read: set[str], made: Iterable[str]) -> set[int]:
        """Return the original nodes on the ways back from the outputs to the inputs, without assigned nodes."""
        covered: set[int] = set()
        waiting = [name for name in made if name not in read]
        while waiting:
            index = self._makers.get(waiting.pop())
            if index is None or index in covered or index in self._taken:
                continue
            covered.add(index)
            waiting += [name for name in self._written[index].input if name and name not in read]
        return covered
