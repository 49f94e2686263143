"""``If``: a branch that constants or the given inputs choose is counted alone.

Otherwise the most expensive branch is counted, which makes an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from profilerkit.backend_kit.graph_work import count_first

from .bodies import find_graph, walk_body
from .pricing import name_node
from .values import Value, Values
from .walk import Walk

__all__ = ["walk_if"]

_DEARER = "the condition of the If {!r} depends on values: the most expensive of its branches is counted"


def walk_if(walk: Walk, node: NodeProto, inputs: Sequence[Value | None], values: Values, times: int) -> None:
    """Go over the branch of an ``If`` that runs, or over both where that is not known."""
    condition = inputs[0]
    if condition is None or condition.array is None:
        outputs = _walk_both(walk, node, values, times)
    else:
        taken = walk_body(walk, find_graph(node, f"{'then' if condition.is_true else 'else'}_branch"), values, times)
        walk.work.add(taken.work)
        outputs = [value.mark_from_inputs() if condition.from_inputs else value for value in taken.outputs]
    values.update(zip(node.output, outputs, strict=True))


def _walk_both(walk: Walk, node: NodeProto, values: Values, times: int) -> list[Value]:
    """Go over both branches, count the more expensive one, and return what is known of the outputs of either."""
    dearer, cheaper = (walk_body(walk, find_graph(node, f"{side}_branch"), values, times) for side in ("then", "else"))
    if dearer.work.price < cheaper.work.price:
        dearer, cheaper = cheaper, dearer
    walk.work.add(count_first(dearer, cheaper, walk.node, walk.path, _DEARER.format(name_node(node))))
    return [value.merge([other]) for value, other in zip(dearer.outputs, cheaper.outputs, strict=True)]
