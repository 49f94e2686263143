"""What a profiler remembers of a computed status, and the arguments that a function gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..process.cached import cached_property
from ..process.contents import contents_of
from ..trace.records import ModelTrace
from .function import ProfilerFunction
from .registry import PROVIDED
from .status import StatusKey

__all__ = ["Remembered", "Resolved"]


@dataclass(frozen=True)
class Remembered:
    """A computed status, the function that computed it, and the arguments it was computed from.

    ``arguments`` is None for a value that was loaded: what it was computed from is not known. Values that were
    measured together share their ``group``. ``fingerprint`` is the backend's, of the model at that time. ``contents``
    is what the arguments and the function contained then, since both may be changed in place.
    """

    status: StatusKey
    function: ProfilerFunction
    arguments: Mapping[str, Any] | None
    group: object | None = None
    fingerprint: object = None
    contents: object = None


@dataclass(frozen=True)
class Resolved:
    """The arguments of a function, with the statuses some of them come from."""

    values: Mapping[str, Any]
    statuses: Mapping[str, StatusKey]

    @cached_property
    def sources(self) -> dict[str, Any]:
        """What a remembered value is compared by: the status itself where an argument comes from one."""
        return {name: self.statuses.get(name, value) for name, value in self.values.items()}

    def contents(self, function: ProfilerFunction) -> object:
        """Return what the arguments of a function, and its own attributes, hold right now.

        Statuses never change, and of what every profiler has only the data may: the model has its fingerprint.
        """
        changeable = {
            name: value
            for name, value in self.values.items()
            if name not in self.statuses and (name not in PROVIDED or name == "data_splits")
        }
        return contents_of((changeable, getattr(function, "__dict__", None)))

    @cached_property
    def trace(self) -> ModelTrace | None:
        """The trace among the arguments, of several the one by that name; None where there is none."""
        traces = {name: value for name, value in self.values.items() if isinstance(value, ModelTrace)}
        return traces.get("trace", next(iter(traces.values()), None))
