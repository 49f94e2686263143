"""The message of a framework's error in one line: without colors, printed values and stack frames."""

from __future__ import annotations

import re
import reprlib
from traceback import walk_tb
from typing import Any

from .foreign_text import visible

__all__ = ["describe_error", "error_line", "find_raising_line", "list_causes", "read_message", "shown"]

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
#: Names that TensorFlow gives to the nodes of a graph, and the end of an eager operator's message.
_NODES = re.compile(
    r"\{\{function_node [^}]*\}\}\s*|\s*\[\[\{\{node [^}]*\}\}\]\]|(?<=\))\{\{node [^}]*\}\}|\s*\[Op:\w+\](?: name:)?"
)
_NODE = re.compile(r"\{\{node ([^}]*)\}\}")
_VALUES = re.compile(r"\[\[.*\]\]")
_WRAPPED = re.compile(r"(?:\w+: )?Exception encountered when calling ")
#: A line after which a message only lists the arguments of the call, or where the graph was built.
_LISTS = re.compile(r"(?:Call a|A)rguments received by |Stack trace for op definition|The op is created at")
#: Lines before the message of a graph that failed while it ran.
_ORIGIN = re.compile(r"Graph execution error:|Detected at node .* defined at|File \"|<stack traces unavailable>")


def error_line(error: BaseException) -> str:
    """Return the message of an error in one line of at most 400 characters; an empty text if it has no message.

    The additions of Keras and AutoGraph to a message are left out: that a call raised, its arguments with their values,
    and the stack frames of the user's code. The node names of TensorFlow's graphs are left out too.
    """
    text = _NODES.sub("", _COLORS.sub("", read_message(error)))
    lines = _unwrap([line.strip() for line in text.splitlines() if line.strip()])
    line = _VALUES.sub("[...]", _NODE.sub(r"\1", " ".join(lines))).removeprefix(f"{type(error).__name__}: ")
    line = visible(line)
    return line if len(line) <= 400 else f"{line[:397]}..."


def read_message(error: BaseException) -> str:
    """Return the message of an error; an empty text if it has none, or if its own code, which writes it, raises."""
    try:
        return str(error)
    except MemoryError:
        raise
    except Exception:
        return ""


def describe_error(error: BaseException) -> str:
    """Return an error as its type and message; its type alone if it has no message.

    >>> describe_error(KeyError("x")), describe_error(OSError())
    ("KeyError: 'x'", 'OSError')
    """
    message = read_message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _unwrap(lines: list[str]) -> list[str]:
    """Return the lines without the texts that frameworks added around them; at least one line remains."""
    if not lines:
        return lines
    end = next((index for index, line in enumerate(lines) if index and _LISTS.match(line)), len(lines))
    lines = lines[:end]
    if _WRAPPED.match(lines[0]) and len(lines) > 1:
        return _unwrap(lines[1:])
    if lines[0].startswith("Graph execution error:"):
        return _unwrap([line for line in lines if not _ORIGIN.match(line)]) or lines
    if lines[0].endswith("in user code:") and len(lines) > 1:
        return _unwrap(_after_frames(lines))
    return lines


def _after_frames(lines: list[str]) -> list[str]:
    """Return the lines after the stack frames; a frame is a line with the file and, most often, a line of code."""
    index = 1
    while index < len(lines) - 1 and lines[index].startswith('File "'):
        index += 1
        if index < len(lines) - 1 and not lines[index].startswith('File "'):
            index += 1
    return lines[index:]


#: The short ``repr`` of any value, however long or deeply nested it is.
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel = 3
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxdict = 4
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 80


def shown(value: Any) -> str:
    """Return a value as an error message shows it: short, in one line; a tensor as its type and shape.

    >>> shown([[["x"] * 1000]])
    "[[['x', 'x', 'x', 'x', ...]]]"
    """
    try:
        shape = tuple(value.shape) if hasattr(value, "shape") and not isinstance(value, type) else ()
        text = f"{type(value).__name__}{shape}" if shape else _BRIEF.repr(value)
    except MemoryError:
        raise
    except Exception:  # the value's own code raised
        text = f"<{type(value).__name__} object>"
    return " ".join(text.split())


def find_raising_line(error: BaseException, code: str = "") -> str:
    """Return where Python code raised an error, ``line 3 of my_package.plugin``; an empty text if it was not raised.

    With a name, it is the innermost line in code of that name: in "<module>", that of the import which the error ended.
    """
    lines = [
        f"line {line} of {frame.f_globals.get('__name__')}"
        for frame, line in walk_tb(error.__traceback__)
        if code in ("", frame.f_code.co_name)
    ]
    return lines[-1] if lines else ""


def list_causes(error: BaseException | None, *, implicit: bool = True) -> list[BaseException]:
    """Return an error and the errors that it was raised from, each once: ``raise error from error`` makes a circle.

    With ``implicit``, also the errors in whose handling they were raised; JAX makes circles of the two.

    >>> first, second = ValueError("first"), ValueError("second")
    >>> first.__cause__, second.__context__ = second, first
    >>> list_causes(first) == [first, second]
    True
    """
    visited: dict[int, BaseException] = {}
    waiting = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in visited:
            visited[id(link)] = link
            waiting += [link.__context__, link.__cause__] if implicit else [link.__cause__]
    return list(visited.values())
