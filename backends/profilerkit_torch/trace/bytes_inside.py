"""Bytes that an operator makes for itself and gives back before it returns, where a rule of torch's says how many.

``scaled_dot_product_attention`` makes a mask of numbers, of the queries' dtype, out of a mask of booleans, before it
chooses a kernel (``convert_boolean_attn_mask`` in ``aten/src/ATen/native/transformers/attention.cpp``).

On CUDA a sum over the rows of a matrix, as the gradient of a bias is, adds up parts of the rows in several blocks of
threads, which leave their results in one buffer (``setReduceConfig`` in ``aten/src/ATen/native/cuda/Reduce.cuh``).

The gradients of attention in float32 and of a softmax on CUDA begin with the products of the output and its gradient
(``aten/src/ATen/native/transformers/cuda/attention_backward.cu``, ``aten/src/ATen/native/cuda/SoftMax.cu``).

What other kernels take besides differs between devices, and no trace has it. Of recurrent layers on CUDA it can be
more than all the rest: `find_unknown_inside` names them.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..compat import operator, schema_of

__all__ = ["bytes_inside", "find_unknown_inside", "reduction_bytes"]

_ATTENTION = operator("aten.scaled_dot_product_attention.default")
_EFFICIENT_BACKWARD = operator("aten._scaled_dot_product_efficient_attention_backward.default")
_SOFTMAX_BACKWARD = operator("aten._softmax_backward_data.default")
_SUM = operator("aten.sum.dim_IntList")
#: The threads of a block of a reduction at most, those of a warp, and the rows that each adds up at least and at most.
_THREADS, _WARP, _FEWEST, _MOST = 512, 32, 16, 256
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "_cudnn_rnn_backward")


def bytes_inside(func: Any, args: Any, kwargs: Any, device: torch.device | None) -> int:
    """Return the bytes that are alive only while an operator runs on a device; 0 where no rule says."""
    if func is _SUM and device is not None and device.type == "cuda":
        return _of_sum(args, _processors(device))
    if func is _SOFTMAX_BACKWARD and device is not None and device.type == "cuda":
        return int(args[0].numel()) * int(max(args[0].element_size(), args[1].element_size()))
    if func is _EFFICIENT_BACKWARD and args[0].dtype is torch.float32:
        return 4 * int(args[0].numel())
    if func is not _ATTENTION:
        return 0
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    if mask is None or mask.dtype is not torch.bool:
        return 0
    elements: int = mask.numel()  # one that was expanded is made in full
    return elements * int(args[0].element_size())


def find_unknown_inside(func: Any, device: torch.device | None) -> str:
    """Return the name of what an operator takes for itself on a device where that is much and nobody tells how much."""
    if device is None or device.type != "cuda" or func.namespace != "aten":
        return ""
    name: str = schema_of(func).name.partition("::")[2]
    return f"the workspace of {name}" if name in _RECURRENT else ""


def _processors(device: torch.device) -> tuple[int, int]:
    """Return a device's multiprocessors, and the threads of each."""
    properties: Any = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, properties.max_threads_per_multi_processor


def _of_sum(args: Any, processors: tuple[int, int]) -> int:
    """Return the bytes of the buffer of a sum over all dimensions but the last of a contiguous tensor."""
    x, dimensions = args[0], args[1] if len(args) > 1 else None
    is_over_rows = x.dim() > 1 and sorted(dim % x.dim() for dim in dimensions or ()) == list(range(x.dim() - 1))
    if not is_over_rows or not x.is_contiguous() or x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return 0
    columns = x.shape[-1]
    return reduction_bytes(x.numel() // max(1, columns), columns, *processors)


def reduction_bytes(rows: int, columns: int, multiprocessors: int, threads: int) -> int:
    """Return the bytes of the buffer in which a sum over rows is put together, in float32.

    Each thread adds up several rows of 4, 2 or 1 neighboring columns. A block has as many threads along the columns as
    a warp, at most, and the others along the rows. Several blocks share the rows of the same columns if the device has
    room for them, and each of them then has as many places in the buffer for each column as there are columns in it.

    >>> reduction_bytes(8192, 4096, multiprocessors=132, threads=2048)  # a gigabyte of rows would need no more
    138412160
    """
    wide = next((size for size in (4, 2) if columns % size == 0), 1)
    most = _THREADS // wide
    across = min(_power_below(columns // wide, most), _WARP)
    along = min(_power_below(rows, most), most // across)
    across = min(_power_below(columns // wide, most), most // along)
    of_thread = math.ceil(rows / along)
    grid = math.ceil(columns / wide / across)
    blocks = multiprocessors * (threads // (across * along))
    if of_thread < _MOST or grid > blocks:
        return 0
    sharing = max(min(math.ceil(blocks / grid), math.ceil(of_thread / _FEWEST)), math.ceil(of_thread / _MOST))
    return 4 * columns * sharing * across * wide + 4 * grid if sharing > 1 else 0


def _power_below(number: int, most: int) -> int:
    """Return the largest power of two that is no larger than a number, and than another one."""
    power: int = 1 << (max(1, number).bit_length() - 1)
    return min(power, most)
