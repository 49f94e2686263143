"""Durations as text for people."""

from __future__ import annotations

__all__ = ["duration"]


def duration(seconds: float) -> str:
    """Return seconds as people read them.

    >>> duration(42.4), duration(90), duration(7384)
    ('42 s', '1:30 min', '2:03 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"
