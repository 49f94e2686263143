"""Progress of long work: a bar on standard error where that is a terminal, nothing where it is a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sized
from typing import TypeVar

__all__ = ["track"]

T = TypeVar("T")


def track(items: Iterable[T], description: str) -> Iterable[T]:
    """Return the items, with a progress bar while they are gone through on a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track as rich_track

    total = len(items) if isinstance(items, Sized) else None
    return rich_track(items, description, total=total, console=Console(stderr=True), transient=True)
