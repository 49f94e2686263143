"""The bytes that torch's operators allocate and free inside, by the source of each, in ``aten/src/ATen/native``.

Each rule gets the device, None where it is not known, and the arguments of its operator, in the order of its schema;
those on which the bytes do not depend are ``*_`` and ``**__``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeGuard

import torch

from ..compat.modes import disable_dispatch_modes
from ..compat.operators import find_operator
from ..costs.shapes import has_floats
from ..model.storages import count_stored_bytes
from .attention_kernels import count_spelled_out_bytes
from .kernel_outputs import find_channels_last
from .row_sums import count_row_sum_bytes, is_sum_over_rows

__all__ = ["RULES", "is_on"]

_NARROW = (torch.bfloat16, torch.float16)
_FLOAT32_BYTES = 4


def is_on(device: torch.device | None, kind: str) -> TypeGuard[torch.device]:
    """Return whether a device is known, and of a kind: "cpu" or "cuda"."""
    return device is not None and device.type == kind


# Attention and softmax ------------------------------------------------------------------------------------------------


def _count_in_attention(
    device: torch.device | None, query: Any, key: Any, value: Any, attn_mask: Any = None, *rest: Any, **options: Any
) -> int:
    """Return the bytes of a mask of booleans as numbers, made before a kernel is chosen, and those without a kernel.

    It is ``convert_boolean_attn_mask`` in ``transformers/attention.cpp``.
    """
    is_boolean = attn_mask is not None and attn_mask.dtype is torch.bool
    converted = int(attn_mask.numel() * query.element_size()) if is_boolean else 0  # an expanded one is made in full
    return converted + count_spelled_out_bytes(device, query, key, value, attn_mask, *rest, **options)


def _count_in_attention_gradient(device: torch.device | None, gradient: torch.Tensor, *_: Any, **__: Any) -> int:
    """Return the bytes of the products of the output and its gradient (``transformers/cuda/attention_backward.cu``)."""
    return gradient.nbytes if gradient.dtype is torch.float32 else 0


def _count_in_safe_softmax(device: torch.device | None, scores: torch.Tensor, dim: int, *_: Any, **__: Any) -> int:
    """Return the bytes of whether each score is minus infinity, whether all of a row are, and minus infinity."""
    if scores.is_nested:
        return 0
    return scores.numel() + scores.numel() // max(1, scores.shape[dim]) + scores.element_size()


def _count_in_softmax(device: torch.device | None, x: torch.Tensor, dim: int, dtype: Any = None) -> int:
    """Return the bytes of the input in the dtype of the output, or of its copy without gaps (``SoftMax.cpp``)."""
    if dtype not in (None, x.dtype):
        is_in_kernel = is_on(device, "cuda") and (x.dtype, dtype) == (torch.float16, torch.float32)
        return 0 if is_in_kernel else x.numel() * dtype.itemsize
    return _count_copy_without_gaps(device, x)


def _count_copy_without_gaps(device: torch.device | None, x: torch.Tensor, *_: Any) -> int:
    """Return the bytes of the copy of an input with gaps between its numbers; others are read as they are."""
    return 0 if x.is_nested or x.is_contiguous() else count_stored_bytes(x)


def _count_in_softmax_gradient(device: torch.device | None, gradient: Any, output: Any, *_: Any) -> int:
    """Return the bytes of the products of the output and its gradient (``cuda/SoftMax.cu``)."""
    itemsize = max(gradient.element_size(), output.element_size())
    return int(gradient.numel() * itemsize) if is_on(device, "cuda") else 0


# Losses, distances (``Loss.cpp``, ``ReduceOps.cpp``, ``Distance.cpp``) ------------------------------------------------


def _count_in_binary_cross_entropy(
    device: torch.device | None, x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> int:
    """Return the bytes of the factor of the input, of the logarithm of its sigmoid, and of ``pos_weight - 1``.

    The factor becomes the loss of each element: without a reduction it is the output, and not counted here.
    """
    like_input = 2 if reduction else 1
    return like_input * count_stored_bytes(x) + (0 if pos_weight is None else count_stored_bytes(pos_weight))


def _count_in_margin_gradient(device: torch.device | None, gradient: Any, x: torch.Tensor, *_: Any) -> int:
    return 2 * count_stored_bytes(x)  # the products before the exponential of the same size


def _count_in_reduced_loss(
    device: torch.device | None, x: Any, target: Any, reduction: int = 1, *_: Any, **__: Any
) -> int:
    return _count_difference(device, x, target) if reduction else 0  # the loss of each element


def _count_difference(device: torch.device | None, a: torch.Tensor, b: torch.Tensor, *_: Any) -> int:
    """Return the bytes of a number for each pair of elements."""
    return int(torch.broadcast_shapes(a.shape, b.shape).numel() * torch.result_type(a, b).itemsize)


def _count_in_log_sum(device: torch.device | None, x: torch.Tensor, dimensions: Sequence[int], *_: Any) -> int:
    """Return the bytes of the largest numbers and of the exponentials of what is left; integers become floats first."""
    itemsize, copies = (x.element_size(), 1) if has_floats(x) else (_FLOAT32_BYTES, 2)
    summed = math.prod(x.shape[dim] for dim in dimensions or range(x.dim())) if x.dim() else 1
    return itemsize * (copies * x.numel() + x.numel() // max(1, summed))


def _count_in_distances(device: torch.device | None, a: torch.Tensor, b: torch.Tensor, *_: Any) -> int:
    """Return the bytes of both sets of points with two further coordinates: their product is the squared distances.

    Before there is a second set or a distance, the first set is joined of -2 of it, and of two numbers for each point.
    """
    first, second, size = a.shape[:-1].numel(), b.shape[:-1].numel(), a.shape[-1]
    joining_the_first = first * size + 2 * (first + second) + first * (size + 2)
    distances = first * b.shape[-2]
    return max((first + second) * (size + 2), joining_the_first - distances) * a.element_size()


def _count_in_bilinear(device: torch.device | None, a: Any, weight: Any, b: Any, *_: Any) -> int:
    """Return the bytes for one output feature: the first input times the weight, and that times the second input."""
    return int(a.shape[0] * (b.shape[1] + 1) * a.element_size()) if a.dim() == b.dim() == 2 and a.shape[0] else 0


# Norms (``layer_norm.cpp``, ``group_norm.cpp``, ``Normalization.cpp``) ------------------------------------------------


def _count_in_layer_norm(
    device: torch.device | None, x: torch.Tensor, shape: Sequence[int], weight: Any = None, *_: Any
) -> int:
    """Return the bytes of the mean and deviation of each row, and of the copy of an input with gaps."""
    rows = x.numel() // max(1, math.prod(shape))
    return 2 * rows * _find_statistic_size(device, x, weight) + _count_copy_without_gaps(device, x)


def _count_in_group_norm(device: torch.device | None, x: torch.Tensor, groups: int, weight: Any = None, *_: Any) -> int:
    """Return the bytes of the mean and deviation of each group, and of the copy of an input with gaps.

    With the channels last, the CPU also has both of each channel; other kernels copy the input.
    """
    samples, channels = x.shape[:2]
    statistics = 2 * samples * groups * _find_statistic_size(device, x, weight)
    layout = find_channels_last(x) if is_on(device, "cpu") else None
    if layout is None:
        return statistics + _count_copy_without_gaps(device, x)
    of_channels = 2 * samples * channels * max(_FLOAT32_BYTES, x.element_size())
    return statistics + of_channels + (0 if x.is_contiguous(memory_format=layout) else count_stored_bytes(x))


def _count_in_batch_norm(
    device: torch.device | None, x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, *_: Any
) -> int:
    """Return the bytes of the batch's mean and deviation of each channel; the CPU also has a factor and an addend."""
    size_of_term = max(_FLOAT32_BYTES, x.element_size()) if is_on(device, "cpu") else 0
    return 2 * x.shape[1] * (_find_statistic_size(device, x, weight) + size_of_term) if training else 0


