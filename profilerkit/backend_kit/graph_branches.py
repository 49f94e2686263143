"""The work of an operator that runs one of several bodies, where nobody knows which: one of them is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any, TypeVar

from ..trace.bounds import Branch, Choice
from .graph_work import Work
from .running_order import RunningOrder

__all__ = ["count_first", "count_one", "make_choices"]

W = TypeVar("W", bound=RunningOrder[Any, Any])


def count_first(first: Work, second: Work, path: str, reason: str) -> Work:
    """Return the work of an operator, in the layer at ``path``, that runs one of two bodies: the work of the first.

    ``reason`` says why it is not known which one runs, and which one is counted.
    """
    return count_one(first, [second], make_choices([first.as_branch(path), second.as_branch(path)], reason), reason)


def make_choices(branches: Sequence[Branch], reason: str) -> list[Choice]:
    """Return the choice between branches, the first of which is counted.

    Where all have the same work, and may do the same instead of it, that is all that is to be chosen.
    """
    are_alike = all(branch == branches[0] for branch in branches)
    return list(branches[0].choices) if are_alike else [Choice(tuple(branches), 0, reason)]


def count_one(counted: W, others: Sequence[W], choices: Sequence[Any], reason: str) -> W:
    """Return the work of an operator that runs one of several bodies: the work of one, and how the others differ.

    Uncounted operators of all bodies are named. How much the others change the bytes alive is not known.

    Args:
        counted: The work of the body that is counted.
        others: The work of the bodies that may run instead.
        choices: The choices of the work of all bodies, the counted one first.
        reason: Why it is not known which one runs, and which one is counted.
    """
    of_counted = counted.count_missing()
    missing = reduce(or_, (work.count_missing() for work in others), of_counted)
    return replace(counted, choices=list(choices), missed=counted.missed + (missing - of_counted), undecided=[reason])
