"""The work of an operator that runs one of several bodies, where nobody knows which: one of them is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any, TypeVar

from ..trace.bounds import Branch, Choice
from .graph_work import Executed, GraphValue, Work
from .program_parts import Fork
from .running_order import Body, Numbered, RunningOrder

__all__ = ["HANDING_ON", "count_first", "count_one", "make_choices"]

#: The operator that returns the values of one body as the values of another body: both share the buffers.
HANDING_ON = "Identity"

V = TypeVar("V", bound=Numbered)
W = TypeVar("W", bound=RunningOrder[Any, Any])


def count_first(
    first: Body[Work, GraphValue], second: Body[Work, GraphValue], node: int, path: str, reason: str
) -> Work:
    """Return the work of an operator that runs one of two bodies: the work of the first, and how the second differs.

    Args:
        first: The body that is counted.
        second: The body that may run instead; it returns its values as the values of the first.
        node: The index of the node of the model's own graph that the operator comes from.
        path: The path of the operator's layer.
        reason: Why it is not known which one runs, and which one is counted.
    """

    def hand_on(value: GraphValue, result: GraphValue) -> Executed:
        return Executed(HANDING_ON, node, (value,), (result,))

    choices = make_choices([first.work.as_branch(path), second.work.as_branch(path)], reason)
    return count_one(first, [second], choices, reason, hand_on)


def make_choices(branches: Sequence[Branch], reason: str) -> list[Choice]:
    """Return the choice between branches, the first of which is counted.

    Where all have the same work, and may do the same instead of it, that is all that is to be chosen.
    """
    are_alike = all(branch == branches[0] for branch in branches)
    return list(branches[0].choices) if are_alike else [Choice(tuple(branches), 0, reason)]


def count_one(
    counted: Body[W, V],
    others: Sequence[Body[W, V]],
    choices: Sequence[Any],
    reason: str,
    hand_on: Callable[[V, V], Any],
) -> W:
    """Return the work of an operator that runs one of several bodies: the work of one body, and how the others differ.

    Uncounted operators of all bodies are named.

    Args:
        counted: The body that is counted.
        others: The bodies that may run instead; each returns its values as the values of the counted body.
        choices: The choices of the work of all bodies, the counted one first.
        reason: Why it is not known which one runs, and which one is counted.
        hand_on: Makes an operator that returns one value as another value, in the same buffer.
    """
    results = [_pair_results(counted, other) for other in others]
    sides = [counted.work.parts]
    for other, pairs in zip(others, results, strict=True):
        sides.append([*other.work.parts, *(hand_on(value, result) for value, result in pairs or ())])
    missing = reduce(or_, (body.work.count_missing() for body in (counted, *others)))
    return replace(
        counted.work,
        parts=[Fork(sides, reason, is_alike=None not in results)],
        choices=list(choices),
        missed=counted.work.missed + (missing - counted.work.count_missing()),
    )


def _pair_results(counted: Body[W, V], other: Body[W, V]) -> list[tuple[V, V]] | None:
    """Return the values of a body that are handed on in place of those of the counted one, each with the latter.

    None where the counted body returns a value that it has not made, or returns one twice, and the other body has
    another value in its place: both are alive behind them, where operators name only one.
    """
    made = {value.number for op in counted.work.operators for value in op.outputs}
    pairs = []
    for value, result in zip(other.outputs, counted.outputs, strict=True):
        if value.number == result.number:
            continue
        if result.number not in made:
            return None
        made.remove(result.number)
        pairs.append((value, result))
    return pairs
