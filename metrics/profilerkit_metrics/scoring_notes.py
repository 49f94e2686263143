"""Notes on scores: part of the value in a report, a warning if an evaluation function is called directly."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from profilerkit import ProfilerKitWarning
from profilerkit.process.user_lines import find_stack_level

__all__ = ["note", "notes_of_scoring"]

#: The list that collects notes inside `notes_of_scoring`.
_notes: ContextVar[list[str] | None] = ContextVar("notes_of_scoring", default=None)


@contextmanager
def notes_of_scoring() -> Iterator[list[str]]:
    """Collect notes that would otherwise be warnings, for a report."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note(message: str) -> None:
    """Add a note to the report that is being made; warn if there is none."""
    collecting = _notes.get()
    if collecting is None:
        warnings.warn(message, ProfilerKitWarning, stacklevel=find_stack_level())
    elif message not in collecting:
        collecting.append(message)
