"""The bytes inside pooling, padding, resizing and moving of images (``Pooling.cpp``, ``UpSampleKernel.cpp``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from ..model.storages import count_stored_bytes
from .inside_operation import Operation, count_copy, count_copy_of_images, count_copy_of_sequences, count_copy_on_cpu
from .kernel_outputs import find_channels_last

__all__ = ["RULES"]

_FLOAT32_BYTES = 4
_INT64_BYTES = 8


def _count_in_pooling(pooling: Operation) -> int:
    """Return the bytes of the places of the largest numbers, and of the CPU's copy of images that lie apart."""
    if pooling.x.is_quantized or pooling.x.is_mkldnn:
        return 0
    places = int(pooling.result.numel() * _INT64_BYTES)
    return places + count_copy_on_cpu(count_copy_of_images, "x", pooling)


def _count_in_adaptive_average(pooling: Operation) -> int:
    """Return the bytes of the CPU's copy of images or sequences; a single number of each channel is a mean, without."""
    copy = {1: count_copy_of_sequences, 2: count_copy_of_images}[len(pooling.arguments["output_size"])]
    return 0 if math.prod(pooling.arguments["output_size"]) == 1 else count_copy_on_cpu(copy, "x", pooling)


def _count_in_padding(padding: Operation) -> int:
    """Return the bytes of the CPU's copy of images that it pads with their own numbers."""
    takes_images = padding.get("mode") in ("reflect", "replicate")
    return count_copy_on_cpu(count_copy_of_images, "x", padding) if takes_images else 0


#: The most that height and width of the output are together where the CPU puts the channels last.
_MOST_RESAMPLED = 128


#: The most channels of images with the channels last that are read as other images are.
_MOST_CHANNELS_APART = 3


#: How many numbers along a dimension make one of the output, if it is interpolated by cubic polynomials.
_CUBIC = 4


def _count_in_resampling(taps: int, resampling: Operation) -> int:
    """Return the bytes of the CPU, which copies small images to put their channels last: input and output.

    Of others it has the place and the factor of each number that makes one of the output, along each dimension:
    ``taps`` is how many these are.
    """
    x, output = resampling.x, resampling.result
    if not resampling.is_on("cpu"):
        return 0
    sizes = output.shape[2:]
    has_channels_last = len(sizes) == 2 and taps != _CUBIC
    if has_channels_last and sum(sizes) <= _MOST_RESAMPLED and x.is_floating_point():
        images = (x, output)
        return sum(image.nbytes for image in images if not image.is_contiguous(memory_format=torch.channels_last))
    if taps != _CUBIC and x.shape[1] > _MOST_CHANNELS_APART and find_channels_last(x):
        return 0
    factor_size = x.element_size() if x.is_floating_point() else _FLOAT32_BYTES
    return int(sum(sizes) * taps * (_INT64_BYTES + factor_size))


def _count_in_roll(roll: Operation) -> int:
    """Return the bytes of a tensor for each dimension but one: they are rolled one after the other."""
    return count_stored_bytes(roll.x) * max(0, len(roll.get("dims", ())) - 1)


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    partial(count_copy_on_cpu, count_copy_of_sequences, "x"): "avg_pool1d.default adaptive_max_pool1d.default",
    partial(count_copy_on_cpu, count_copy_of_images, "x"): """
        avg_pool2d.default avg_pool3d.default _adaptive_avg_pool2d.default adaptive_max_pool2d.default
        max_pool2d_with_indices.default max_pool3d_with_indices.default
        reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default
        replication_pad1d.default replication_pad2d.default replication_pad3d.default
    """,
    partial(count_copy_on_cpu, count_copy_of_images, "dy"): """
        avg_pool2d_backward.default avg_pool3d_backward.default _adaptive_avg_pool2d_backward.default
        _adaptive_avg_pool3d_backward.default adaptive_max_pool2d_backward.default adaptive_max_pool3d_backward.default
        max_pool2d_with_indices_backward.default max_pool3d_with_indices_backward.default
        reflection_pad1d_backward.default reflection_pad2d_backward.default reflection_pad3d_backward.default
        replication_pad1d_backward.default replication_pad2d_backward.default replication_pad3d_backward.default
        grid_sampler_2d_backward.default upsample_nearest1d_backward.default upsample_nearest2d_backward.default
        upsample_nearest3d_backward.default upsample_linear1d_backward.default upsample_bilinear2d_backward.default
        upsample_trilinear3d_backward.default upsample_bicubic2d_backward.default
    """,
    _count_in_adaptive_average: "adaptive_avg_pool1d.default adaptive_avg_pool2d.default",
    _count_in_padding: "pad.default",
    _count_in_pooling: "max_pool2d.default max_pool3d.default",
    _count_in_roll: "roll.default",
    partial(_count_in_resampling, 1): """
        upsample_nearest1d.default upsample_nearest1d.vec upsample_nearest2d.default upsample_nearest2d.vec
        upsample_nearest3d.default upsample_nearest3d.vec _upsample_nearest_exact1d.default
        _upsample_nearest_exact1d.vec _upsample_nearest_exact2d.default _upsample_nearest_exact2d.vec
        _upsample_nearest_exact3d.default _upsample_nearest_exact3d.vec
    """,
    partial(_count_in_resampling, 2): """
        upsample_linear1d.default upsample_linear1d.vec upsample_bilinear2d.default upsample_bilinear2d.vec
        upsample_trilinear3d.default upsample_trilinear3d.vec
    """,
    partial(_count_in_resampling, _CUBIC): "upsample_bicubic2d.default upsample_bicubic2d.vec",
    partial(count_copy_on_cpu, count_copy, "x"): "max_pool1d.default col2im.default",
}
