"""Moments as texts: texts of a store, which sort in the order of time, and short texts for people."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["read_clock", "shorten_moment"]


def read_clock() -> str:
    """Return the moment as ISO 8601 in UTC, with microseconds, so that texts sort in the order of time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def shorten_moment(moment: str, length: int = 19) -> str:
    """Return the short form of a moment: with 19 characters to the second, with 16 to the minute."""
    return moment[:length].replace("T", " ")
