"""The values of a jaxpr as the walk knows them: shapes, dtypes, and single numbers that are known before it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from profilerkit.costs import Cost, Shape
from profilerkit.trace.records import TensorInfo

__all__ = ["NO_WORK", "Value", "count_bytes"]

#: The cost of what only moves or names values.
NO_WORK = Cost(0, 0)


def count_bytes(shape: tuple[int, ...], dtype: Any) -> int:
    """Return the bytes of an array; 0 for what has no elements of a size, such as a token."""
    return math.prod(shape) * int(getattr(dtype, "itemsize", 0))


@dataclass(eq=False)
class Value:
    """A value of a jaxpr.

    Attributes:
        number: What the lifetimes of buffers know it by; views of one buffer have numbers of their own.
        shape: Its sizes.
        dtype: The name of its dtype: "float32".
        bytes: The bytes that it takes.
        constant: Whether it is a weight, or a number of the program: no caller gives it.
        scalar: The number that all of its elements are, where that is known before the function runs.
        summands: How many elements were added up to each of its own; 0 where it is no sum.
        unpadded: How many of its elements were there before it was padded; 0 where it was not.
        origin: Its `origins.Origin`, what its elements follow from, if a walk looks at values; None for an activation.
        input_origin: The origin of a value that follows from the inputs of the call alone, if those have values.
    """

    number: int
    shape: Shape
    dtype: str
    bytes: int
    constant: bool = False
    scalar: Any = None
    summands: int = 0
    unpadded: int = 0
    origin: Any = None
    input_origin: Any = None

    @classmethod
    def of(cls, number: int, aval: Any, **facts: Any) -> Value:
        """Return the value of an abstract value: an array, a reference to one, or a token."""
        shape = Shape(int(size) for size in getattr(aval, "shape", ()))
        dtype = getattr(aval, "dtype", None)
        return cls(number, shape, "token" if dtype is None else str(dtype), count_bytes(shape, dtype), **facts)

    @classmethod
    def literal(cls, number: int, aval: Any, value: Any) -> Value:
        """Return the value of a number that stands in the jaxpr."""
        return cls.of(number, aval, constant=True, scalar=np.asarray(value)[()] if np.ndim(value) == 0 else None)

    @property
    def info(self) -> TensorInfo:
        """Shape and dtype for reports."""
        return TensorInfo(tuple(self.shape), self.dtype)

    def forget(self) -> Value:
        """Return the same value, of which nothing is known: what is carried from one turn of a loop to the next."""
        return replace(self, scalar=None, summands=0, unpadded=0, origin=None, input_origin=None)
