"""What a value that follows from a trace lacks where the trace does: one rule for each part of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..errors import ModelFailedError, WithoutValuesError
from .bounds import UNKNOWN_ENDS, WORK, Bounds, Choice
from .records import ModelTrace

__all__ = ["Gaps", "TracePart", "find_gaps"]


class TracePart(Enum):
    """What of a trace a value follows from."""

    #: The weights: they are known also where the model cannot be run, unless its first call makes them.
    WEIGHTS = "weights"
    #: The layers and their calls: not complete where a run of the model calls others.
    LAYERS = "layers"
    #: The work of the operators: a lower bound where the cost of one is not known, an upper one where the dearer of two
    #: branches is counted.
    OPERATORS = "operators"
    #: The bytes that are alive: a lower bound where a tensor's size is not known; with two ends where the branches of a
    #: condition need more and less.
    MEMORY = "memory"


@dataclass(frozen=True)
class Gaps:
    """What is missing, in words; and the error where there is no value at all.

    ``bounds`` are the two ends of the value, where these are known to be others than "this much, or more".
    ``error_of_zero`` takes the error's place where something would be there, were it not for what is missing: a total
    of zero then says nothing.
    """

    missing: tuple[str, ...] = ()
    error: Exception | None = None
    error_of_zero: Exception | None = None
    bounds: Bounds | None = None


def find_gaps(trace: ModelTrace, part: TracePart, column: str = "", value: float | None = None) -> Gaps:
    """Return what a value lacks that follows from a part of a trace.

    Args:
        trace: The trace.
        part: The part of it.
        column: Of which count the value is the sum.
        value: The value, if it is a number of bytes that grows with the peak.
    """
    if part is TracePart.WEIGHTS:
        return _find_weight_gaps(trace)
    if trace.failure is not None:
        return Gaps(error=trace.failure)
    gaps = Gaps()
    if part is TracePart.OPERATORS:
        gaps = _find_operator_gaps(trace, column)
    elif part is TracePart.MEMORY:
        gaps = _find_memory_gaps(trace, value)
    if not trace.contradictions:
        return gaps
    return Gaps((*gaps.missing, *trace.contradictions), bounds=UNKNOWN_ENDS)


def _find_weight_gaps(trace: ModelTrace) -> Gaps:
    if not trace.unmade_weights:
        return Gaps()
    failed = isinstance(trace.failure, ModelFailedError)
    error = trace.failure if failed else WithoutValuesError(f"not counted: {trace.unmade_weights}")
    return Gaps((trace.unmade_weights,), error_of_zero=error)


def _find_operator_gaps(trace: ModelTrace, column: str) -> Gaps:
    if not trace.choices:
        return Gaps(trace.missing)
    reasons = (*trace.missing, *_list_reasons(trace.choices))
    if column not in WORK:
        return Gaps(reasons, bounds=UNKNOWN_ENDS)
    bounds = trace.bounds(column)
    is_exact = bounds.low == bounds.high is not None
    return Gaps() if is_exact else Gaps(reasons, bounds=bounds)


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
