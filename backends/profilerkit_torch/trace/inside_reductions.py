"""The bytes inside sums, other reductions and sorting (``ReduceOps.cpp``, ``ReduceOpsUtils.h``, ``Sorting.cpp``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from ..costs.shapes import has_floats
from ..model.storages import count_stored_bytes
from .inside_operation import Operation, count_copy, count_copy_on_cpu
from .row_sums import count_row_sum_bytes, is_sum_over_rows

__all__ = ["RULES"]

_NARROW = (torch.bfloat16, torch.float16)
_FLOAT32_BYTES = 4
_INT64_BYTES = 8


def _count_in_sum(total: Operation) -> int:
    """Return the bytes of a sum's input in the dtype that is added up, or of its buffer over rows on CUDA."""
    if total.is_on("cuda") and is_sum_over_rows(total.x, total.get("dim")):
        return count_row_sum_bytes(total.device, total.x)
    return _count_cast(total)


def _count_in_mean(mean: Operation) -> int:
    """Return the bytes of a mean's input in the dtype that is added up: float32 for narrow numbers."""
    is_widened = mean.x.dtype in _NARROW and mean.get("dtype") is None
    return _count_as(torch.float32, mean) if is_widened else _count_cast(mean)


def _count_cast(reduction: Operation) -> int:
    """Return the bytes of a reduction's input in the dtype that is added up: in int64 for integers."""
    x = reduction.x
    return _count_as(reduction.get("dtype") or (x.dtype if has_floats(x) else torch.int64), reduction)


def _count_as(dtype: torch.dtype, reduction: Operation) -> int:
    """Return the bytes of a reduction's input in a dtype; accelerators cast floats as they read."""
    is_cast = dtype is not reduction.x.dtype and (reduction.is_on("cpu") or not has_floats(reduction.x))
    return reduction.x.numel() * dtype.itemsize if is_cast else 0


def _count_truths(reduction: Operation) -> int:
    """Return the bytes of a boolean for each number: the CPU reduces these."""
    is_read = reduction.x.dtype in (torch.bool, torch.uint8) or not reduction.is_on("cpu")
    return 0 if is_read else reduction.x.numel()


def _count_in_log_sum(log_sum: Operation) -> int:
    """Return the bytes of the largest numbers and of the exponentials of what is left; integers become floats first."""
    x, output = log_sum.x, log_sum.result
    itemsize, copies = (x.element_size(), 1) if has_floats(x) else (_FLOAT32_BYTES, 2)
    return int(itemsize * (copies * x.numel() + output.numel()))


def _count_in_sort(sort: Operation) -> int:
    """Return the bytes of the places of one row, which the CPU sorts with its numbers."""
    length = sort.x.shape[sort.get("dim", -1)] if sort.x.dim() else 1
    return length * _INT64_BYTES if sort.is_on("cpu") else 0


def _count_in_argsort(sort: Operation) -> int:
    """Return the bytes of the sorted numbers too."""
    return count_stored_bytes(sort.x) + _count_in_sort(sort)


def _count_in_taking(taking: Operation) -> int:
    """Return the bytes of the positions along a dimension, which may be negative and are counted from its start."""
    return 0 if taking.get("dim") is None else taking.result.numel() * _INT64_BYTES


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    _count_in_sum: "sum.dim_IntList",
    _count_cast: """
        sum.default nansum.default linalg_vector_norm.default prod.default prod.dim_int cumsum.default
        cumprod.default
    """,
    _count_in_mean: "mean.default mean.dim",
    _count_truths: "any.default any.dim any.dims all.default all.dim all.dims",
    _count_in_log_sum: "logsumexp.default",
    _count_in_sort: "sort.default sort.stable",
    _count_in_argsort: "argsort.default argsort.stable",
    _count_in_taking: "take_along_dim.default",
    partial(count_copy_on_cpu, count_copy, "x"): "bucketize.Tensor searchsorted.Tensor",
}
