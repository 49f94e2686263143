"""The values of statuses by name: a dict in which text is written when it is first read."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from functools import partial
from typing import Any

from .status import StatusKey

__all__ = ["Values", "read_values"]


class Values(dict[str, Any]):
    """A dict some of whose values are made when they are first read, one way or another.

    In every other respect it is a dict: it compares, copies, pickles and becomes JSON as one with all values made.

    >>> values = Values({"macs": 16}, {"table": lambda: "a long text"})
    >>> "table" in values, len(values), values["table"]
    (True, 2, 'a long text')
    """

    def __init__(self, ready: Mapping[str, Any] = {}, pending: Mapping[str, Callable[[], Any]] = {}) -> None:
        super().__init__(ready)
        self._pending = dict(pending)
        for name in self._pending:
            self.setdefault(name)

    def _make(self, name: Any) -> None:
        make = self._pending.pop(name, None) if name in self._pending else None
        if make is not None:
            super().__setitem__(name, make())

    def _make_all(self) -> None:
        for name in list(self._pending):
            self._make(name)

    def __getitem__(self, name: str) -> Any:
        self._make(name)
        return super().__getitem__(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._pending.pop(name, None)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._pending.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names; that it is a method of its own makes ``dict(values)`` read the values here."""
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        self._make_all()
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    def __repr__(self) -> str:
        self._make_all()
        return super().__repr__()

    def __reduce__(self) -> Any:
        return dict, (list(self.items()),)

    __copy__ = copy = lambda self: Values(dict(self))

    def get(self, name: Any, default: Any = None) -> Any:
        """Return the value of a name, or the default."""
        self._make(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a name and return its value, or the default."""
        self._make(name)
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the last name and return it with its value."""
        self._make_all()
        return super().popitem()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Return names and values, all made."""
        self._make_all()
        return super().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return all values, made."""
        self._make_all()
        return super().values()


def read_values(statuses: Mapping[str, StatusKey]) -> Values:
    """Return the values of statuses by name; a text is written when it is first read."""
    ready = {name: None if status.ON_READING else status.value for name, status in statuses.items()}
    pending = {name: partial(getattr, status, "value") for name, status in statuses.items() if status.ON_READING}
    return Values(ready, pending)
