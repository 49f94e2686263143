"""The walk over the operators that hold graphs: ``If`` here, ``Loop`` in `loops` and ``Scan`` in `scans`.

If constants or the given inputs choose the branch of an ``If``, only this branch is counted; otherwise the most
expensive branch, which makes an upper bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto

from profilerkit.backend_kit.graph_branches import count_first

from ..model.nodes import name_node
from .bodies import find_graph, hold_reads, require_inputs, walk_body
from .loops import walk_loop
from .scans import walk_scan
from .values import Value
from .walk import Handler, Visit, Walk

__all__ = ["HANDLERS"]

_DEARER = "the condition of the If {!r} depends on values: the most expensive of its branches is counted"


def _walk_if(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the branch of an ``If`` that runs, or over both branches if the condition is not known."""
    require_inputs(visit, 1)
    hold_reads(walk, visit)
    condition = visit.inputs[0]
    if condition is None or condition.array is None:
        return _walk_both(walk, visit)
    taken = walk_body(walk, visit, _find_branch(visit, "then_branch" if condition.is_true else "else_branch"))
    walk.work.add(taken.work)
    walk.follows_inputs |= condition.from_inputs
    return [value.mark_from_inputs() if condition.from_inputs else value for value in taken.outputs]


def _find_branch(visit: Visit, name: str) -> GraphProto:
    return find_graph(visit, name, 0, len(visit.node.output))


def _walk_both(walk: Walk, visit: Visit) -> list[Value]:
    """Walk both branches, count the more expensive one, and return the known facts about the outputs of both."""
    graphs = [_find_branch(visit, name) for name in ("then_branch", "else_branch")]
    dearer, cheaper = (walk_body(walk, visit, graph) for graph in graphs)
    if dearer.work.price < cheaper.work.price:
        dearer, cheaper = cheaper, dearer
    walk.work.add(count_first(dearer, cheaper, walk.node, walk.path, _DEARER.format(name_node(visit.node))))
    return [value.merge(other) for value, other in zip(dearer.outputs, cheaper.outputs, strict=True)]


#: The function that goes over each operator with graphs inside.
HANDLERS: Mapping[str, Handler] = {"If": _walk_if, "Loop": walk_loop, "Scan": walk_scan}
