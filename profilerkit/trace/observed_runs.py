"""What was observed of a run of the model, to notice a model that takes another path when it is run.

A backend supplies an `ObservedRun` wherever a run happens anyway; `contradictions` compares it with the trace.
None is no observation, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["MeasuredPeak", "ObservedRun", "TimedLayers", "Witnessed"]


@dataclass(frozen=True)
class ObservedRun:
    """The work that was observed in one forward pass on real tensors.

    Attributes:
        name: The run in words: "the first run".
        macs: The multiply-accumulates of all its operators, each by its own formula; None if some were not observed.
        calls: The number of calls of each layer, by its path; None if calls were not observed.
    """

    name: str
    macs: int | None = None
    calls: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Witnessed:
    """The result of a function that ran the model for a value: the value, and the observed runs.

    The runs are compared with the static trace.
    """

    value: Any
    runs: tuple[ObservedRun, ...]


class TimedLayers(list[Any]):
    """The times of layers, with the observed runs: ``runs``."""

    def __init__(self, times: Iterable[Any] = (), runs: Iterable[ObservedRun] = ()) -> None:
        """Hold the times with their runs."""
        super().__init__(times)
        self.runs: tuple[ObservedRun, ...] = tuple(runs)


class MeasuredPeak(int):
    """The bytes of a measured peak, with the observed runs: ``runs``."""

    runs: tuple[ObservedRun, ...]

    def __new__(cls, peak: int, runs: Iterable[ObservedRun] = ()) -> MeasuredPeak:
        """Return the number with its runs."""
        measured = super().__new__(cls, peak)
        measured.runs = tuple(runs)
        return measured
