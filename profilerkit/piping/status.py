"""Status keys: the facts that can be computed about a model, and how each value is shown and compared.

A `StatusKey` is a name and a value. A `Metric` is the status key people read: it has a description, units and a sense
of better and worse. A registered key is a template; a computed status is a fresh copy that carries its outcome and is
never changed afterwards.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from ..times.measurement import Measurement
from ..trace.completeness import TracePart
from .comparative import Comparative
from .outcome import Completeness, Outcome, is_number
from .quantity import Quantity, Scale, format_number, scale_value, write_measurement
from .titles import write_title

__all__ = ["NOT_COMPUTED", "Metric", "StatusKey", "list_origins"]

#: The outcome of a template.
NOT_COMPUTED = Outcome(None, Completeness.UNAVAILABLE, ("not computed",))

S = TypeVar("S", bound="StatusKey")


class StatusKey:
    """A named value of a profiler. Subclasses set ``NAME``, the key in reports and in ``metrics=``."""

    NAME: str = ""
    #: Other names that ``metrics=`` accepts: words that people search for.
    ALIASES: tuple[str, ...] = ()
    #: The part of the trace that the value depends on, if its function takes a trace: if that part is incomplete, the
    #: value is too. None stands for any part.
    DERIVED_FROM: TracePart | None = None
    #: "macs" or "flops" if the value is the sum of this count over operators; it then gets both bounds.
    COUNTS: str = ""
    #: Whether the value grows with each operator, weight or byte, as a sum does: then it is a lower bound if one is not
    #: counted. Of any other value, such as a quotient, no bound is known.
    GROWS: bool = False
    #: For the documentation: the formula, what it leaves out, and the source of the definition.
    FORMULA: str = ""
    OMISSIONS: str = ""
    SOURCE: str = ""

    #: The value together with its completeness, and the error if there was one; of a template: `NOT_COMPUTED`.
    outcome: Outcome = NOT_COMPUTED
    #: The statuses that this one was computed from.
    sources: tuple[StatusKey, ...] = ()

    @property
    def value(self) -> Any:
        """The computed value in base units; None if there is none."""
        return self.outcome.value

    @property
    def is_computed(self) -> bool:
        """Whether this instance has a value. If not, it is a template."""
        return self.outcome is not NOT_COMPUTED

    def with_outcome(self: S, outcome: Outcome, sources: tuple[StatusKey, ...] = ()) -> S:
        """Return a new copy of this template with the outcome, and the statuses that it was computed from."""
        status = copy.copy(self)
        status.outcome = outcome
        status.sources = sources
        return status

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.NAME}={self.value!r})"


def list_origins(*statuses: StatusKey) -> list[StatusKey]:
    """Return statuses, and all that they were computed from, each once."""
    met: set[int] = set()
    origins: list[StatusKey] = []
    waiting = [*reversed(statuses)]
    while waiting:
        status = waiting.pop()
        if id(status) not in met:
            met.add(id(status))
            origins.append(status)
            waiting += reversed(status.sources)
    return origins


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
        for cls in type(self).__mro__:
            if cls.__doc__:
                return cls.__doc__.strip().partition("\n")[0]
        return ""

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
        return self._quantity().number if is_number(self.value) else self.value

    def show(self) -> str:
        """Return value and unit as text; for a measurement also its interval, or the range of its samples."""
        if self.value is None:
            return ""
        number, unit = self.get_value(), self.get_units() or ""
        if isinstance(self.value, Measurement):
            return str(write_measurement(self.value, Quantity(float(number), unit, self._quantity().factor)))
        text = format_number(float(number)) if is_number(number) else str(number)
        return f"{text} {unit}".rstrip()

    def _quantity(self) -> Quantity:
        """Return the value with its unit as they are shown; for no number, the base unit."""
        if not is_number(self.value):
            return Quantity(0.0, self.UNIT or "", 1.0)
        return scale_value(float(self.value), self.UNIT or "", self.SCALE)
