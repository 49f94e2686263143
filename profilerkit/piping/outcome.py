"""The outcome of a status: its value and how complete that is, and the classes by which a function returns both.

``returned.py`` adds the gaps that an outcome inherits from the values that it was computed from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from traceback import clear_frames
from typing import Any

from ..error_text import describe_error, list_causes, shown
from ..errors import NotOfferedError, ProfilerKitError
from ..times.measurement import Measurement
from ..trace.bounds import UNKNOWN_ENDS, Bounds
from ..trace.observed_runs import ObservedRun, Witnessed

__all__ = [
    "Completeness",
    "Failure",
    "Noted",
    "Outcome",
    "Partial",
    "Unavailable",
    "is_number",
    "qualify",
]


class Completeness(Enum):
    """How complete a value is."""

    COMPLETE = "complete"
    #: A part is unknown: the value is a lower bound, an upper bound or an estimate. The reasons are listed.
    PARTIAL = "partial"
    #: There is no value. The reason is listed.
    UNAVAILABLE = "unavailable"
    #: The function that computes the value raised an error.
    FAILED = "failed"


@dataclass(frozen=True)
class Partial:
    """Return this from a function for a value that is not complete: the value, and what is missing.

    Without ``bounds`` the value is a lower bound.
    """

    value: Any
    missing: tuple[str, ...]
    bounds: Bounds | None = None


@dataclass(frozen=True)
class Noted:
    """Return this from a function for a value with a remark: the value, and the remark for reports."""

    value: Any
    note: str


@dataclass(frozen=True)
class Unavailable:
    """Return this from a function if there is no value: the reason.

    ``is_applicable`` is False for a value that has no meaning for the model, such as the trained parameters of a file
    that does not say which of its constants were trained. Its absence is no gap: the row of an audit is complete.
    """

    reason: str
    is_applicable: bool = True


def qualify(value: Any, missing: Iterable[str] = (), notes: Iterable[str] = ()) -> Any:
    """Return a value with its gaps and notes, for a function to return; the bare value if it has neither.

    >>> qualify(5), qualify(5, ["a loop"], ["on 1 thread", ""])
    (5, Noted(value=Partial(value=5, missing=('a loop',), bounds=None), note='on 1 thread'))
    """
    lacking, note = tuple(missing), "; ".join(filter(None, notes))
    qualified = Partial(value, lacking) if lacking else value
    return Noted(qualified, note) if note else qualified


@dataclass(frozen=True)
class Failure:
    """Return this from a function for one of its keys that failed, if the other keys have values: the error.

    The error is kept. The variables of the frames that raised it are not: they may hold memory that what is computed
    next needs.
    """

    error: Exception

    def __post_init__(self) -> None:
        for cause in list_causes(self.error, implicit=False):  # an error that the caller handles is none of ours
            clear_frames(cause.__traceback__)


@dataclass(frozen=True)
class Outcome:
    """The outcome of computing a status: the value and how complete it is.

    ``bounds`` are the two ends of a partial value; without them it is a lower bound.
    """

    value: Any = None
    completeness: Completeness = Completeness.COMPLETE
    missing: tuple[str, ...] = ()
    error: Exception | None = None
    note: str = ""
    bounds: Bounds | None = None
    #: The observed runs of the model that the value needed.
    runs: tuple[ObservedRun, ...] = ()
    #: False where there is no value because it would have no meaning for the model.
    is_applicable: bool = True

    @property
    def ends(self) -> Bounds | None:
        """The two ends of a number: the number itself where it is complete; None where there is no number."""
        if not is_number(self.value) or isinstance(self.value, Measurement):
            return None
        if self.completeness is Completeness.COMPLETE:
            return Bounds(self.value, self.value)
        return self.bounds or Bounds(self.value, None)

    def add_missing(self, missing: Iterable[str], bounds: Bounds | None = None) -> Outcome:
        """Return the outcome with a further gap; the same outcome if there is no value.

        ``bounds`` are the least and the greatest value that the gap allows; None is "this much, or more". The bounds of
        two gaps cannot be added up: if they differ, the result has no bounds.
        """
        if self.completeness in (Completeness.UNAVAILABLE, Completeness.FAILED):
            return self
        if self.completeness is Completeness.PARTIAL and self.ends is not None:
            bounds = self.bounds if self.ends == (bounds or Bounds(self.value, None)) else UNKNOWN_ENDS
        all_missing = tuple(dict.fromkeys((*missing, *self.missing)))
        return replace(self, completeness=Completeness.PARTIAL, missing=all_missing, bounds=bounds)

    @classmethod
    def of(cls, returned: Any) -> Outcome:
        """Read the result of a function for one key."""
        if isinstance(returned, Outcome):
            return returned
        if isinstance(returned, Partial):
            return _read_partial(returned)
        if isinstance(returned, Noted):
            inner = cls.of(returned.value)
            return replace(inner, note="; ".join(filter(None, (inner.note, *_read_reasons(returned.note or "")))))
        if isinstance(returned, Witnessed):
            inner = cls.of(returned.value)
            return replace(inner, runs=(*inner.runs, *returned.runs))
        if isinstance(returned, Unavailable):
            reasons = _read_reasons(returned.reason)
            return cls(None, Completeness.UNAVAILABLE, reasons, is_applicable=returned.is_applicable)
        if isinstance(returned, Failure):
            if isinstance(returned.error, NotOfferedError):  # nothing has failed
                return cls.of(Unavailable(str(returned.error)))
            says_it_all = isinstance(returned.error, ProfilerKitError)  # a message of ours needs no type in front
            reason = str(returned.error) if says_it_all else describe_error(returned.error)
            return cls(None, Completeness.FAILED, (reason,), returned.error)
        if returned is None:
            return cls(None, Completeness.UNAVAILABLE, ("the function returned nothing",))
        return cls(returned)


def _read_partial(returned: Partial) -> Outcome:
    missing = _read_reasons(returned.missing)
    inner = Outcome.of(returned.value)
    if returned.value is None and missing:
        return replace(inner, missing=missing)  # which say more than that there is nothing
    if returned.bounds is not None:
        _require_between(inner.value, returned.bounds)
    return inner.add_missing(missing, returned.bounds)


def _read_reasons(words: Any) -> tuple[str, ...]:
    """Return one or several reasons or notes as they are shown; raises `TypeError` for any that is no text."""
    reasons = tuple(words) if isinstance(words, Iterable) and not isinstance(words, str) else (words,)
    for reason in reasons:
        if not isinstance(reason, str):
            raise TypeError(f"{shown(reason)} is given as a reason or note; give a text, as str() makes it")
    return reasons


def _require_between(value: Any, bounds: Any) -> None:
    """Raise an error for bounds of a value that are no `Bounds`, or between which the number does not lie."""
    low, high = (bounds.low, bounds.high) if isinstance(bounds, Bounds) else ("", "")
    if not all(end is None or is_number(end) for end in (low, high)):
        raise TypeError(f"a Partial has bounds={shown(bounds)}; give Bounds(low, high): numbers, or None for no end")
    if is_number(value) and ((low is not None and value < low) or (high is not None and value > high)):
        raise ValueError(f"a Partial has the value {shown(value)}, which is not between its bounds, {low} and {high}")


def is_number(value: Any) -> bool:
    """Say whether a value is one number that can be shown and compared: no text, no truth value, no array."""
    if value is None or isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        return False
    try:
        float(value)
        return getattr(getattr(value, "dtype", None), "kind", "") != "b"  # that of numpy's truth values
    except (TypeError, ValueError, OverflowError, RuntimeError):  # an array of several, an integer beyond floats
        return False
