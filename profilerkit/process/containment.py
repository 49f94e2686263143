"""Errors of plugin code: they are contained, and their messages name the plugin."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from ..error_text import describe_error, find_raising_line, list_causes
from ..errors import PluginFailedError, ProfilerKitError

__all__ = [
    "NamedPlugin",
    "collect_notes",
    "contained",
    "describe_origin",
    "plugin_error_text",
]


class NamedPlugin(Protocol):
    """The attributes of a plugin that are needed here."""

    @property
    def is_own(self) -> bool: ...
    @property
    def workaround(self) -> str: ...


_MARK = "_profilerkit_plugin"


class contained:
    """Contains the errors of a plugin's code: a context manager for each call of such code.

    `SystemExit` and `GeneratorExit` become a `PluginFailedError`, so that code that catches errors of plugins catches
    these too. An interruption is raised unchanged; if the plugin is of another package, a note names the plugin and
    says how to run without it. Other errors are raised unchanged, and marked for `describe_origin`; with ``wrapped``,
    errors of plugins of other packages become a `PluginFailedError`, unless they are errors of profilerkit already. If
    ``plugin`` is None, everything is raised unchanged.
    """

    def __init__(self, plugin: NamedPlugin | None, doing: str, *, wrapped: bool = False) -> None:
        self.plugin: NamedPlugin | None = plugin
        self.doing: str = doing
        self.wrapped: bool = wrapped

    def __enter__(self) -> None:
        """Enter the block: there is nothing to set up."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Convert or mark the error of the block."""
        if error is None or self.plugin is None:
            return
        if not isinstance(error, (Exception, SystemExit, GeneratorExit)):
            # It stops the call from outside: Ctrl-C, a cancelled task, an error of a timer or a signal.
            if not self.plugin.is_own:  # a plugin of ours needs no note: the user called it
                waiting = f"profilerkit was waiting for {self.doing} of plugin {self.plugin}"
                note = f"{waiting}; {self.plugin.workaround}"
                if note not in getattr(error, "__notes__", ()):
                    error.add_note(note)
        elif not isinstance(error, Exception) or (
            self.wrapped and not self.plugin.is_own and not isinstance(error, ProfilerKitError)
        ):
            raise PluginFailedError(
                f"{self.doing} of plugin {self.plugin} raised {plugin_error_text(error)}; {self.plugin.workaround}"
            ) from error
        elif not self.plugin.is_own and _MARK not in error.__dict__:
            error.__dict__[_MARK] = self.plugin


def plugin_error_text(error: BaseException) -> str:
    """Return an error as its type and message, and the file that cannot be imported if it was raised by an import.

    For an error that `contained` has converted, these are read from the original error.
    """
    if isinstance(error, PluginFailedError) and error.__cause__ is not None:
        error = error.__cause__
    where = find_raising_line(error, "<module>")
    return f"{describe_error(error)}{f' ({where})' if where else ''}"


def describe_origin(error: BaseException) -> str:
    """Return which plugin raised an error and how to run without it; an empty text if no plugin did."""
    for cause in list_causes(error, implicit=False):
        plugin = cause.__dict__.get(_MARK)
        if plugin is not None:
            return f"raised by plugin {plugin}; {plugin.workaround}"
    return ""


def collect_notes(error: BaseException) -> list[str]:
    """Return the notes of an error and of its causes, each once."""
    return list(dict.fromkeys(note for cause in list_causes(error) for note in getattr(cause, "__notes__", ())))
