"""What a framework's error says, in one line: without colours, dumps of values and the frames around it."""

from __future__ import annotations

import re
import reprlib
from typing import Any

__all__ = ["error_line", "shown"]

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: Names that TensorFlow gives to the nodes of a graph, and the end of what an eager operator says.
_NODES = re.compile(
    r"\{\{function_node [^}]*\}\}\s*|\s*\[\[\{\{node [^}]*\}\}\]\]|(?<=\))\{\{node [^}]*\}\}|\s*\[Op:\w+\](?: name:)?"
)
_NODE = re.compile(r"\{\{node ([^}]*)\}\}")
_VALUES = re.compile(r"\[\[.*\]\]")
_WRAPPED = re.compile(r"(?:\w+: )?Exception encountered when calling ")
#: Lines from which on a message only lists what it was called with, or where the graph was made.
_LISTS = re.compile(r"(?:Call a|A)rguments received by |Stack trace for op definition|The op is created at")
#: What stands before the message where a graph fails while it runs.
_ORIGIN = re.compile(r"Graph execution error:|Detected at node .* defined at|File \"|<stack traces unavailable>")


def error_line(error: BaseException) -> str:
    """Return what an error says in one line of at most 400 characters, empty where it says nothing.

    What Keras and autograph wrap around a message is left out: that a call raised, its arguments with their values, and
    the frames of the user's code; so are the names of the nodes of TensorFlow's graphs.
    """
    text = _NODES.sub("", _COLOURS.sub("", str(error)))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    while lines:
        kept = _unwrapped(lines)
        if kept == lines:
            break
        lines = kept
    line = _VALUES.sub("[...]", _NODE.sub(r"\1", " ".join(lines))).removeprefix(f"{type(error).__name__}: ")
    return line if len(line) <= 400 else f"{line[:397]}..."


def _unwrapped(lines: list[str]) -> list[str]:
    """Return the lines without the outermost thing wrapped around them; never none."""
    end = next((place for place, line in enumerate(lines) if place and _LISTS.match(line)), len(lines))
    lines = lines[:end]
    if _WRAPPED.match(lines[0]) and len(lines) > 1:
        return lines[1:]
    if lines[0].startswith("Graph execution error:"):
        return [line for line in lines if not _ORIGIN.match(line)] or lines
    if lines[0].endswith("in user code:") and len(lines) > 1:
        return _after_frames(lines)
    return lines


def _after_frames(lines: list[str]) -> list[str]:
    """Return what follows the frames, each of which is a line with the file and, most often, one with the code."""
    place = 1
    while place < len(lines) - 1 and lines[place].startswith('File "'):
        place += 1
        if place < len(lines) - 1 and not lines[place].startswith('File "'):
            place += 1
    return lines[place:]


class _Brief(reprlib.Repr):
    """Writes any value in a few words, however long, deeply nested or ill-behaved it is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxlist = self.maxtuple = self.maxdict = 4
        self.maxstring = self.maxother = self.maxlong = 80


_BRIEF = _Brief()


def shown(value: Any) -> str:
    """Return a value as a message quotes it: on one line, and short; a tensor as its type and shape.

    >>> shown([[["x"] * 1000]])
    "[[['x', 'x', 'x', 'x', ...]]]"
    """
    try:
        shape = tuple(value.shape) if hasattr(value, "shape") and not isinstance(value, type) else ()
        text = f"{type(value).__name__}{shape}" if shape else _BRIEF.repr(value)
    except Exception:  # whatever the value does when it is looked at
        text = f"<{type(value).__name__} object>"
    return " ".join(text.split())
