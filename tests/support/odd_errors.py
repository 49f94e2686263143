"""Errors that are hard to handle, which models raise in the attacks of every backend; and what raises them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["Custom", "Outside", "Unspeakable", "make_raising", "recursion", "warn"]


class Custom(Exception):
    """One that cannot be made again from what it says."""

    def __init__(self, one: int, *, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("and saying so fails as well")

    __repr__ = __str__


class Outside(BaseException):
    """None of `Exception`'s."""


def make_raising(make: Callable[[], BaseException]) -> Callable[[Any, Any], Any]:
    """Return a fault that raises an error, a new one each time."""

    def fault(model: Any, value: Any) -> Any:
        raise make()

    return fault


def recursion(model: Any, value: Any) -> Any:
    return recursion(model, value)


def warn(model: Any, value: Any) -> None:
    """Warn where warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.warn("turned into an error", UserWarning, stacklevel=2)
