"""Checks of arguments: each stands beside its parameter, and describes the valid values.

A check is called with the name and the value of an argument, before anything runs. It returns the plain Python value,
for a numpy scalar or a tensor without dimensions too. A value that is not expected raises `ArgumentError`.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError

__all__ = [
    "BATCH_SIZE",
    "BATCH_SIZES",
    "COLUMNS",
    "DEPTH",
    "FLAG",
    "LEVEL",
    "MODEL_NAME",
    "MOST",
    "NAMES",
    "ONE_BATCH_SIZE",
    "PATH",
    "TOP",
    "Check",
    "at_least",
    "between",
    "inside",
    "instance",
    "mapping",
    "one_number",
    "positive",
    "several",
    "text",
    "texts",
    "to_call",
]

#: The largest whole number that is accepted: frameworks count samples and threads in 32 bits.
MOST = 2**31 - 1


@dataclass(frozen=True)
class Check:
    """The valid values of an argument.

    >>> at_least(1)("passes", 8)
    8
    >>> at_least(1).or_none()("passes", None)

    Attributes:
        expected: A valid value in words that follow "give" in an error message.
        read: Returns the plain value; any exception means that the value is not valid.
        optional: Whether None is valid too; see `or_none`.
    """

    expected: str
    read: Callable[[Any], Any]
    optional: bool = False

    def __call__(self, name: str, value: Any) -> Any:
        """Return the plain value of an argument; raises `ArgumentError` for one that is not valid."""
        if value is None and self.optional:
            return None
        try:
            return self.read(value)
        except (ArgumentError, MemoryError):
            raise
        except _TooLargeError:
            raise ArgumentError(f"{name}={shown(value)}: give at most {MOST:,}") from None
        except Exception:  # whatever the value is and does
            raise ArgumentError(f"{name}={shown(value)}: give {self.expected}") from None

    def or_none(self) -> Check:
        """Return the check for a parameter that may be None too."""
        return replace(self, optional=True)


class _TooLargeError(ValueError):
    """A whole number above `MOST`."""


# Readers of checks: each raises ValueError for a value of another kind ------------------------------------------------


def one_number(value: Any) -> Any:
    """Return a single number as it is: a Python, numpy or tensor one.

    A Boolean, which Python takes for 0 or 1, is none, nor is a complex number, of which numpy drops a part.
    """
    is_other = _is_boolean(value) or _has_dtype(value, "complex")
    if isinstance(value, (str, bytes, bytearray)) or is_other or _has_dimensions(value):
        raise ValueError
    return value


def several(value: Any) -> list[Any]:
    """Return the elements of a collection; a text, a mapping or a class (an enum is iterable) is none."""
    if isinstance(value, (str, bytes, bytearray, Mapping, type)):
        raise ValueError
    return list(value)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or _has_dtype(value, "bool")


def _has_dtype(value: Any, kind: str) -> bool:
    """Return whether a value has a dtype of a kind, by the dtype's name: "bool", "torch.bool", "complex64"."""
    return kind in str(getattr(value, "dtype", ""))


def _has_dimensions(value: Any) -> bool:
    return bool(tuple(getattr(value, "shape", ())))


def _read_flag(value: Any) -> bool:
    if type(value) is bool:
        return value
    if not _is_boolean(value) or _has_dimensions(value):
        raise ValueError
    return bool(value)


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _read_texts(value: Any) -> list[str]:
    return [_read_text(item) for item in several(value)]


def _read_names(value: Any) -> list[str]:
    if isinstance(value, (set, frozenset)):  # its order is not that of the models
        raise ValueError
    return _read_texts(value)


def _read_path(value: Any) -> Any:
    """Return a path as it was given."""
    name = os.fspath(value)
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError
    return value


def _read_level(value: Any) -> int:
    """Return a level of logging as its number."""
    import logging  # slow to import

    level = logging.getLevelName(value.upper()) if isinstance(value, str) else None
    if not isinstance(level, int):
        raise ValueError
    return level


