"""Output sizes of products, convolutions, reductions and other operators on meta tensors, without running them.

Each function returns None for arguments that differ from its description: those go to torch's kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from ..model.tensors import PLAIN_TYPES

__all__ = ["SIZES", "can_expand"]

#: A size, or None for arguments that torch's kernel must judge.
_Size: TypeAlias = Sequence[int] | None


def can_expand(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether a tensor of a shape can be expanded to another shape."""
    missing = len(target) - len(shape)
    return missing >= 0 and all(size in (1, goal) for size, goal in zip(shape, target[missing:], strict=True))


def _are_plain(first: torch.Tensor, *others: Any) -> bool:
    """Return whether all are plain tensors on the meta device and of one dtype; None is left out."""
    return all(
        type(tensor) in PLAIN_TYPES and tensor.is_meta and tensor.dtype is first.dtype
        for tensor in (first, *others)
        if tensor is not None
    )


def _are_alike(*tensors: Any) -> bool:
    """Return whether all are contiguous, too."""
    return _are_plain(*tensors) and all(tensor.is_contiguous() for tensor in tensors if tensor is not None)


def _is_bias(bias: torch.Tensor | None, channels: int) -> bool:
    """Return whether a bias is None or has a number for each channel."""
    return bias is None or bias.shape == (channels,)


# Products, joined tensors, reductions ---------------------------------------------------------------------------------


def _size_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> _Size:
    """Return the size of rows of ``x`` times the transposed weight."""
    if not _are_plain(x, weight, bias) or x.dim() < 2 or weight.dim() != 2:
        return None
    features, inputs = weight.shape
    return (*x.shape[:-1], features) if x.shape[-1] == inputs and _is_bias(bias, features) else None


def _size_addmm(bias: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, **scales: Any) -> _Size:
    """Return the size of a product of two matrices and a row that is added to each of its rows."""
    if scales or not _are_alike(bias, x, weight) or x.dim() != 2 or weight.dim() != 2:
        return None
    inputs, features = weight.shape
    return (x.shape[0], features) if x.shape[1] == inputs and _is_bias(bias, features) else None


def _size_product(a: torch.Tensor, b: torch.Tensor) -> _Size:
    """Return the size of a product of two matrices, or of each two of a batch."""
    if not _are_plain(a, b) or a.dim() != b.dim() or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        return None
    return (*a.shape[:-1], b.shape[-1])


def _size_joined(tensors: Sequence[torch.Tensor], dim: int = 0) -> _Size:
    """Return the size of tensors that are joined along a dimension, in which alone they differ."""
    first = tensors[0]
    do_fit = _are_alike if first.dim() > 3 else _are_plain  # images in another layout give it to the output
    if not do_fit(*tensors) or not -first.dim() <= dim < first.dim():
        return None
    dim %= first.dim()
    before, after = first.shape[:dim], first.shape[dim + 1 :]
    if any(tensor.shape[:dim] != before or tensor.shape[dim + 1 :] != after for tensor in tensors):
        return None
    return (*before, sum(tensor.shape[dim] for tensor in tensors), *after)


def _size_embedding(weight: torch.Tensor, indices: torch.Tensor, *_: Any) -> _Size:
    """Return the size of a row of the weight for each index."""
    is_index = indices.is_meta and indices.dtype in (torch.int64, torch.int32)
    return (*indices.shape, weight.shape[1]) if is_index and _are_plain(weight) and weight.dim() == 2 else None


def _size_reduced(x: torch.Tensor, dims: Any, keepdim: bool = False, **options: Any) -> _Size:
    """Return the size of means or sums over some dimensions, none of which is given twice."""
    if options or not dims or not _are_alike(x):
        return None
    places = range(x.dim())
    reduced = {places[dim] for dim in dims if -len(places) <= dim < len(places)}
    if len(reduced) < len(dims):
        return None
    return [1 if dim in reduced else x.shape[dim] for dim in places if keepdim or dim not in reduced]


# Windows over images --------------------------------------------------------------------------------------------------


def _size_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> _Size:
    """Return the size of a convolution of a batch: (samples, channels, windows along each dimension of an image)."""
    if not _are_images(x, weight, bias):
        return None
    channels, inputs, *kernel = weight.shape
    if groups < 1 or x.shape[1] != inputs * groups or channels % groups or not _is_bias(bias, channels):
        return None
    return _size_images(x, channels, _count_windows, kernel, stride, padding, dilation)


