"""Sampling by another's word: in some processes every measurement waits for its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from .run import Run

__all__ = ["Conductor", "find_conductor", "use_conductor"]

#: Given a run and how to sample it, returns its `profilerkit.Measurement`.
Conductor: TypeAlias = "Callable[[Run, Any], Any]"

_conductor: ContextVar[Conductor | None] = ContextVar("conductor", default=None)


def find_conductor() -> Conductor | None:
    """Return what samples a single call in place of `sampling.measure_interleaved`; None if nothing does."""
    return _conductor.get()


@contextmanager
def use_conductor(conduct: Conductor) -> Iterator[None]:
    """Let every measurement of a single call be taken by another function: one that waits for its turn each time."""
    token = _conductor.set(conduct)
    try:
        yield
    finally:
        _conductor.reset(token)
