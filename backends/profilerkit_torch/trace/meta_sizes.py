"""Sizes of what products, convolutions and means make of contiguous meta tensors.

Torch's own kernels find them in Python. The first that runs in a process imports torch's compiler and SymPy for it,
which takes seconds, and each takes up to milliseconds. Each function returns None for arguments that differ from its
description: those go to torch's kernel, which may refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..model.tensors import PLAIN_TYPES

__all__ = ["SIZES"]


def _are_alike(first: torch.Tensor, *others: Any) -> bool:
    """Return whether all are plain contiguous tensors on the meta device and of one dtype; None is left out."""
    return all(
        type(tensor) in PLAIN_TYPES and tensor.is_meta and tensor.dtype is first.dtype and tensor.is_contiguous()
        for tensor in (first, *others)
        if tensor is not None
    )


def _size_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Sequence[int] | None:
    """Return the size of rows of ``x`` times the transposed weight."""
    if not _are_alike(x, weight, bias) or x.dim() < 2 or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
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


def _repeat(argument: Sequence[int], dims: int) -> Sequence[int]:
    """Return an argument for each dimension: a single number is that of all."""
    return tuple(argument) * dims if len(argument) == 1 else argument


def _count_windows(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return how many windows a kernel has along a dimension of an image."""
    window = dilation * (kernel - 1) + 1
    return (size + 2 * padding - window) // stride + 1


def _size_mean(x: torch.Tensor, dims: Any, keepdim: bool = False, **options: Any) -> Sequence[int] | None:
    """Return the size of means over some dimensions."""
    if options or not dims or not _are_alike(x) or not all(-x.dim() <= dim < x.dim() for dim in dims):
        return None
    averaged = {dim % x.dim() for dim in dims}
    if len(averaged) < len(dims):  # torch refuses a dimension that is given twice
        return None
    if keepdim:
        return [1 if dim in averaged else size for dim, size in enumerate(x.shape)]
    return [size for dim, size in enumerate(x.shape) if dim not in averaged]


def _size_adaptive_pooling(x: torch.Tensor, size: Sequence[int]) -> Sequence[int] | None:
    """Return the size of means over as many windows of an image as there are output elements."""
    if not _are_alike(x) or x.dim() not in (3, 4) or 0 in x.shape or len(size) != 2 or min(size) < 1:
        return None
    return (*x.shape[:-2], *size)


#: By operator: the size of its output, called with its arguments.
SIZES: dict[str, Callable[..., Sequence[int] | None]] = {
    "aten::linear.": _size_linear,
    "aten::addmm.": _size_addmm,
    "aten::mean.dim": _size_mean,
    "aten::adaptive_avg_pool2d.": _size_adaptive_pooling,
    **{f"aten::conv{dims}d.": _size_convolution for dims in (1, 2, 3)},
}