def _size_transposed_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    added: Sequence[int] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> _Size:
    """Return the size of a transposed convolution of a batch, with ``added`` elements at the end of each dimension."""
    if not _are_images(x, weight, bias):
        return None
    inputs, channels_of_group, *kernel = weight.shape
    channels = channels_of_group * groups
    if groups < 1 or x.shape[1] != inputs or inputs % groups or not _is_bias(bias, channels):
        return None
    return _size_images(x, channels, _count_spread, kernel, stride, padding, dilation, added)


def _size_max_pooling(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    is_ceiled: bool = False,
) -> _Size:
    """Return the size of the largest elements of all windows of a batch of images."""
    if is_ceiled or x.dim() != 4 or not _are_images(x):
        return None
    return _size_images(x, x.shape[1], _count_pooled, kernel, stride or kernel, padding, dilation)


def _size_average_pooling(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    is_ceiled: bool = False,
    *_: Any,
) -> _Size:
    """Return the size of the means of all windows of a batch of images."""
    return _size_max_pooling(x, kernel, stride, padding, (1,), is_ceiled)


def _size_adaptive_pooling(x: torch.Tensor, size: Sequence[int]) -> _Size:
    """Return the size of means over as many windows of an image as there are output elements."""
    if not _are_alike(x) or x.dim() not in (3, 4) or 0 in x.shape or len(size) != 2 or min(size) < 1:
        return None
    return (*x.shape[:-2], *size)


def _are_images(x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None) -> bool:
    """Return whether all are alike, and ``x`` and the weight have equally many dimensions: (samples, channels, ...)."""
    images = (x,) if weight is None else (x, weight)
    return _are_alike(x, weight, bias) and all(image.dim() == x.dim() > 2 and 0 not in image.shape for image in images)


def _size_images(x: torch.Tensor, channels: int, count: Callable[..., int], *settings: Sequence[int]) -> _Size:
    """Return the size of the output for a batch of images; ``count`` returns the size of one image dimension.

    It is called with the size of the input in that dimension, and with the value of each setting for that dimension: a
    setting with a single number applies to all dimensions.
    """
    lengths = x.shape[2:]
    repeated = [tuple(setting) * len(lengths) if len(setting) == 1 else setting for setting in settings]
    if any(len(setting) != len(lengths) for setting in repeated):
        return None
    counts = list(map(count, lengths, *repeated))
    return (x.shape[0], channels, *counts) if min(counts) > 0 else None


def _count_windows(length: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return how many windows a kernel has along a dimension; 0 or less for settings that torch refuses."""
    if min(kernel, stride, dilation) < 1 or padding < 0:
        return 0
    return (length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _count_pooled(length: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return how many windows pooling has along a dimension: each has elements that are no padding."""
    return _count_windows(length, kernel, stride, padding, dilation) if 2 * padding <= kernel else 0


def _count_spread(length: int, kernel: int, stride: int, padding: int, dilation: int, added: int) -> int:
    """Return how many elements a transposed convolution makes along a dimension; 0 or less where torch refuses."""
    if min(stride, dilation) < 1 or padding < 0 or not 0 <= added < max(stride, dilation):
        return 0
    return (length - 1) * stride - 2 * padding + dilation * (kernel - 1) + added + 1


#: By operator: the size of its output, called with its arguments.
SIZES: dict[str, Callable[..., _Size]] = {
    "aten::linear.": _size_linear,
    "aten::addmm.": _size_addmm,
    **dict.fromkeys(("aten::mm.", "aten::bmm."), _size_product),
    "aten::cat.": _size_joined,
    "aten::embedding.": _size_embedding,
    **dict.fromkeys(("aten::mean.dim", "aten::sum.dim_IntList"), _size_reduced),
    **dict.fromkeys(("aten::mean.", "aten::sum."), lambda x, **options: None if options else ()),
    "aten::max_pool2d.": _size_max_pooling,
    "aten::avg_pool2d.": _size_average_pooling,
    "aten::adaptive_avg_pool2d.": _size_adaptive_pooling,
    **{f"aten::conv{dims}d.": _size_convolution for dims in (1, 2, 3)},
    "aten::conv_transpose1d.": _size_transposed_convolution,
    **{f"aten::conv_transpose{dims}d.input": _size_transposed_convolution for dims in (2, 3)},
}
