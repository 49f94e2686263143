"""The parts missing from a value because its trace has gaps: a rule for each part of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..errors import ModelFailedError, WithoutValuesError
from .bounds import UNKNOWN_ENDS, Bounds, Choice
from .columns import WORK
from .records import ModelTrace

__all__ = ["Gaps", "TracePart", "find_gaps", "is_complete"]


class TracePart(Enum):
    """The part of a trace that a value is computed from."""

    #: The weights: they are known even if the model cannot be run, unless its first call makes them.
    WEIGHTS = "weights"
    #: The layers and their calls: incomplete if a run of the model calls other layers.
    LAYERS = "layers"
    #: The work of the operators: a lower bound if the cost of an operator is not known, an upper bound if the dearer of
    #: two branches is counted.
    OPERATORS = "operators"
    #: The bytes that are alive: a lower bound if a tensor's size is not known; with two ends if the branches of a
    #: condition need more and less.
    MEMORY = "memory"


@dataclass(frozen=True)
class Gaps:
    """The parts missing from a value.

    Attributes:
        missing: The missing parts, in words.
        error: The reason why there is no value at all.
        error_of_zero: The reason why there is no value if it would be zero: a model of lazy layers that cannot be
            called has not zero parameters, but an unknown number of them.
        bounds: The numbers between which the complete value lies; None if the value is a lower bound.
    """

    missing: tuple[str, ...] = ()
    error: Exception | None = None
    error_of_zero: Exception | None = None
    bounds: Bounds | None = None


def is_complete(trace: ModelTrace) -> bool:
    """Return whether a trace lacks nothing: then `find_gaps` finds nothing for any part of it."""
    if trace.failure is not None or trace.choices or trace.contradictions:
        return False
    has_exact_peak = trace.peak_spread is None or trace.peak_spread.is_exact
    return has_exact_peak and not (trace.unmade_weights or trace.uncounted or trace.memory.unsized)


def find_gaps(trace: ModelTrace, part: TracePart | None, column: str = "", value: float | None = None) -> Gaps:
    """Return the parts missing from a value that is computed from a part of a trace.

    Args:
        trace: The trace.
        part: The part of it; None if it is not known which.
        column: The count of the operators whose sum the value is; only for `TracePart.OPERATORS`.
        value: The value, if it is a number of bytes that grows with the peak; only for `TracePart.MEMORY`.
    """
    if part is TracePart.WEIGHTS:
        return _find_weight_gaps(trace)
    if trace.failure is not None:
        return Gaps(error=trace.failure)
    if part is TracePart.OPERATORS:
        gaps = _find_operator_gaps(trace, column)
    elif part is TracePart.MEMORY:
        gaps = _find_memory_gaps(trace, value)
    elif part is None:
        missing = dict.fromkeys((*_find_operator_gaps(trace, "").missing, *_find_memory_gaps(trace, None).missing))
        gaps = Gaps(tuple(missing), bounds=UNKNOWN_ENDS) if missing else Gaps()
    else:
        gaps = Gaps()
    if not trace.contradictions:
        return gaps
    return Gaps((*gaps.missing, *trace.contradictions), bounds=UNKNOWN_ENDS)


def _find_weight_gaps(trace: ModelTrace) -> Gaps:
    if not trace.unmade_weights:
        return Gaps()
    error: Exception = WithoutValuesError(f"not counted: {trace.unmade_weights}")
    if isinstance(trace.failure, ModelFailedError):
        error = trace.failure
    return Gaps((trace.unmade_weights,), error_of_zero=error)


def _find_operator_gaps(trace: ModelTrace, column: str) -> Gaps:
    if not trace.choices:
        return Gaps(trace.missing)
    reasons = (*trace.missing, *_list_reasons(trace.choices))
    if column not in WORK:
        return Gaps(reasons, bounds=UNKNOWN_ENDS)
    bounds = trace.bounds(column)
    if bounds.low is not None and bounds.low == bounds.high:  # all branches cost the same, and nothing else is missing
        return Gaps()
    return Gaps(reasons, bounds=bounds)


def _find_memory_gaps(trace: ModelTrace, value: float | None) -> Gaps:
    missing, spread = trace.memory.missing, trace.peak_spread
    if spread is None:
        reasons = _list_reasons(trace.choices)
        return Gaps((*missing, *reasons), bounds=UNKNOWN_ENDS if reasons else None)
    if spread.is_exact:
        return Gaps(missing)
    bounds = UNKNOWN_ENDS if value is None else spread.around(value, is_open=bool(missing))
    return Gaps((*missing, *spread.reasons), bounds=bounds)


def _list_reasons(choices: tuple[Choice, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(choice.reason for choice in choices))