def _find_statistic_size(device: torch.device | None, x: torch.Tensor, weight: torch.Tensor | None) -> int:
    """Return the bytes of a statistic: on the CPU as the weight, or else the input, elsewhere at least in float32."""
    if is_on(device, "cpu"):
        return (x if weight is None else weight).element_size()
    return max(_FLOAT32_BYTES, x.element_size())


def _count_in_rms_norm(
    device: torch.device | None, x: torch.Tensor, shape: Sequence[int], weight: Any = None, *_: Any
) -> int:
    """Return the bytes of the CPU, which spells it out, beside the output: in float32 for narrow numbers.

    At the most there are the squares with their means twice, or with a weight the product before it is weighted.
    """
    if not is_on(device, "cpu"):
        return 0
    is_narrow = x.dtype in _NARROW
    itemsize = _FLOAT32_BYTES if is_narrow else x.element_size()
    numbers, rows = x.numel(), x.numel() // max(1, math.prod(shape))
    most = numbers if is_narrow else 0  # the input in float32
    if weight is None:
        most += numbers + 2 * rows
    else:
        most += 2 * numbers + rows + (weight.numel() if weight.element_size() < itemsize else 0)
    return most * itemsize - count_stored_bytes(x)


# Sorting and sums (``Sorting.cpp``, ``ReduceOps.cpp``) ----------------------------------------------------------------


