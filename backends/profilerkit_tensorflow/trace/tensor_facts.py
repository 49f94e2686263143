"""Tensors of a graph, as far as they are known before the model runs: their shapes, dtypes and bytes."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, TypeAlias

__all__ = ["PartialShape", "Tensor", "common_shape", "count_tensor_bytes", "is_more_known", "static_shape"]

#: The dimensions of a tensor, None for an unknown one; None where not even their number is known.
PartialShape: TypeAlias = "tuple[int | None, ...] | None"

_BYTES = {
    **dict.fromkeys(("bool", "int4", "uint4", "int8", "uint8", "qint8", "quint8"), 1),  # int4 is not packed on the CPU
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "half", "bfloat16", "qint16", "quint16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32", "qint32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "double", "complex64"), 8),
    "complex128": 16,
    "string": 24,
}


class Tensor(NamedTuple):
    """What is known of one tensor that an operator reads or makes.

    Attributes:
        number: What it is known by among all tensors of a run.
        shape: Its shape, as far as it is known.
        dtype: The name of its dtype.
    """

    number: int
    shape: PartialShape
    dtype: str

    @property
    def bytes(self) -> int:
        """Its bytes, as `count_tensor_bytes` has them."""
        return count_tensor_bytes(self.shape, self.dtype)

    @property
    def is_unsized(self) -> bool:
        """Whether its bytes are unknown; handles, variants and strings have none that could be known."""
        has_bytes = self.dtype in _BYTES and self.dtype != "string"
        return has_bytes and (self.shape is None or (None in self.shape and 0 not in self.shape))


def count_tensor_bytes(shape: PartialShape, dtype: str) -> int:
    """Return the bytes of a tensor: 0 where its shape is not known, for a handle, and for an unknown dtype."""
    if shape is None:
        return 0
    sizes = [size for size in shape if size is not None]
    return prod(sizes) * _BYTES.get(dtype, 0) if len(sizes) == len(shape) else 0


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
    """Return what a graph knows of a tensor's shape."""
    shape = tensor.shape
    return None if shape.rank is None else tuple(shape.as_list())
