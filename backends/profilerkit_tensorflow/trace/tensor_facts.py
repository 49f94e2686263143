"""Tensors, as far as they are known before the model runs: their shapes, dtypes and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import tensorflow as tf

from profilerkit.costs import Shape
from profilerkit.trace.records import TensorInfo

__all__ = ["PartialShape", "Tensor", "common_shape", "count_tensor_bytes", "is_more_known", "static_shape"]

#: The dimensions of a tensor, None for an unknown one; None if even their number is unknown.
PartialShape: TypeAlias = "tuple[int | None, ...] | None"


@dataclass(eq=False, slots=True)
class Tensor:
    """The known facts about one tensor that an operator reads or makes.

    Attributes:
        number: Its number among all tensors of a run.
        shape: Its shape, as far as it is known.
        dtype: The name of its dtype.
    """

    number: int
    shape: PartialShape
    dtype: str

    @property
    def known_shape(self) -> Shape | None:
        """The shape if every dimension is known."""
        sizes = [size for size in self.shape or () if size is not None]
        return None if self.shape is None or len(sizes) < len(self.shape) else Shape(sizes)

    @property
    def bytes(self) -> int:
        """Its bytes, as `count_tensor_bytes` has them."""
        return count_tensor_bytes(self.shape, self.dtype)

    @property
    def is_unsized(self) -> bool:
        """Whether its bytes are unknown; handles, variants and strings have none that could be known."""
        has_bytes = self.dtype not in ("resource", "variant", "string")
        return has_bytes and (self.shape is None or (None in self.shape and 0 not in self.shape))

    @property
    def info(self) -> TensorInfo:
        """Shape and dtype for reports, with -1 for a size that is not known."""
        return TensorInfo(tuple(-1 if size is None else size for size in self.shape or ()), self.dtype)


def count_tensor_bytes(shape: PartialShape, dtype: str) -> int:
    """Return the bytes of a tensor: 0 if its shape is not known, and for a handle or a variant."""
    if shape is None:
        return 0
    sizes = [size for size in shape if size is not None]
    # The bytes of a text are those of its object in memory; 2 or 4 bits take a whole byte.
    element_bytes = 24 if dtype == "string" else int(tf.as_dtype(dtype).size)
    return prod(sizes) * element_bytes if len(sizes) == len(shape) else 0


def common_shape(one: PartialShape, other: PartialShape) -> PartialShape:
    """Return the shape with the dimensions that two shapes agree about; the others are None."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(size if size == second else None for size, second in zip(one, other, strict=True))


def is_more_known(shape: PartialShape, other: PartialShape) -> bool:
    """Return whether a shape has a dimension that is unknown in another."""
    if other is None or shape is None:
        return other is None and shape is not None
    return any(size is not None and second is None for size, second in zip(shape, other, strict=False))


def static_shape(tensor: Any) -> PartialShape:
    """Return a tensor's shape as far as the graph knows it."""
    shape = tensor.shape
    return None if shape.rank is None else tuple(shape.as_list())
