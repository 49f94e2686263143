"""Texts of models, plugins and files, made harmless for a terminal and for one line: they may hold any character."""

from __future__ import annotations

import re

__all__ = ["on_terminal", "visible"]

#: Characters that a terminal interprets, and characters that change the direction of text.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_COLOR = re.compile("\x1b\\[[0-9;]*m")


def visible(text: str) -> str:
    r"""Return a text with its line breaks and control characters written out: a name may hold any, a cell is one line.

    >>> visible("a\nb")
    'a\\nb'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def on_terminal(text: str, colored: bool = False) -> str:
    r"""Return lines without control characters of terminals, except line breaks, and colors if they are ours.

    Removed characters are written as JSON escapes, so that JSON text keeps its meaning.

    >>> on_terminal("a\x1b[2Jb\nc")
    'a\\u001b[2Jb\nc'
    """
    if colored:
        marks = _COLOR.findall(text)
        plain = (on_terminal(part) for part in _COLOR.split(text))
        return "".join(part for pair in zip(plain, [*marks, ""], strict=True) for part in pair)
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
