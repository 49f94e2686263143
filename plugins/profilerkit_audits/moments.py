"""Moments as texts: those of a store, which sort as moments do, and short ones for people."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["read_clock", "shorten_moment"]


def read_clock() -> str:
    """Return the moment as ISO 8601 in UTC, with microseconds, so that texts sort as moments do."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def shorten_moment(moment: str, length: int = 19) -> str:
    """Return a moment as it is written in short: with 19 characters to the second, with 16 to the minute."""
    return moment[:length].replace("T", " ")
