"""What is to be said of a score: a note of the value in a report, and a warning where a function is called directly."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from profilerkit import ProfilerKitWarning

__all__ = ["note", "notes_of_scoring"]

#: Where notes of an evaluation go while `notes_of_scoring` is entered.
_notes: ContextVar[list[str] | None] = ContextVar("notes_of_scoring", default=None)


@contextmanager
def notes_of_scoring() -> Iterator[list[str]]:
    """Collect what would else be warned of, for a report that keeps it as the value's note."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note(message: str) -> None:
    """Keep a note for the report that is made, or warn."""
    collecting = _notes.get()
    if collecting is None:
        warnings.warn(message, ProfilerKitWarning, stacklevel=7)
    elif message not in collecting:
        collecting.append(message)
