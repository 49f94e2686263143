"""Bytes that an operator makes for itself and gives back before it returns, where a rule of torch's says how many.

``scaled_dot_product_attention`` makes a mask of numbers, of the queries' dtype, out of a mask of booleans, before it
chooses a kernel (``convert_boolean_attn_mask`` in ``aten/src/ATen/native/transformers/attention.cpp``). Where no kernel
takes the arguments, it makes all scores.

On CUDA a sum over the rows of a matrix, as the gradient of a bias is, adds up parts of the rows in several blocks of
threads, which leave their results in one buffer (``setReduceConfig`` in ``aten/src/ATen/native/cuda/Reduce.cuh``).

The gradients of attention in float32 and of a softmax on CUDA begin with the products of the output and its gradient
(``aten/src/ATen/native/transformers/cuda/attention_backward.cu``, ``aten/src/ATen/native/cuda/SoftMax.cu``).

Sums and products begin with their input in the dtype that they add up in (``make_reduction`` in
``aten/src/ATen/native/ReduceOpsUtils.h``): int64 for integers and booleans.

Losses of logits and margins are made of several tensors of the input's size (``aten/src/ATen/native/Loss.cpp``).

What other kernels take besides differs between devices, and no trace has it. Of recurrent layers on CUDA it can be
more than all the rest, and kernels in Python make tensors as any function: `find_unknown_inside` names them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..compat.operators import find_operator, has_python_kernel, read_schema
from ..model.tensors import count_stored_bytes
from .attention_kernels import count_spelled_out_bytes

__all__ = ["count_bytes_inside", "count_reduction_bytes", "find_unknown_inside"]

_ATTENTION = find_operator("aten.scaled_dot_product_attention.default")
_EFFICIENT_BACKWARD = find_operator("aten._scaled_dot_product_efficient_attention_backward.default")
_SAFE_SOFTMAX = find_operator("aten._safe_softmax.default")
_SOFTMAX_BACKWARD = find_operator("aten._softmax_backward_data.default")
_CROSS_ENTROPY = find_operator("aten.binary_cross_entropy_with_logits.default")
_SOFT_MARGIN_BACKWARD = find_operator("aten.soft_margin_loss_backward.default")
_SUM = find_operator("aten.sum.dim_IntList")
_CASTING_OPERATORS = frozenset(
    map(
        find_operator,
        (
            *("aten.sum.default", "aten.sum.dim_IntList", "aten.prod.default", "aten.prod.dim_int"),
            *("aten.cumsum.default", "aten.cumprod.default", "aten.mean.default", "aten.mean.dim"),
        ),
    )
)
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "_cudnn_rnn_backward")
#: One takes more powers of a matrix the larger its numbers are.
#: The other runs whole for nested tensors alone, and makes all scores.
_BY_VALUES = ("linalg_matrix_exp", "_scaled_dot_product_attention_math")
#: Of a reduction on CUDA: the threads of a block at most, and those of a warp.
_MOST_THREADS, _WARP = 512, 32
#: The bytes of a partial sum, and of a counter.
_FLOAT32_BYTES = 4
#: The rows that a thread adds up at least, where several blocks share them, and at most.
_FEWEST_ROWS, _MOST_ROWS = 16, 256


def count_bytes_inside(func: Any, args: Any, kwargs: Any, device: torch.device | None) -> int:
    """Return the bytes that are alive only while an operator runs on a device; 0 where no rule says."""
    is_on_cuda = device is not None and device.type == "cuda"
    if func is _ATTENTION:
        query, mask = args[0], args[3] if len(args) > 3 else kwargs.get("attn_mask")
        is_boolean = mask is not None and mask.dtype is torch.bool
        converted = int(mask.numel() * query.element_size()) if is_boolean else 0  # an expanded one is made in full
        return converted + count_spelled_out_bytes(device, *args, **kwargs)
    if func is _EFFICIENT_BACKWARD:
        gradient = args[0]
        return 4 * int(gradient.numel()) if gradient.dtype is torch.float32 else 0
    if func is _SAFE_SOFTMAX and not args[0].is_nested:
        # whether each score is minus infinity, whether all of a row are, and minus infinity
        scores, row = int(args[0].numel()), int(args[0].shape[args[1]])
        return scores + scores // max(1, row) + int(args[0].element_size())
    if func is _SOFTMAX_BACKWARD and is_on_cuda:
        gradient, output = args[:2]
        return int(gradient.numel()) * int(max(gradient.element_size(), output.element_size()))
    if func is _CROSS_ENTROPY:
        return _count_cross_entropy_bytes(*args, **kwargs)
    if func is _SOFT_MARGIN_BACKWARD:
        return 2 * count_stored_bytes(args[1])  # the products before the exponential of the same size
    if func is _SUM and is_on_cuda and _is_sum_over_rows(*args[:2]):
        columns = args[0].shape[-1]
        return count_reduction_bytes(args[0].numel() // max(1, columns), columns, *_count_processors(device))
    if func in _CASTING_OPERATORS:
        return _count_cast_bytes(args[0], kwargs.get("dtype"), is_mean="mean" in str(func), is_on_cuda=is_on_cuda)
    return 0


def _count_cast_bytes(x: torch.Tensor, dtype: torch.dtype | None, *, is_mean: bool, is_on_cuda: bool) -> int:
    """Return the bytes of a reduction's input in the dtype that is added up; CUDA's kernels cast narrow floats."""
    is_number = x.is_floating_point() or x.is_complex()
    if is_number and is_on_cuda:
        return 0
    narrow_mean = is_mean and x.dtype in (torch.bfloat16, torch.float16)
    dtype = dtype or (torch.float32 if narrow_mean else x.dtype if is_number else torch.int64)
    return 0 if dtype is x.dtype else int(x.numel()) * dtype.itemsize


def _count_cross_entropy_bytes(
    x: torch.Tensor, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> int:
    """Return the bytes of what a loss of each element is made of: two tensors, the loss is in one of them.

    These are what the input is multiplied with and the logarithm of its sigmoid; a weight for positives, less 1, is
    there beside them.
    """
    beside = 0 if pos_weight is None else count_stored_bytes(pos_weight)
    return (2 - (reduction == 0)) * count_stored_bytes(x) + beside


def find_unknown_inside(func: Any, device: torch.device | None) -> str:
    """Return the name of what an operator takes for itself on a device where that is much and nobody tells how much."""
    if func.namespace != "aten":
        has_unseen = has_python_kernel(func, device or torch.device("cpu"))
        return f"the workspace of {read_schema(func).name}" if has_unseen else ""
    name: str = read_schema(func).name.partition("::")[2]
    is_much = name in _BY_VALUES or (name in _RECURRENT and device is not None and device.type == "cuda")
    return f"the workspace of {name}" if is_much else ""


def _is_sum_over_rows(x: torch.Tensor, dimensions: Sequence[int] | None = None) -> bool:
    """Return whether a sum is over all dimensions but the last of a contiguous tensor."""
    if x.dim() < 2 or sorted(dim % x.dim() for dim in dimensions or ()) != list(range(x.dim() - 1)):
        return False
    return x.is_contiguous() and x.dtype in (torch.float32, torch.float16, torch.bfloat16)


def _count_processors(device: torch.device | None) -> tuple[int, int]:
    """Return a device's multiprocessors, and the threads of each."""
    properties: Any = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, properties.max_threads_per_multi_processor


