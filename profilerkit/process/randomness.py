"""The state of Python's random number generator, which belongs to the user."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from .restoring import restored

__all__ = ["keep_random_state"]


@contextmanager
def keep_random_state() -> Iterator[None]:
    """Restore the state of Python's random number generator at the end: rich draws random numbers for its styles."""
    with restored(partial(random.setstate, random.getstate())):
        yield
