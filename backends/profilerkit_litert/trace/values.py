"""The values of a graph in the walk: dtype, sizes, and the elements that are known before the model runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from profilerkit.backend_kit.graph_work import SizedValue

__all__ = ["Array", "Value"]

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Value(SizedValue):
    """A value of a graph; ``array`` has its elements, if they are known before the model runs and are few."""

    array: Array | None = None

    def merge(self, other: Value) -> Value:
        """Return the common facts of this value and ``other``, either of which may result, with this value's number."""
        dims: tuple[int | None, ...] | None = None
        if self.dims is not None and other.dims is not None and len(self.dims) == len(other.dims):
            dims = tuple(one if one == two else None for one, two in zip(self.dims, other.dims, strict=True))
        return Value(self.number, self.dtype, dims)
