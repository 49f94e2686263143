"""Sizes of what products, convolutions, reductions and other operators make of meta tensors, without running them.

Each function returns None for arguments that differ from its description: those go to torch's kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..model.tensors import PLAIN_TYPES

__all__ = ["SIZES", "can_expand"]


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


def _size_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Sequence[int] | None:
    """Return the size of rows of ``x`` times the transposed weight."""
    if not _are_plain(x, weight, bias) or x.dim() < 2 or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
        return None
    features = weight.shape[0]
    if bias is not None and bias.shape != (features,):
        return None
    return (*x.shape[:-1], features)


def _size_addmm(bias: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, **scales: Any) -> Sequence[int] | None:
    """Return the size of a product of two matrices and a row that is added to each of its rows."""
    if scales or not _are_alike(bias, x, weight) or x.dim() != 2 or weight.dim() != 2:
        return None
    if x.shape[1] != weight.shape[0] or bias.shape != weight.shape[1:]:
        return None
    return x.shape[0], weight.shape[1]


def _size_product(a: torch.Tensor, b: torch.Tensor) -> Sequence[int] | None:
    """Return the size of a product of two matrices, or of each two of a batch."""
    if not _are_plain(a, b) or a.dim() != b.dim() or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        return None
    return (*a.shape[:-1], b.shape[-1])


def _size_joined(tensors: Sequence[torch.Tensor], dim: int = 0) -> Sequence[int] | None:
    """Return the size of tensors that are joined along a dimension, in which alone they differ."""
    first = tensors[0]
    has_layout = first.dim() > 3 and not _are_alike(*tensors)  # of images the output may have that of the inputs
    if has_layout or not _are_plain(*tensors) or not -first.dim() <= dim < first.dim():
        return None
    dim %= first.dim()
    others = {(*tensor.shape[:dim], -1, *tensor.shape[dim + 1 :]) for tensor in tensors}
    return (
        None if len(others) > 1 else (*first.shape[:dim], sum(x.shape[dim] for x in tensors), *first.shape[dim + 1 :])
    )


def _size_embedding(weight: torch.Tensor, indices: torch.Tensor, *_: Any) -> Sequence[int] | None:
    """Return the size of a row of the weight for each index."""
    is_index = indices.is_meta and indices.dtype in (torch.int64, torch.int32)
    return (*indices.shape, weight.shape[1]) if is_index and _are_plain(weight) and weight.dim() == 2 else None


def _size_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Sequence[int] | None:
    """Return the size of a convolution of a batch: (samples, channels, windows along each dimension of an image)."""
    dims = x.dim() - 2
    if not _are_alike(x, weight, bias) or weight.dim() != x.dim() or dims < 1 or 0 in (*x.shape, *weight.shape):
        return None
    samples, in_channels = x.shape[:2]
    channels, in_channels_of_group = weight.shape[:2]
    if groups < 1 or in_channels != in_channels_of_group * groups or channels % groups:
        return None
    if bias is not None and bias.shape != (channels,):
        return None
    strides, paddings, dilations = (_repeat(argument, dims) for argument in (stride, padding, dilation))
    if not len(strides) == len(paddings) == len(dilations) == dims:
        return None
    if min((*strides, *dilations)) < 1 or min(paddings) < 0:
        return None
    windows = list(map(_count_windows, x.shape[2:], weight.shape[2:], strides, paddings, dilations))
    return (samples, channels, *windows) if min(windows) > 0 else None


def _size_transposed_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    added: Sequence[int] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> Sequence[int] | None:
    """Return the size of a transposed convolution of a batch, with ``added`` elements at the end of each dimension."""
    dims = x.dim() - 2
    if not _are_alike(x, weight, bias) or weight.dim() != x.dim() or dims < 1 or 0 in (*x.shape, *weight.shape):
        return None
    channels = weight.shape[1] * groups
    if groups < 1 or x.shape[1] % groups or x.shape[1] != weight.shape[0]:
        return None
    if bias is not None and bias.shape != (channels,):
        return None
    settings = [_repeat(argument, dims) for argument in (stride, padding, added, dilation)]
    if any(len(setting) != dims for setting in settings):
        return None
    sizes = []
    for size, kernel, step, pad, more, gap in zip(x.shape[2:], weight.shape[2:], *settings, strict=True):
        if step < 1 or gap < 1 or pad < 0 or not 0 <= more < max(step, gap):
            return None
        sizes.append((size - 1) * step - 2 * pad + gap * (kernel - 1) + more + 1)
    return (x.shape[0], channels, *sizes) if min(sizes) > 0 else None


def _repeat(argument: Sequence[int], dims: int) -> Sequence[int]:
    """Return an argument for each dimension: a single number is that of all."""
    return tuple(argument) * dims if len(argument) == 1 else argument


def _count_windows(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return how many windows a kernel has along a dimension of an image."""
    window = dilation * (kernel - 1) + 1
    return (size + 2 * padding - window) // stride + 1


def _size_max_pooling(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    is_ceiled: bool = False,
) -> Sequence[int] | None:
    """Return the size of the largest elements of all windows of a batch of images."""
    if is_ceiled or x.dim() != 4 or 0 in x.shape or not _are_alike(x):
        return None
    kernels, strides, paddings, dilations = (
        _repeat(value, 2) for value in (kernel, stride or kernel, padding, dilation)
    )
    if min((*kernels, *strides, *dilations)) < 1 or any(
        2 * pad > size for pad, size in zip(paddings, kernels, strict=True)
    ):
        return None
    windows = list(map(_count_windows, x.shape[2:], kernels, strides, paddings, dilations))
    return (*x.shape[:2], *windows) if min(windows) > 0 else None


def _size_average_pooling(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    is_ceiled: bool = False,
    *_: Any,
) -> Sequence[int] | None:
    """Return the size of the means of all windows of a batch of images."""
    return _size_max_pooling(x, kernel, stride, padding, (1,), is_ceiled)


def _size_reduced(x: torch.Tensor, dims: Any, keepdim: bool = False, **options: Any) -> Sequence[int] | None:
    """Return the size of means or sums over some dimensions."""
    if options or not dims or not _are_alike(x) or not all(-x.dim() <= dim < x.dim() for dim in dims):
        return None
    reduced = {dim % x.dim() for dim in dims}
    if len(reduced) < len(dims):  # torch refuses a dimension that is given twice
        return None
    if keepdim:
        return [1 if dim in reduced else size for dim, size in enumerate(x.shape)]
    return [size for dim, size in enumerate(x.shape) if dim not in reduced]


def _size_adaptive_pooling(x: torch.Tensor, size: Sequence[int]) -> Sequence[int] | None:
    """Return the size of means over as many windows of an image as there are output elements."""
    if not _are_alike(x) or x.dim() not in (3, 4) or 0 in x.shape or len(size) != 2 or min(size) < 1:
        return None
    return (*x.shape[:-2], *size)


#: By operator: the size of its output, called with its arguments.
SIZES: dict[str, Callable[..., Sequence[int] | None]] = {
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
