"""The shapes that formulas get in place of tensors, also in place of sparse and nested tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from profilerkit.costs import Numbers, Shape

from ..compat.modes import disable_dispatch_modes
from ..compat.tensors import FLOAT4, FakeTensor

__all__ = [
    "BooleanShape",
    "ShapedCall",
    "SparseShape",
    "count_elements",
    "count_stored_elements",
    "find_numbers",
    "has_floats",
    "is_plain",
    "replace_by_shapes",
    "require_plain",
    "split_samples",
]

_UNKNOWN_STORED = "the shape of a sparse tensor does not tell how many elements it stores"


class SparseShape(Shape):
    """The shape of a sparse tensor: ``numel`` counts all elements, ``stored`` only the elements that it stores."""

    stored: int


class BooleanShape(Shape):
    """The shape of a tensor of booleans: the argument selects numbers, it is no operand of the arithmetic."""

    __slots__ = ()


class NestedShape(Shape):
    """The shape of a nested tensor: each size is the longest of the samples; ``parts`` are the samples' shapes."""

    parts: tuple[Shape, ...]

    @property
    def numel(self) -> int:
        """Return the number of elements that are there, without any padding."""
        return sum(part.numel for part in self.parts)


def replace_by_shapes(value: Any) -> Any:
    """Replace every tensor by its shape, in lists, tuples and dictionaries too."""
    if isinstance(value, torch.Tensor):
        return _read_shape(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(replace_by_shapes, value))
    if isinstance(value, dict):
        return {name: replace_by_shapes(item) for name, item in value.items()}
    return value


def _read_shape(tensor: torch.Tensor) -> Shape:
    if tensor.is_nested:
        return _read_nested_shape(tensor)
    if tensor.layout is not torch.strided and not tensor.is_mkldnn:
        sparse = SparseShape(tensor.shape)
        sparse.stored = _count_stored(tensor)
        return sparse
    if tensor.dtype is FLOAT4:
        return _unpack_pairs(tensor)
    return (BooleanShape if tensor.dtype is torch.bool else Shape)(tensor.shape)


def _unpack_pairs(tensor: torch.Tensor) -> Shape:
    """Return the shape of a tensor with two numbers in each element, which are neighbors along one dimension.

    The stride of this dimension is 1. If several dimensions have it (rows of one pair), it is the one of size 1.
    """
    strides = tensor.stride()
    packed = min(range(tensor.dim()), key=lambda axis: (strides[axis], tensor.shape[axis], -axis), default=None)
    return Shape(2 * size if axis == packed else size for axis, size in enumerate(tensor.shape))


def _read_nested_shape(tensor: torch.Tensor) -> NestedShape:
    parts = tuple(map(Shape, _list_sample_sizes(tensor)))
    longest = tuple(map(max, zip(*parts, strict=True)))
    nested = NestedShape((len(parts), *longest))
    nested.parts = parts
    return nested


def _list_sample_sizes(tensor: torch.Tensor) -> list[tuple[int, ...]]:
    """Return the shape of each sample of a nested tensor; raises RuntimeError if its lengths have no values."""
    nested: Any = tensor
    with disable_dispatch_modes():
        if tensor.layout is not torch.jagged:
            return [tuple(part.shape) for part in nested.unbind()]
        ragged = next(index for index, size in enumerate(nested.shape[1:]) if isinstance(size, torch.SymInt))
        lengths = nested.offsets().diff() if nested.lengths() is None else nested.lengths()
        sizes = nested.shape[1:]
        return [
            tuple(length if index == ragged else int(size) for index, size in enumerate(sizes))
            for length in lengths.tolist()
        ]


def _count_stored(tensor: torch.Tensor) -> int:
    """Return the elements that a sparse tensor keeps; raises RuntimeError if their number depends on its values."""
    values = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()
    stored = values.numel()
    if stored == 0 and tensor.numel() and (tensor.is_meta or isinstance(tensor, FakeTensor)):
        raise NotImplementedError(_UNKNOWN_STORED)  # torch makes tensors without data as if they stored nothing
    return stored


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the shape of a tensor determines the cost of work on it: it is neither sparse nor nested."""
    return tensor.layout is torch.strided and not tensor.is_nested


def require_plain(tensor: torch.Tensor) -> None:
    """Raise NotImplementedError for a tensor whose shape does not determine the cost of work on it: it must be run."""
    if tensor.is_nested:
        raise NotImplementedError("the shape of a nested tensor does not tell how long its samples are")
    if tensor.layout is not torch.strided:
        raise NotImplementedError(_UNKNOWN_STORED)


def count_elements(shapes: Any) -> int:
    """Return the elements of a shape, or of all shapes in a tuple together."""
    return shapes.numel if isinstance(shapes, Shape) else sum(map(count_elements, shapes))


def count_stored_elements(tensor: torch.Tensor) -> int:
    """Return the elements that a tensor keeps: only the values of a sparse tensor, no padding of a nested tensor."""
    if tensor.is_nested:
        return _read_nested_shape(tensor).numel
    return tensor.numel() if tensor.layout is torch.strided or tensor.is_mkldnn else _count_stored(tensor)


def has_floats(value: Any) -> bool:
    """Return whether there is a floating-point or complex tensor among arguments or results."""
    if isinstance(value, (list, tuple)):
        return any(map(has_floats, value))
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def find_numbers(args: Any, kwargs: Any, result: Any = None) -> Numbers:
    """Return the kind of numbers that an operator works on: complex if an argument is complex."""
    if _has_complex(args) or (kwargs and _has_complex(tuple(kwargs.values()))):
        return Numbers.COMPLEX
    has_any = has_floats(args) or has_floats(list(kwargs.values())) or has_floats(result)
    return Numbers.REAL if has_any else Numbers.INTEGER


def _has_complex(value: Any) -> bool:
    """Return whether there is a complex tensor or number among values."""
    if isinstance(value, (list, tuple)):
        return any(map(_has_complex, value))
    return value.is_complex() if isinstance(value, torch.Tensor) else isinstance(value, complex)


class ShapedCall(NamedTuple):
    """A call of an operator, with the shapes of its tensors: positional and named arguments, and the result."""

    args: Any
    kwargs: dict[str, Any]
    out: Any


def split_samples(call: ShapedCall) -> Iterator[ShapedCall]:
    """Yield a call; if it has nested tensors, yield one call for each sample instead, as a batch of one."""
    values = (call.args, tuple(call.kwargs.values()), call.out)
    samples = max(map(len, _list_nested_parts(values))) if _has_nested(values) else 0
    if not samples:
        yield call
    for index in range(samples):
        kwargs = {name: _take_sample(value, index) for name, value in call.kwargs.items()}
        yield ShapedCall(_take_sample(call.args, index), kwargs, _take_sample(call.out, index))


def _has_nested(value: Any) -> bool:
    return isinstance(value, NestedShape) or (type(value) is tuple and any(map(_has_nested, value)))


def _list_nested_parts(value: Any) -> Iterator[tuple[Shape, ...]]:
    """Yield the shapes of the samples of each nested tensor."""
    if isinstance(value, NestedShape):
        yield value.parts
    elif isinstance(value, tuple) and not isinstance(value, Shape):
        for item in value:
            yield from _list_nested_parts(item)


def _take_sample(value: Any, index: int) -> Any:
    """Return a value with the shape of one sample in the place of each nested tensor's."""
    if isinstance(value, NestedShape):
        return Shape((1, *value.parts[index]))
    if isinstance(value, tuple) and not isinstance(value, Shape):
        return tuple(_take_sample(item, index) for item in value)
    return value
