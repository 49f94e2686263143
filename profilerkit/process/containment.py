"""Code of plugins, while it runs: what it raises stays with it, and who waits for it learns whose it is."""

from __future__ import annotations

import sys
import weakref
from types import TracebackType
from typing import Protocol

from ..errors import PluginFailedError, ProfilerKitError

__all__ = ["blamed", "contained", "giver_of", "notes_of", "remember_giver", "said_of"]


class Blamed(Protocol):
    """What is asked of a plugin here: whose it is, and how to do without it."""

    @property
    def is_own(self) -> bool: ...
    @property
    def way_out(self) -> str: ...


_MARK = "_profilerkit_plugin"
#: By the id of a function of a metric: the plugin of another package that offered it.
_givers: dict[int, Blamed] = {}


class contained:
    """Holds what a plugin's code raises: use it in a ``with`` block around each call of such code.

    Anything that is no `Exception` (`SystemExit`, `GeneratorExit`) becomes a `PluginFailedError`, so that whoever goes
    on after errors of plugins goes on after these too. `KeyboardInterrupt` goes through, with a note that names the
    plugin and says how to do without it. Other errors go through as they are, marked for `blamed`; with ``wrapped``
    those of plugins of other packages become a `PluginFailedError`, unless they are errors of profilerkit already.
    Without a plugin nothing is held.
    """

    def __init__(self, plugin: Blamed | None, doing: str, *, wrapped: bool = False) -> None:
        self.plugin, self.doing, self.wrapped = plugin, doing, wrapped

    def __enter__(self) -> None:
        """Begin; nothing is to be done."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Hold what was raised."""
        if error is None or self.plugin is None:
            return
        if isinstance(error, KeyboardInterrupt):
            _add_note(error, f"profilerkit was waiting for {self.doing} of plugin {self.plugin}; {self.plugin.way_out}")
        elif not isinstance(error, Exception) or (self.wrapped and self._is_foreign(error)):
            raise PluginFailedError(
                f"{self.doing} of plugin {self.plugin} raised {said_of(error)}; {self.plugin.way_out}"
            ) from error
        elif not self.plugin.is_own and not hasattr(error, _MARK):
            error.__dict__[_MARK] = self.plugin

    def _is_foreign(self, error: Exception) -> bool:
        return self.plugin is not None and not self.plugin.is_own and not isinstance(error, ProfilerKitError)


def said_of(error: BaseException) -> str:
    """Return an error as its type and message; of one that `contained` turned into another, the first."""
    if isinstance(error, PluginFailedError) and error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def blamed(error: BaseException) -> str:
    """Return whose plugin raised an error, and how to do without it; nothing where it was no plugin's."""
    seen: BaseException | None = error
    while seen is not None:
        plugin = seen.__dict__.get(_MARK)
        if plugin is not None:
            return f"raised by plugin {plugin}; {plugin.way_out}"
        seen = seen.__cause__
    return ""


def notes_of(error: BaseException) -> list[str]:
    """Return the notes of an interruption, and of the one behind it."""
    notes: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        notes += getattr(seen, "__notes__", ())
        seen = seen.__cause__ or seen.__context__
    return list(dict.fromkeys(notes))


def remember_giver(function: object, plugin: Blamed) -> None:
    """Keep which plugin of another package a function is from, for as long as there is the function."""
    if plugin.is_own or id(function) in _givers:
        return
    try:
        weakref.finalize(function, _givers.pop, id(function), None).atexit = False
    except TypeError:  # a class with __slots__, whose instances cannot be watched
        return
    _givers[id(function)] = plugin


def giver_of(function: object) -> Blamed | None:
    """Return the plugin of another package that a function comes from; None for all others."""
    return _givers.get(id(function))


def _add_note(error: BaseException, note: str) -> None:
    """Add a note to an error that is shown with it; Python 3.10 has none, so that it is written to standard error."""
    if note in getattr(error, "__notes__", ()):
        return
    add = getattr(error, "add_note", None)
    if add is not None:
        add(note)
    else:
        sys.stderr.write(f"{note}\n")
