"""Values that code changes in place and that hold no other objects: arrays, bytes, generators of random numbers.

Python's own generator, which belongs to the user, is one of them.

numpy is not imported for them: a model without it has none of its arrays.
"""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

from .restoring import Step, restored

__all__ = ["keep_random_state", "list_generators", "list_state_kinds", "note_inner_state"]

_BUFFERS = (bytearray, array)
#: Larger arrays and buffers are not copied.
_MOST_BYTES = 1 << 20


def list_state_kinds() -> tuple[type, ...]:
    """Return the classes of arrays, buffers of bytes and generators of random numbers, of numpy as far as imported."""
    return (*_BUFFERS, Random, *_list_arrays(), *list_generators())


def note_inner_state(value: Any) -> Step | None:
    """Return a function that restores an array, a buffer or the state of a generator; None for other values.

    None too for an array that cannot be written to, for more than 1 MiB, and for a generator without a state.
    """
    if isinstance(value, Random):
        return _note_random(value)
    if isinstance(value, _BUFFERS):
        return _note_buffer(value)
    if isinstance(value, _list_arrays()):
        return _note_array(value)
    return _note_generator(value) if isinstance(value, list_generators()) else None


def _list_arrays() -> tuple[type, ...]:
    """Return the class of numpy's arrays, if numpy is imported."""
    numpy = sys.modules.get("numpy")
    return () if numpy is None else (numpy.ndarray,)


def list_generators() -> tuple[type, ...]:
    """Return the classes of numpy's generators: numpy imports them at their first use."""
    numpy = sys.modules.get("numpy.random")
    return () if numpy is None else (numpy.Generator, numpy.RandomState, numpy.BitGenerator)


def _note_buffer(value: Any) -> Step | None:
    """Note the items of a buffer by the methods of its base class: a subclass's methods may refuse, or do more."""
    kind: Any = bytearray if isinstance(value, bytearray) else array
    with memoryview(value) as view:
        if view.nbytes > _MOST_BYTES:
            return None
    return partial(kind.__setitem__, value, slice(None), kind.__getitem__(value, slice(None)))


def _note_array(numbers: Any) -> Step | None:
    """Note the numbers of an array of numpy's, and its shape; of a subclass by the methods of its base class."""
    if not numbers.flags.writeable or numbers.nbytes > _MOST_BYTES:
        return None
    numpy: Any = sys.modules["numpy"]
    content = numpy.array(numbers)

    def restore() -> None:
        numbers.setflags(write=True)
        if numbers.shape != content.shape:
            numbers.resize(content.shape, refcheck=False)
        numpy.ndarray.__setitem__(numbers, ..., content)

    return restore


def _note_random(value: Random) -> Step | None:
    """Note the state of a generator of Python's; `random.SystemRandom` has none."""
    try:
        return partial(value.setstate, value.getstate())
    except NotImplementedError:
        return None


def _note_generator(value: Any) -> Step:
    """Note the state of a generator of numpy's."""
    if hasattr(value, "get_state"):  # a RandomState
        return partial(value.set_state, value.get_state(legacy=False))  # the tuple has no room for other generators
    numbers = getattr(value, "bit_generator", value)
    return partial(setattr, numbers, "state", numbers.state)


@contextmanager
def keep_random_state() -> Iterator[None]:
    """Restore the state of Python's random number generator at the end: rich draws random numbers for its styles."""
    with restored(partial(random.setstate, random.getstate())):
        yield