def count_reduction_bytes(rows: int, columns: int, multiprocessors: int, threads: int) -> int:
    """Return the bytes of the buffer in which a sum over rows is put together, in float32.

    Each thread adds up several rows of 4, 2 or 1 neighboring columns. A block has as many threads along the columns as
    a warp, at most, and the others along the rows. Several blocks share the rows of the same columns if the device has
    room for them, and each of them then has as many places in the buffer for each column as there are columns in it.

    >>> count_reduction_bytes(8192, 4096, multiprocessors=132, threads=2048)
    138412160
    """
    # How a block divides its threads: across the columns, and along the rows.
    columns_of_thread = next((number for number in (4, 2) if columns % number == 0), 1)
    most_threads = _MOST_THREADS // columns_of_thread
    most_across = _find_power_below(columns // columns_of_thread, most_threads)
    along_rows = min(_find_power_below(rows, most_threads), most_threads // min(most_across, _WARP))
    along_columns = min(most_across, most_threads // along_rows)
    # Whether several blocks share the rows: each thread has many of them, and the device has room for more blocks.
    rows_of_thread = math.ceil(rows / along_rows)
    blocks_across = math.ceil(columns / columns_of_thread / along_columns)
    room = multiprocessors * (threads // (along_columns * along_rows))
    if rows_of_thread < _MOST_ROWS or blocks_across > room:
        return 0
    # How many blocks share them: as many as there is room for, while each thread has its fewest rows.
    sharing = min(math.ceil(room / blocks_across), math.ceil(rows_of_thread / _FEWEST_ROWS))
    sharing = max(sharing, math.ceil(rows_of_thread / _MOST_ROWS))
    if sharing == 1:
        return 0
    partial_sums = columns * sharing * along_columns * columns_of_thread
    finished_blocks = blocks_across  # a counter for each
    return _FLOAT32_BYTES * (partial_sums + finished_blocks)


def _find_power_below(number: int, most: int) -> int:
    """Return the largest power of two that is no larger than a number, and than another one."""
    power: int = 1 << (max(1, number).bit_length() - 1)
    return min(power, most)