def _count_in_kthvalue(device: torch.device | None, x: torch.Tensor, *_: Any) -> int:
    """Return the bytes of the numbers that the CPU partially sorts, and of their indices."""
    return count_stored_bytes(x) + x.numel() * torch.int64.itemsize if is_on(device, "cpu") else 0


def _count_in_nonzero_count(device: torch.device | None, x: torch.Tensor, dim: Any = None, *_: Any) -> int:
    """Return the bytes of whether each number differs from zero, as booleans and in int64, to add up dimensions."""
    return 0 if dim is None else x.numel() * (torch.bool.itemsize + torch.int64.itemsize)


def _count_as_input(device: torch.device | None, x: torch.Tensor, *_: Any, **__: Any) -> int:
    """Return the bytes of a tensor like the input: the differences, the sorted numbers, or the numbers to sort."""
    return count_stored_bytes(x)


def _count_in_complex_abs(device: torch.device | None, x: torch.Tensor) -> int:
    """Return the bytes of the CPU's complex result, of which the output is the real part."""
    return count_stored_bytes(x) if is_on(device, "cpu") and x.is_complex() else 0


def _count_in_sum(device: torch.device | None, x: torch.Tensor, *dimensions: Any, dtype: Any = None, **_: Any) -> int:
    """Return the bytes of a sum's input in the dtype that is added up, or of its buffer over rows on CUDA."""
    if is_on(device, "cuda") and dimensions and is_sum_over_rows(x, dimensions[0]):
        return count_row_sum_bytes(device, x)
    return _count_cast(device, x, dtype=dtype)


def _count_in_mean(device: torch.device | None, x: torch.Tensor, *_: Any, dtype: Any = None, **__: Any) -> int:
    """Return the bytes of a mean's input in the dtype that is added up: float32 for narrow numbers."""
    return _count_cast(device, x, dtype=dtype or (torch.float32 if x.dtype in _NARROW else None))


def _count_cast(device: torch.device | None, x: torch.Tensor, *_: Any, dtype: Any = None, **__: Any) -> int:
    """Return the bytes of a reduction's input in the dtype that is added up; accelerators cast floats as they read.

    It is ``make_reduction`` in ``ReduceOpsUtils.h``.
    """
    to: torch.dtype = dtype or (x.dtype if has_floats(x) else torch.int64)
    if to is x.dtype or (has_floats(x) and not is_on(device, "cpu")):
        return 0
    return x.numel() * to.itemsize


# Pooling and transforms (``Pooling.cpp``, ``mkl/SpectralOps.cpp``) ----------------------------------------------------


