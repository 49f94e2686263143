"""The walk over the operators that hold graphs: ``If`` and ``Scan`` here, ``Loop`` in `loops`.

- If constants or the given inputs choose the branch of an ``If``, only this branch is counted; otherwise the most
  expensive branch, which makes an upper bound.
- The body of a ``Scan`` runs once for each slice of its inputs. If the number of slices is not known, one turn is
  counted, and the operator is named as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profilerkit.backend_kit.failures import UnfitError
from profilerkit.backend_kit.graph_branches import count_first
from profilerkit.backend_kit.graph_work import Executed

from ..model.nodes import name_node, read_attributes
from ..model.types import tensor_type
from .loops import stack_turns, walk_loop
from .values import Value
from .walk import Handler, Visit, Walk

__all__ = ["HANDLERS"]

#: The first operator set whose ``Scan`` is read.
_FIRST_SCAN = 9
_DEARER = "the condition of the If {!r} depends on values: the most expensive of its branches is counted"


def _walk_if(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the branch of an ``If`` that runs, or over both branches if the condition is not known."""
    visit.require_inputs(1)
    walk.hold_reads(visit)
    condition = visit.inputs[0]
    if condition is None or condition.array is None:
        return _walk_both(walk, visit)
    branch = "then_branch" if condition.is_true else "else_branch"
    taken = walk.walk_body(visit, visit.find_graph(branch, 0, len(visit.node.output)))
    walk.work.add(taken.work)
    walk.follows_inputs |= condition.from_inputs
    return [value.mark_from_inputs() if condition.from_inputs else value for value in taken.outputs]


def _walk_both(walk: Walk, visit: Visit) -> list[Value]:
    """Walk both branches, count the more expensive one, and return the known facts about the outputs of both."""
    graphs = [visit.find_graph(name, 0, len(visit.node.output)) for name in ("then_branch", "else_branch")]
    bodies = [walk.walk_body(visit, graph) for graph in graphs]
    dearer, cheaper = sorted(bodies, key=lambda body: body.work.price, reverse=True)
    walk.work.add(count_first(dearer.work, cheaper.work, walk.path, _DEARER.format(name_node(visit.node))))
    return [value.merge(other) for value, other in zip(dearer.outputs, cheaper.outputs, strict=True)]


def _walk_scan(walk: Walk, visit: Visit) -> list[Value]:
    """Go over the body of a ``Scan`` of operator set 9 or newer: its inputs are its first states and sliced values."""
    if walk.declared.opsets.get("", _FIRST_SCAN) < _FIRST_SCAN:
        raise UnfitError(
            f"the Scan {name_node(visit.node)!r} of operator set 8 goes over samples of a batch, which is not read; "
            f"export the model with operator set {_FIRST_SCAN} or newer"
        )
    attributes = read_attributes(visit.node.attribute)
    slice_count = attributes.get("num_scan_inputs", 0)
    visit.require_inputs(slice_count)
    graph = visit.find_graph("body", len(visit.inputs), len(visit.node.output))
    walk.hold_reads(visit)
    state_count = len(visit.inputs) - slice_count
    states = visit.inputs[:state_count]
    slices, length = _slice_all(visit.inputs[state_count:], attributes)
    turns = 1 if length is None else length
    body = walk.walk_body(visit, graph, [*(value and value.carry() for value in states), *slices], turns)
    results = body.outputs[state_count:]
    axes = attributes.get("scan_output_axes", [0] * len(results))
    stacked = [stack_turns(walk, value, axis, length) for value, axis in zip(results, axes, strict=True)]
    if turns:
        walk.work.add_loop(body.work)
    missing = "Scan of an unknown length" if length is None else ""
    # The scan itself reads the results of its last turn, if there is one, and makes the stacked values of all.
    last = body.outputs if turns else ()
    walk.work.append(Executed("Scan", walk.node, last, stacked, visit.times, missing=missing))
    return [*(body.outputs[:state_count] if turns else filter(None, states)), *stacked]


def _slice_all(
    sequences: Sequence[Value | None], attributes: Mapping[str, Any]
) -> tuple[list[Value | None], int | None]:
    """Return the slice of each sequence that a turn gets, and the number of slices; None if no shape is known.

    A slice is in the buffer of its sequence, and has all of its dimensions but one.
    """
    slices, length = list[Value | None](), None
    for value, axis in zip(sequences, attributes.get("scan_input_axes", [0] * len(sequences)), strict=False):
        if value is None:
            slices.append(None)
            continue
        sizes = None if value.shape is None else list(value.shape)
        if sizes is not None:
            size = sizes.pop(axis)
            length = size if length is None else length
        slices.append(Value(value.number, tensor_type(value.element, sizes)))
    return slices, length


#: The function that goes over each operator with graphs inside.
HANDLERS: Mapping[str, Handler] = {"If": _walk_if, "Loop": walk_loop, "Scan": _walk_scan}
