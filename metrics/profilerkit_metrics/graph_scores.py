"""Whether the scores at the end of a graph are probabilities or logits, from the operators of the graph."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

__all__ = ["GraphStep", "Role", "gives_probabilities"]


class Role(Enum):
    """What an operator does with scores."""

    #: Makes a single probability for each element.
    SIGMOID = auto()
    #: Makes probabilities that add up to one.
    SOFTMAX = auto()
    #: Multiplies by weights.
    LINEAR = auto()
    #: Adds its inputs, such as a product and its bias.
    ADD = auto()
    #: Moves, copies, or averages the elements of its first input; further inputs say which and where to.
    MOVE = auto()
    #: Joins or averages several inputs.
    JOIN = auto()
    #: Does anything else.
    OTHER = auto()


class GraphStep(NamedTuple):
    """An operator of a graph, with the names of the values that it reads and makes; no constant is an operator."""

    role: Role
    reads: Sequence[Hashable]
    makes: Collection[Hashable]


class _Kind(Enum):
    """What is known of a value."""

    #: Each element is a probability of its own, or a logit.
    PROBABILITY, LOGIT = auto(), auto()
    #: It is computed from probabilities alone, and may be one of several that add up to one, or a sum of some.
    DERIVED = auto()
    UNKNOWN = auto()


_FROM_PROBABILITIES = {_Kind.PROBABILITY, _Kind.DERIVED}


def gives_probabilities(steps: Iterable[GraphStep], result: Hashable) -> bool | None:
    """Return True if a graph ends in a sigmoid, False if it ends in a linear operator; None otherwise.

    Operators that only move or average values may follow, and additions may follow a linear operator. None for a
    softmax: of several classes the highest score is the prediction in any case, and the share of a single class is one.

    Args:
        steps: The operators in their order.
        result: The name of the value that is the scores.
    """
    kinds: dict[Hashable, _Kind] = {}
    for step in steps:
        kinds.update(dict.fromkeys(step.makes, _find_kind(step, kinds)))
    return {_Kind.PROBABILITY: True, _Kind.LOGIT: False}.get(kinds.get(result, _Kind.UNKNOWN))


def _find_kind(step: GraphStep, kinds: dict[Hashable, _Kind]) -> _Kind:
    """Return the kind of the results of an operator, given the kinds of the values that were computed before it."""
    reads = {kinds[name] for name in step.reads[: 1 if step.role is Role.MOVE else None] if name in kinds}
    match step.role:
        case Role.SIGMOID:
            return _Kind.PROBABILITY
        case Role.SOFTMAX:
            return _Kind.DERIVED
        case Role.LINEAR:  # weighed probabilities may be a mean, which is a probability again
            return _Kind.LOGIT if reads.isdisjoint(_FROM_PROBABILITIES) else _Kind.UNKNOWN
        case Role.MOVE | Role.JOIN if len(reads) == 1:
            return reads.pop()
        case Role.MOVE | Role.JOIN:
            return _Kind.UNKNOWN if reads.isdisjoint(_FROM_PROBABILITIES) else _Kind.DERIVED
        case Role.ADD if _Kind.LOGIT in reads:
            return _Kind.LOGIT
        case _:
            return _Kind.DERIVED if reads and reads <= _FROM_PROBABILITIES else _Kind.UNKNOWN
