"""The bytes inside norms (``layer_norm.cpp``, ``group_norm.cpp``, ``Normalization.cpp``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch

from ..model.storages import count_stored_bytes
from .inside_operation import Operation, count_copy, count_copy_on_cpu
from .kernel_outputs import find_channels_last

__all__ = ["RULES"]

_NARROW = (torch.bfloat16, torch.float16)
_FLOAT32_BYTES = 4


def _count_in_layer_norm(norm: Operation) -> int:
    """Return the bytes of the mean and deviation of each row, and of the copy of an input with gaps."""
    rows = _count_rows(norm)
    return 2 * rows * _find_statistic_size(norm) + count_copy(norm.x)


def _count_rows(norm: Operation) -> int:
    shape: Sequence[int] = norm.arguments["normalized_shape"]
    return norm.x.numel() // max(1, math.prod(shape))


def _count_in_group_norm(norm: Operation) -> int:
    """Return the bytes of the mean and deviation of each group, and of the copy of an input with gaps.

    With the channels last, the CPU also has both of each channel; other kernels copy the input.
    """
    x = norm.x
    samples, channels = x.shape[:2]
    groups: int = norm.arguments["num_groups"]
    statistics = 2 * samples * groups * _find_statistic_size(norm)
    layout = find_channels_last(x) if norm.is_on("cpu") else None
    if layout is None:
        return statistics + count_copy(norm.x)
    of_channels = 2 * samples * channels * max(_FLOAT32_BYTES, x.element_size())
    return statistics + of_channels + (0 if x.is_contiguous(memory_format=layout) else count_stored_bytes(x))


def _count_in_group_norm_gradient(gradient: Operation) -> int:
    """Return the bytes of two sums for each channel of each sample: of the gradient, and of its products with x."""
    samples, channels = gradient.x.shape[:2]
    return int(2 * samples * channels * max(_FLOAT32_BYTES, gradient.x.element_size()))


def _count_in_batch_norm(norm: Operation) -> int:
    """Return the bytes of the batch's mean and deviation of each channel; the CPU also has a factor and an addend."""
    statistic = _find_statistic_size(norm) if norm.arguments["training"] else 0
    return 2 * norm.x.shape[1] * statistic + _count_in_native_batch_norm(norm)


def _count_in_native_batch_norm(norm: Operation) -> int:
    """Return the bytes of the CPU's factor and addend of each channel; the mean and deviation are returned."""
    return 2 * norm.x.shape[1] * max(_FLOAT32_BYTES, norm.x.element_size()) if norm.is_on("cpu") else 0


def _find_statistic_size(norm: Operation) -> int:
    """Return the bytes of a statistic: on the CPU as the weight, or else the input, elsewhere at least in float32."""
    if not norm.is_on("cpu"):
        return max(_FLOAT32_BYTES, norm.x.element_size())
    weight: torch.Tensor | None = norm.get("weight")
    return (norm.x if weight is None else weight).element_size()


def _count_in_rms_norm(norm: Operation) -> int:
    """Return the bytes of the CPU, which spells it out, beside the output: in float32 for narrow numbers.

    At the most there are the squares with their means twice, or with a weight the product before it is weighted.
    """
    if not norm.is_on("cpu"):
        return 0
    x, weight = norm.x, norm.get("weight")
    is_narrow = x.dtype in _NARROW
    itemsize = _FLOAT32_BYTES if is_narrow else x.element_size()
    rows = _count_rows(norm)
    most = x.numel() if is_narrow else 0  # the input in float32
    if weight is None:
        most += x.numel() + 2 * rows
    else:
        most += 2 * x.numel() + rows + (weight.numel() if weight.element_size() < itemsize else 0)
    return most * itemsize - count_stored_bytes(x)


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    _count_in_layer_norm: "layer_norm.default",
    _count_in_group_norm: "group_norm.default",
    _count_in_group_norm_gradient: "native_group_norm_backward.default",
    _count_in_batch_norm: "batch_norm.default",
    _count_in_native_batch_norm: "native_batch_norm.default",
    _count_in_rms_norm: "rms_norm.default",
    partial(count_copy_on_cpu, count_copy, "dy"): "native_layer_norm_backward.default",
}