def _count_in_pooling(find_largest: Any, device: torch.device | None, x: torch.Tensor, *settings: Any) -> int:
    """Return the bytes of the indices of the largest elements, as ``find_largest`` returns them: torch frees them."""
    if x.is_quantized or x.is_mkldnn:
        return 0
    with disable_dispatch_modes():
        _, indices = find_largest(torch.empty(x.shape, device="meta"), *settings)
    return int(indices.nbytes)


def _count_in_affine_grid(device: torch.device | None, theta: torch.Tensor, size: Sequence[int], *_: Any) -> int:
    """Return the bytes of the points of the grid, with a 1 added, before they are multiplied by the matrix."""
    return theta.shape[0] * math.prod(size[2:]) * theta.shape[-1] * theta.element_size()


def _count_in_transform(device: torch.device | None, x: torch.Tensor, dimensions: Sequence[int], *_: Any) -> int:
    """Return the bytes of a copy: MKL takes all dimensions that it does not transform as one, if strides allow it."""
    if not is_on(device, "cpu") or not torch.backends.mkl.is_available():
        return 0
    transformed = {dim % x.dim() for dim in dimensions}
    batch = [(x.stride(dim), x.shape[dim]) for dim in range(x.dim()) if dim not in transformed and x.shape[dim] > 1]
    outer_to_inner = pairwise(sorted(batch, reverse=True))
    is_one = all(stride == inner_stride * inner_size for (stride, _), (inner_stride, inner_size) in outer_to_inner)
    return 0 if is_one else count_stored_bytes(x)


#: The operators of each rule; no operator has two.
_OPERATORS: dict[Callable[..., int], Sequence[str]] = {
    _count_in_attention: ["scaled_dot_product_attention.default"],
    _count_in_attention_gradient: ["_scaled_dot_product_efficient_attention_backward.default"],
    _count_in_safe_softmax: ["_safe_softmax.default"],
    _count_in_softmax: ["softmax.int", "log_softmax.int"],
    _count_copy_without_gaps: ["_softmax.default", "_log_softmax.default"],
    _count_in_softmax_gradient: ["_softmax_backward_data.default"],
    _count_in_binary_cross_entropy: ["binary_cross_entropy_with_logits.default"],
    _count_in_margin_gradient: ["soft_margin_loss_backward.default"],
    _count_in_reduced_loss: ["huber_loss.default", "mse_loss.default", "smooth_l1_loss.default"],
    _count_in_log_sum: ["logsumexp.default"],
    _count_difference: ["dist.default"],
    _count_in_distances: ["_euclidean_dist.default"],
    _count_in_bilinear: ["_trilinear.default"],
    _count_in_layer_norm: ["layer_norm.default"],
    _count_in_group_norm: ["group_norm.default"],
    _count_in_batch_norm: ["batch_norm.default"],
    _count_in_rms_norm: ["rms_norm.default"],
    _count_in_kthvalue: ["kthvalue.default"],
    _count_in_nonzero_count: ["count_nonzero.default", "count_nonzero.dim_IntList"],
    _count_as_input: ["argsort.default", "argsort.stable", "median.default", "nanmedian.default"],
    _count_in_complex_abs: ["abs.default"],
    _count_in_sum: ["sum.dim_IntList"],
    _count_in_mean: ["mean.default", "mean.dim"],
    _count_cast: ["sum.default", "prod.default", "prod.dim_int", "cumsum.default", "cumprod.default"],
    partial(_count_in_pooling, torch.ops.aten.max_pool2d_with_indices): ["max_pool2d.default"],
    partial(_count_in_pooling, torch.ops.aten.max_pool3d_with_indices): ["max_pool3d.default"],
    _count_in_affine_grid: ["affine_grid_generator.default"],
    # To real numbers, c2r, there may be further copies: `find_unknown_inside` names them.
    _count_in_transform: ["_fft_c2c.default", "_fft_r2c.default", "_fft_c2r.default"],
}
RULES = {find_operator(f"aten.{name}"): rule for rule, names in _OPERATORS.items() for name in names}
