"""Wrong values for any argument, and what a call may do with them: work, or raise an error that says what was wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from profilerkit import IncompleteStatusError, ProfilerKitError
from profilerkit.error_text import shown

__all__ = ["WRONG", "complaint", "nest"]


class Anything:
    """A class that is nothing special."""


def nest(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


#: By the name of the test, a function that makes the value: what is changed by a call is no other call's.
WRONG: Mapping[str, Callable[[], Any]] = {
    "none": lambda: None,
    "true": lambda: True,
    "three": lambda: 3,
    "negative": lambda: -1,
    "fraction": lambda: 2.5,
    "nan": lambda: float("nan"),
    "infinite": lambda: float("inf"),
    "huge": lambda: 10**400,
    "text": lambda: "x",
    "empty text": lambda: "",
    "bytes": lambda: b"x",
    "list": list,
    "list of objects": lambda: [object()],
    "dict": dict,
    "dict of objects": lambda: {object(): object()},
    "object": object,
    "class": lambda: Anything,
    "function": lambda: lambda *args, **kwargs: 1,
    "nested": lambda: nest(5000),
}

#: Errors of ours, and Python's own for arguments.
SAID = (ProfilerKitError, TypeError, ValueError, KeyError)


def complaint(call: Callable[[], Any], name: str, value: Any) -> str:
    """Return what is wrong with how a call takes a wrong value; nothing where it works, or says what was wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call()
            return "every metric of the report failed" if all_failed(result) else ""
    except SAID as error:
        return find_flaw(error, name, value)
    except Exception as error:  # anything else comes from the inside
        return f"raised {type(error).__name__}: {str(error)[:200]}"


def find_flaw(error: Exception, name: str, value: Any) -> str:
    """Return why a message is of no help: it names neither the argument nor its value, or it is endless."""
    message = str(error)
    if name == "strict" and (isinstance(error, IncompleteStatusError) or "nothing that is requested takes" in message):
        return ""  # what it is for: the other arguments of the calls are those of all metrics
    if len(message) > 2000:
        return f"the message has {len(message)} characters: {message[:100]}"
    if any(word in message for word in words(name, value)):
        return ""
    return f"{type(error).__name__} names neither {name!r} nor {shown(value)}: {message[:200]}"


def words(name: str, value: Any) -> Iterator[str]:
    """Yield what names an argument or its value: itself, or for values that are no numbers and no text their type."""
    yield name
    yield name.replace("_", " ")
    yield shown(value)
    if isinstance(value, str) and value:
        yield from (f" {value}: ", f" {value} ")  # a path, and the name of a layer
    if not isinstance(value, (str, bytes)):
        yield getattr(value, "__name__", type(value).__name__)
    if isinstance(value, list):
        yield from (shown(tuple(value)), "nested too deep")
    for inside in value if isinstance(value, (list, dict)) else ():
        yield type(inside).__name__


def all_failed(result: Any) -> bool:
    """Say whether a result is a report that has metrics, none of which has a value."""
    statuses: Any = getattr(result, "statuses", None)
    return bool(statuses) and all(record.value is None for record in statuses.values())
