"""Status keys: what can be known about a model, and how each value is shown and compared.

A `StatusKey` is a name and a value. A `Metric` is the status key people read: it has a description, units and a sense
of better and worse. A registered key is a template; a computed status is a fresh copy that carries its outcome and is
never changed afterwards.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from ..errors import NotOfferedError, ProfilerKitError
from ..process.cached import once_for_each
from ..times.measurement import Measurement
from ..times.wording import format_count, noise_text
from ..trace.bounds import Bounds
from ..trace.completeness import TracePart, find_gaps
from ..trace.cross_check import ObservedRun, Witnessed
from ..trace.records import ModelTrace
from .comparative import Comparative
from .quantity import Quantity, Scale, format_known, format_number, scale_value
from .titles import write_title

__all__ = [
    "INAPPLICABLE",
    "Comparative",
    "Completeness",
    "Failure",
    "Metric",
    "Noted",
    "Outcome",
    "Partial",
    "StatusKey",
    "Unavailable",
    "apply_gaps",
    "inherit_gaps",
    "is_number",
]


#: How the reason of a value begins that has no meaning for a model, such as the trained parameters of a file that does
#: not say which of its constants were trained.
INAPPLICABLE = "does not apply to this model"


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
    """Return this from a function if there is no value: the reason."""

    reason: str


@dataclass(frozen=True)
class Failure:
    """Return this from a function for one of its keys that failed, if the other keys have values: the error."""

    error: Exception


@dataclass(frozen=True)
class Outcome:
    """What came of computing a status: the value and how complete it is.

    ``bounds`` are the two ends of a partial value; without them it is a lower bound.
    """

    value: Any = None
    completeness: Completeness = Completeness.COMPLETE
    missing: tuple[str, ...] = ()
    error: Exception | None = None
    note: str = ""
    bounds: Bounds | None = None
    #: What was seen of the runs that the value took.
    runs: tuple[ObservedRun, ...] = ()

    @property
    def ends(self) -> Bounds | None:
        """The two ends of a number: the number itself where it is complete; None where there is no number."""
        if not is_number(self.value) or isinstance(self.value, Measurement):
            return None
        if self.completeness is Completeness.COMPLETE:
            return Bounds(self.value, self.value)
        return self.bounds or Bounds(self.value, None)

    @classmethod
    def of(cls, returned: Any) -> Outcome:
        """Read what a function returned for one key."""
        if isinstance(returned, Outcome):
            return returned
        if isinstance(returned, Partial):
            missing = (returned.missing,) if isinstance(returned.missing, str) else tuple(returned.missing)
            return cls(returned.value, Completeness.PARTIAL, missing, bounds=returned.bounds)
        if isinstance(returned, Noted):
            return replace(cls.of(returned.value), note=returned.note)
        if isinstance(returned, Witnessed):
            return replace(cls.of(returned.value), runs=tuple(returned.runs))
        if isinstance(returned, Unavailable):
            return cls(None, Completeness.UNAVAILABLE, (returned.reason,))
        if isinstance(returned, Failure) and isinstance(returned.error, NotOfferedError):  # nothing has failed
            return cls.of(Unavailable(str(returned.error)))
        if isinstance(returned, Failure):
            return cls(None, Completeness.FAILED, (_describe_error(returned.error),), returned.error)
        if returned is None:
            return cls(None, Completeness.UNAVAILABLE, ("the function returned nothing",))
        return cls(returned)


def apply_gaps(outcome: Outcome, key: StatusKey, trace: ModelTrace | None) -> Outcome:
    """Return the outcome of a key that follows from a trace: without what the trace lacks it is not complete."""
    if trace is None or key.DERIVED_FROM is None or outcome.value is None:
        return outcome
    gaps = find_gaps(trace, key.DERIVED_FROM, key.COUNTS, outcome.value if is_number(outcome.value) else None)
    says_nothing = gaps.error_of_zero is not None and not outcome.value
    error = gaps.error_of_zero if says_nothing else gaps.error
    if error is not None:
        return Outcome.of(Failure(error))
    missing = tuple(dict.fromkeys((*gaps.missing, *outcome.missing)))
    if not missing:
        return outcome
    return replace(
        outcome,
        completeness=Completeness.PARTIAL,
        missing=missing,
        bounds=_join_bounds(outcome, gaps.bounds, gaps.missing),
    )


def inherit_gaps(outcome: Outcome, sources: Iterable[StatusKey]) -> Outcome:
    """Return the outcome of a status that was computed from others: without what they lack it is not complete."""
    sources = tuple(sources)
    missing = tuple(dict.fromkeys(words for source in sources for words in source.outcome.missing))
    if not missing or outcome.completeness is not Completeness.COMPLETE:
        return outcome
    bounds = inherit_bounds(sources, outcome.value)
    return replace(outcome, completeness=Completeness.PARTIAL, missing=missing, bounds=bounds)


def inherit_bounds(sources: Iterable[StatusKey], value: Any) -> Bounds | None:
    """Return the ends of a value made of partial ones: it is a bound of the kind that all of these are.

    None stands for a lower bound. Nothing is known of a value that is made of bounds of several kinds.
    """
    partial = [source.outcome for source in sources if source.outcome.completeness is Completeness.PARTIAL]
    signs = {"≥ " if outcome.ends is None else outcome.ends.sign(outcome.value) for outcome in partial}
    if signs == {"≥ "} or not is_number(value):
        return None
    return Bounds(None, value) if signs == {"≤ "} else Bounds()


def _join_bounds(outcome: Outcome, bounds: Bounds | None, missing: tuple[str, ...]) -> Bounds | None:
    """Return the ends of a value that was partial before, and lacks what its trace lacks too."""
    if outcome.completeness is not Completeness.PARTIAL or not missing:
        return bounds or outcome.bounds
    first, second = outcome.ends, bounds or Bounds(outcome.value, None)
    if first is None:
        return bounds
    return Bounds(None, None) if first != second else first


def _describe_error(error: Exception) -> str:
    """Return an error as a line; its type goes in front, unless the message is one of ours and says it all."""
    if isinstance(error, ProfilerKitError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


S = TypeVar("S", bound="StatusKey")


class StatusKey:
    """A named value of a profiler. Subclasses set ``NAME``, the key in reports and in ``metrics=``."""

    NAME: str = ""
    #: Other names that ``metrics=`` accepts: words that people search for.
    ALIASES: tuple[str, ...] = ()
    #: The part of the trace that the value depends on. If that part is incomplete, the value is too.
    DERIVED_FROM: TracePart | None = None
    #: "macs" or "flops" if the value is the sum of this count over operators; it then gets both bounds.
    COUNTS: str = ""
    #: For the documentation: the formula, what it leaves out, and the source of the definition.
    FORMULA: str = ""
    OMISSIONS: str = ""
    SOURCE: str = ""

    def __init__(self) -> None:
        self._outcome: Outcome | None = None
        self._sources: tuple[StatusKey, ...] = ()

    @property
    def value(self) -> Any:
        """The computed value in base units; None if there is none."""
        return self.outcome.value

    @property
    def outcome(self) -> Outcome:
        """The value together with its completeness, and the error if there was one."""
        outcome = getattr(self, "_outcome", None)
        return outcome or Outcome(None, Completeness.UNAVAILABLE, ("not computed",))

    @property
    def is_computed(self) -> bool:
        """Whether this instance has a value. If not, it is a template."""
        return getattr(self, "_outcome", None) is not None

    @property
    def sources(self) -> tuple[StatusKey, ...]:
        """The statuses that this one was computed from."""
        return getattr(self, "_sources", ())

    def with_outcome(self: S, outcome: Outcome, sources: tuple[StatusKey, ...] = ()) -> S:
        """Return a new copy of this template with the outcome, and the statuses that it was computed from."""
        status = copy.copy(self)
        status._outcome = outcome
        status._sources = sources
        return status

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.NAME}={self.value!r})"


class Metric(StatusKey):
    """A status key for people. For most metrics, class attributes are enough.

    >>> class MacsPerParam(Metric):
    ...     '''Multiply-accumulates per parameter.'''
    ...     NAME = "macs_per_param"
    ...     UNIT = "MACs"
    ...     FRIENDLY_NAME = "MACs per parameter"
    ...     COMPARATIVE = Comparative.RECIPROCAL
    >>> MacsPerParam().friendly_name(), MacsPerParam().description()
    ('MACs per parameter', 'Multiply-accumulates per parameter.')

    If attributes are not enough, override a method. Comparisons always use the value in base units.
    """

    #: The name that reports show. If it is empty: ``NAME`` in title case.
    FRIENDLY_NAME: str = ""
    #: The base unit, which is shown after a prefix: "MACs", "B", "s", "%".
    UNIT: str = ""
    SCALE: Scale = Scale.NONE
    COMPARATIVE: Comparative = Comparative.NONE

    def description(self) -> str:
        """Return one sentence that defines the metric. Default: the first line of the docstring."""
        return _first_line(type(self))

    def friendly_name(self) -> str:
        """Return the name that reports show: ``FRIENDLY_NAME``, or else a title made from ``NAME``."""
        return self.FRIENDLY_NAME or write_title(self.NAME, every_word=True)

    def get_comparative(self) -> Comparative | str:
        """Return how two values are compared."""
        return self.COMPARATIVE

    def get_units(self) -> str:
        """Return the unit of `get_value`, or an empty string."""
        return self._quantity().unit

    def get_value(self) -> Any:
        """Return the value that is shown, scaled to `get_units`."""
        return self.value if self._number() is None else self._quantity().number

    def show(self) -> str:
        """Return value and unit as text; for a measurement also its interval, or the range of its samples."""
        if self.value is None:
            return ""
        number, unit = self.get_value(), self.get_units() or ""
        if isinstance(self.value, Measurement):
            return _write_measurement(self.value, float(number), unit, self._quantity().factor)
        text = format_number(float(number)) if is_number(number) else str(number)
        return f"{text} {unit}".rstrip()

    def _number(self) -> float | None:
        return float(self.value) if is_number(self.value) else None

    def _quantity(self) -> Quantity:
        number = self._number()
        return Quantity(0.0, self.UNIT, 1.0) if number is None else scale_value(number, self.UNIT, self.SCALE)


def _write_measurement(value: Measurement, number: float, unit: str, factor: float) -> str:
    """Write a measurement with its interval, rounded to what is known, and with its noise where that is too much."""
    low, high = value.interval
    uncertainty = value.uncertainty * abs(number) if value.is_range else (high - low) / 2 / factor
    ends = [format_known(end / factor, uncertainty) for end in (low, high)]
    inside = f"{ends[0]} to {ends[1]}, {format_count(len(value.samples), 'sample')}"
    noise = (
        f" {noise_text(value.uncertainty, 0)}"
        if (value.is_noisy or value.is_range) and 0 < value.noise < math.inf
        else ""
    )
    shown = f"{format_known(number, uncertainty)} {unit}".rstrip()
    return f"{shown}{noise} [{inside if value.is_range else ', '.join(ends)}]"


@once_for_each
def _first_line(cls: type) -> str:
    """Return the first line of a class's docstring: read once, for the docstrings of metrics are long."""
    return (inspect.getdoc(cls) or "").split("\n", 1)[0]


def is_number(value: Any) -> bool:
    """Say whether a value is one number that can be shown and compared: no text, no truth value, no array."""
    if value is None or isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # an array of several, an integer beyond floats
        return False
    return True
