"""``If``: a branch that constants or the given inputs choose is counted alone.

Otherwise the most expensive branch is counted, which makes an upper bound.
"""

from __future__ import annotations

from profilerkit.backend_kit.graph_work import count_first

from .bodies import find_graph, walk_body
from .pricing import name_node
from .values import Value
from .walk import Visit, Walk

__all__ = ["walk_if"]

_DEARER = "the condition of the If {!r} depends on values: the most expensive of its branches is counted"


def walk_if(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the branch of an ``If`` that runs, or over both where that is not known."""
    condition = visit.inputs[0]
    if condition is None or condition.array is None:
        return _walk_both(walk, visit)
    taken = walk_body(walk, visit, find_graph(visit.node, "then_branch" if condition.is_true else "else_branch"))
    walk.work.add(taken.work)
    return [value.mark_from_inputs() if condition.from_inputs else value for value in taken.outputs]


def _walk_both(walk: Walk, visit: Visit) -> list[Value]:
    """Go over both branches, count the more expensive one, and return what is known of the outputs of either."""
    graphs = [find_graph(visit.node, name) for name in ("then_branch", "else_branch")]
    dearer, cheaper = (walk_body(walk, visit, graph) for graph in graphs)
    if dearer.work.price < cheaper.work.price:
        dearer, cheaper = cheaper, dearer
    walk.work.add(count_first(dearer, cheaper, walk.node, walk.path, _DEARER.format(name_node(visit.node))))
    return [value.merge([other]) for value, other in zip(dearer.outputs, cheaper.outputs, strict=True)]
