"""What a value that follows from a trace lacks where the trace does: one rule for each part of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..errors import ModelFailedError, WithoutValuesError
from .records import ModelTrace

__all__ = ["Gaps", "TracePart", "gaps_of"]


class TracePart(Enum):
    """What of a trace a value follows from."""

    #: The weights: they are known also where the model cannot be run, unless its first call makes them.
    WEIGHTS = "weights"
    #: The layers and their calls.
    LAYERS = "layers"
    #: The work of the operators: a lower bound where the cost of one is not known.
    OPERATORS = "operators"
    #: The bytes that are alive: a lower bound where a tensor's size is not known.
    MEMORY = "memory"


@dataclass(frozen=True)
class Gaps:
    """What is missing, in words; and the error where there is no value at all.

    ``error_of_zero`` takes the error's place where something would be there, were it not for what is missing: a total
    of zero then says nothing.
    """

    missing: tuple[str, ...] = ()
    error: Exception | None = None
    error_of_zero: Exception | None = None


def gaps_of(trace: ModelTrace, part: TracePart) -> Gaps:
    """Return what a value lacks that follows from a part of a trace."""
    if part is TracePart.WEIGHTS:
        if not trace.unmade_weights:
            return Gaps()
        failed = isinstance(trace.failure, ModelFailedError)
        error = trace.failure if failed else WithoutValuesError(f"not counted: {trace.unmade_weights}")
        return Gaps((trace.unmade_weights,), error_of_zero=error)
    if trace.failure is not None:
        return Gaps(error=trace.failure)
    if part is TracePart.OPERATORS:
        return Gaps(trace.missing)
    return Gaps(trace.memory.missing) if part is TracePart.MEMORY else Gaps()
