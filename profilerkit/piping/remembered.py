"""What a profiler remembers of a computed status, and the arguments that a function gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..process.contents import list_contents
from ..trace.records import ModelTrace
from .function import PROVIDED, ProfilerFunction
from .status import StatusKey

__all__ = ["Remembered", "Resolved"]


@dataclass(frozen=True)
class Remembered:
    """A computed status, and what it was computed from.

    Attributes:
        status: The status.
        function: The function that computed it.
        arguments: The arguments of the function; None for a value that was loaded, of which they are not known.
        group: An object that values share which were measured together.
        fingerprint: The backend's fingerprint of the model at that time.
        contents: What the arguments and the function contained then, since both may be changed in place.
    """

    status: StatusKey
    function: ProfilerFunction
    arguments: Mapping[str, Any] | None
    group: object | None = None
    fingerprint: object = None
    contents: object = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the status alone: what it was computed from is told by identity, which ends with the process.

        A value that was loaded stays one.
        """
        return Remembered, (self.status, self.function, None if self.arguments is None else {})


@dataclass(frozen=True)
class Resolved:
    """The arguments of a function, with the statuses some of them come from."""

    values: Mapping[str, Any]
    statuses: Mapping[str, StatusKey]

    @property
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
        return list_contents((changeable, getattr(function, "__dict__", None)))

    @property
    def trace(self) -> ModelTrace | None:
        """The trace among the arguments, of several the one by that name; None where there is none."""
        traces = {name: value for name, value in self.values.items() if isinstance(value, ModelTrace)}
        return traces.get("trace", next(iter(traces.values()), None))
