"""A number of things as text."""

from __future__ import annotations

__all__ = ["format_count", "format_times", "name_several"]


def format_count(number: int, thing: str) -> str:
    """Return a number of things, whose name is given for one of them.

    >>> format_count(1, "layer"), format_count(2000, "layer")
    ('1 layer', '2,000 layers')
    """
    return f"{number:,} {name_several(thing, number)}"


def name_several(thing: str, number: int) -> str:
    """Return the name of one or several things: "layer" or "layers"."""
    return thing if number == 1 else f"{thing}s"


def format_times(number: int) -> str:
    """Return how often something happens: "once" or "3 times"."""
    return "once" if number == 1 else f"{number} times"
