"""The calls of a profiler's functions: the arguments of each, and which functions are at work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..process.contents import list_contents
from ..trace.records import ModelTrace
from .function import PROVIDED
from .registry import Binding
from .status import StatusKey

__all__ = ["Call", "Calls"]

#: The arguments that every profiler provides and that may be changed in place; the model has its fingerprint.
_DATA = ("data_splits", "input_source")


@dataclass
class Call:
    """One call of a function, with all that its value depends on.

    Attributes:
        binding: The function, with the status key that it is called for.
        arguments: The arguments by name, as the function gets them.
        statuses: The statuses whose values are arguments, by the names of these.
        requested: The statuses that the function has requested from its profiler while it was at work.
    """

    binding: Binding
    arguments: dict[str, Any] = field(default_factory=dict)
    statuses: dict[str, StatusKey] = field(default_factory=dict)
    requested: list[StatusKey] = field(default_factory=list)

    @property
    def origins(self) -> dict[str, Any]:
        """The arguments, with statuses in place of their values."""
        return {**self.arguments, **self.statuses}

    @property
    def traces(self) -> list[ModelTrace]:
        """The traces among the arguments."""
        return [value for value in self.arguments.values() if isinstance(value, ModelTrace)]

    def map_statuses(self, change: Callable[[StatusKey], StatusKey]) -> Call:
        """Return the call with what ``change`` returns for each status, and its value."""
        statuses = {name: change(status) for name, status in self.statuses.items()}
        values = {name: status.value for name, status in statuses.items()}
        requested = [change(status) for status in self.requested]
        return Call(self.binding, {**self.arguments, **values}, statuses, requested)

    def list_contents(self) -> object:
        """Return the present contents of all that may be changed in place: arguments, and the function's attributes.

        Statuses never change.
        """
        changeable = {
            name: value
            for name, value in self.arguments.items()
            if name not in self.statuses and (name not in PROVIDED or name in _DATA)
        }
        return list_contents((changeable, getattr(self.binding.function, "__dict__", None)))


class Calls(threading.local):
    """The calls under way in this thread, also in requests that functions make; the outermost first.

    A copy of a profiler begins with none.
    """

    def __init__(self) -> None:
        self._calls: list[Call] = []

    @property
    def are_under_way(self) -> bool:
        """Whether a function is at work."""
        return bool(self._calls)

    def find_circle(self) -> str:
        """Return the status keys of the calls, from an earlier call of the last key on; empty for none."""
        names = [call.binding.key.NAME for call in self._calls]
        first = names.index(names[-1])
        return " -> ".join(names[first:]) if first < len(names) - 1 else ""

    @contextmanager
    def inside(self, call: Call) -> Iterator[None]:
        """Have a function at work inside the block: statuses that it requests from its profiler are noted."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.pop()

    def note_request(self, status: StatusKey) -> StatusKey:
        """Note a computed status that a function has requested from its profiler, and return it."""
        if self._calls and status.is_computed:
            self._calls[-1].requested.append(status)
        return status

    def __reduce__(self) -> tuple[type[Calls], tuple[()]]:
        return Calls, ()
