"""The buffer of a sum over the rows of a matrix on CUDA, such as the gradient of a bias.

Several blocks of threads add up parts of the rows, and leave their results in one buffer (``setReduceConfig`` in
``aten/src/ATen/native/cuda/Reduce.cuh``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["count_reduction_bytes", "count_row_sum_bytes", "is_sum_over_rows"]

#: The most threads of a block in a reduction on CUDA, and the threads of a warp.
_MOST_THREADS, _WARP = 512, 32
#: The bytes of a partial sum, and of a counter.
_FLOAT32_BYTES = 4
#: The rows that a thread adds up at least, where several blocks share them, and at most.
_FEWEST_ROWS, _MOST_ROWS = 16, 256


def count_row_sum_bytes(device: torch.device | None, x: torch.Tensor) -> int:
    """Return the bytes of the buffer in which a CUDA device puts the sum over all dimensions but the last together."""
    columns = x.shape[-1]
    return count_reduction_bytes(x.numel() // max(1, columns), columns, *_count_processors(device))


def is_sum_over_rows(x: torch.Tensor, dimensions: Sequence[int] | None = None) -> bool:
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
