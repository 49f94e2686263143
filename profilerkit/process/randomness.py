"""Python's random numbers, which are the user's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["untouched_random"]


@contextmanager
def untouched_random() -> Iterator[None]:
    """Put the state of Python's random numbers back at the end: rich draws some, for its styles."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)
