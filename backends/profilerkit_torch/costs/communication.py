"""Between the devices of a group: moving costs nothing, and adding up costs each device its share of the additions."""

from __future__ import annotations

from typing import Any

from profilerkit.costs import reduction as reductions

from .registry import Cost, Shape, register_free, register_op_costs
from .shapes import count_elements


@register_op_costs(
    "_c10d_functional::all_reduce _c10d_functional::all_reduce_ _c10d_functional::all_reduce_coalesced",
    "_c10d_functional::all_reduce_coalesced_ _c10d_functional_autograd::all_reduce",
)
def all_reduce(x: Any, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each element: around a ring of n devices each one adds up n - 1 of n parts, rounded up."""
    return reductions.all_reduce(count_elements(x))


@register_op_costs("_c10d_functional_autograd::reduce_scatter_tensor", "_c10d_functional::reduce_scatter_tensor")
def reduce_scatter(x: Shape, reduction: str, group_size: int, *_: Any, out: Shape, **__: Any) -> Cost:
    """``group_size - 1`` additions for each element that a device is left with."""
    return reductions.all_reduce(out.numel, group_size)


_MOVES = """
    all_gather_into_tensor all_gather_into_tensor_out all_gather_into_tensor_coalesced all_to_all_single broadcast
    broadcast_ wait_tensor
"""
for _space in ("_c10d_functional", "_c10d_functional_autograd"):
    register_free(_space, _MOVES)
register_free("fsdp", "all_gather_copy_in split_with_sizes_copy chunk_cat chunk_cat_mixed_dtype")
