"""The values of a graph in the walk: dtype, sizes, and the elements that are known before the model runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from profilerkit.costs import Shape
from profilerkit.process.cached import cached_property
from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import TensorInfo

from ..model.reading import UNSIZED

__all__ = ["Array", "Value"]

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Value:
    """A value of a graph.

    Attributes:
        number: Its number in the lifetimes of buffers.
        dtype: The name of its dtype.
        sizes: Its shape; None if a size is not known before the model runs.
        constant: Whether it follows from the file and the shapes of the inputs alone.
        array: Its elements, if they are known before the model runs and are few.
        declared: The sizes that the file declares, None for an open one: reports show them if ``sizes`` is None.
    """

    number: int
    dtype: str
    sizes: tuple[int, ...] | None
    constant: bool = False
    array: Array | None = None
    declared: tuple[int | None, ...] | None = None

    def merge(self, other: Value) -> Value:
        """Return the common facts of this value and ``other``, either of which may result, with this value's number."""
        sizes = self.sizes if other.sizes == self.sizes else None
        return Value(self.number, self.dtype, sizes, declared=self.declared)

    @cached_property
    def shape(self) -> Shape | None:
        """Its shape, as formulas take it."""
        return None if self.sizes is None else Shape(self.sizes)

    @cached_property
    def bytes(self) -> int:
        """The bytes that it takes; 0 if its shape is not known, and for texts, which have no size."""
        if self.sizes is None or self.dtype in UNSIZED:
            return 0
        return math.ceil(math.prod(self.sizes) * element_bytes(self.dtype))

    @cached_property
    def info(self) -> TensorInfo:
        """Shape and dtype for reports, with -1 for a size that is not known."""
        sizes = self.declared or () if self.sizes is None else self.sizes
        return TensorInfo(tuple(-1 if size is None else size for size in sizes), self.dtype)
