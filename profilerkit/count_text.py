"""A number of things as text."""

from __future__ import annotations

__all__ = ["format_count"]


def format_count(number: int, thing: str) -> str:
    """Return a number of things, whose name is given for one of them.

    >>> format_count(1, "layer"), format_count(2000, "layer")
    ('1 layer', '2,000 layers')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