# Checks that are made for a parameter ---------------------------------------------------------------------------------


def at_least(least: int, expected: str | None = None) -> Check:
    """Return the check of a whole number."""

    def read(value: Any) -> int:
        number = operator.index(one_number(value))
        if number > MOST:
            raise _TooLargeError
        if number < least:
            raise ValueError
        return number

    return Check(expected or f"a whole number from {least}", read)


def positive(example: str, what: str = "a number") -> Check:
    """Return the check of a number above zero."""
    return _number(f"{what} above zero, such as {example}", lambda number: number > 0)


def between(low: float, high: float, expected: str) -> Check:
    """Return the check of a number from one bound to the other."""
    return _number(expected, lambda number: low <= number <= high)


def inside(low: float, high: float, expected: str) -> Check:
    """Return the check of a number between two bounds, neither of which is valid itself."""
    return _number(expected, lambda number: low < number < high)


def _number(expected: str, fits: Callable[[float], bool]) -> Check:
    def read(value: Any) -> float:
        number = float(one_number(value))
        if not (math.isfinite(number) and fits(number)):
            raise ValueError
        return value if type(value) in (int, float) else number

    return Check(expected, read)


def text(expected: str) -> Check:
    """Return the check of a text that is not empty."""
    return Check(expected, _read_text)


def texts(expected: str, start: str = "") -> Check:
    """Return the check of several texts that are not empty and begin with ``start``."""

    def read(value: Any) -> list[str]:
        items = _read_texts(value)
        if not all(item.startswith(start) for item in items):
            raise ValueError
        return items

    return Check(expected, read)


def to_call(expected: str) -> Check:
    """Return the check of a function."""

    def read(value: Any) -> Any:
        if not callable(value):
            raise ValueError
        return value

    return Check(expected, read)


def mapping(expected: str) -> Check:
    """Return the check of values by name."""
    return instance(Mapping, expected)


def instance(kind: type | tuple[type, ...], expected: str) -> Check:
    """Return the check of an object of a class."""

    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError
        return value

    return Check(expected, read)


# Checks of parameters that several functions have ---------------------------------------------------------------------

FLAG = Check("True or False", _read_flag)
PATH = Check("the path of a file", _read_path)
LEVEL = Check("a level of logging: 'debug', 'info', 'warning' or 'error'", _read_level)

#: The name of a model in a report.
MODEL_NAME = text("a text that is not empty").or_none()
NAMES = Check("a list of texts, one for each model", _read_names).or_none()

#: The parameters that tables, renderers and figures of layers share.
TOP = at_least(1, "a whole number from 1, or None for all layers").or_none()
DEPTH = at_least(-1, "a whole number from 0, -1 for the innermost layers, or None for any depth").or_none()
COLUMNS = Check(
    "the name of a column, such as 'params', or several",
    lambda value: value if isinstance(value, str) else tuple(_read_texts(value)),
).or_none()

ONE_BATCH_SIZE = at_least(1)


def _read_batch_sizes(value: Any) -> tuple[int, ...]:
    """Return batch sizes, each once."""
    sizes = tuple(dict.fromkeys(ONE_BATCH_SIZE("batch_size", size) for size in several(value)))
    if not sizes:
        raise ValueError
    return sizes


def _read_batch_size(value: Any) -> int | tuple[int, ...]:
    """Return one batch size, or several."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)) or getattr(value, "shape", None) == ():
        size: int = ONE_BATCH_SIZE("batch_size", value)
        return size
    sizes = several(value)
    if not sizes:
        raise ArgumentError(
            f"batch_size is empty: give {ONE_BATCH_SIZE.expected}, or several of them: batch_size=(1, 8, 32)"
        )
    return _read_batch_sizes(sizes)


BATCH_SIZES = Check("whole numbers from 1: batch_sizes=(1, 8, 32)", _read_batch_sizes)
BATCH_SIZE = Check("a whole number from 1, or several: batch_size=(1, 8, 32)", _read_batch_size).or_none()
