"""A number of things as text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["format_count", "format_times", "list_some", "name_several"]


def format_count(number: int, thing: str) -> str:
    """Return a number of things, whose name is given for one of them.

    >>> format_count(1, "layer"), format_count(2000, "layer")
    ('1 layer', '2,000 layers')
    """
    return f"{number:,} {name_several(thing, number)}"


def name_several(thing: str, number: int) -> str:
    """Return the name of one or several things: "layer" or "layers", "process" or "processes"."""
    return thing if number == 1 else f"{thing}es" if thing.endswith("ss") else f"{thing}s"


def list_some(texts: Sequence[str], most: int) -> str:
    """Return texts in one line: the first ``most`` of them, and how many more there are if that is more than one.

    >>> list_some("abc", 2), list_some("abcd", 2)
    ('a, b, c', 'a, b and 2 more')
    """
    if len(texts) <= most + 1:
        return ", ".join(texts)
    return f"{', '.join(texts[:most])} and {len(texts) - most:,} more"


def format_times(number: int) -> str:
    """Return how often something happens: "once" or "3 times"."""
    return "once" if number == 1 else f"{number} times"
