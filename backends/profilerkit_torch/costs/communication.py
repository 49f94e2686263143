"""Communication in a group of devices: moving costs nothing, and a reduction costs each device its share of the sums.

torch has two families of these operators: operators of ``torch.distributed`` write into the caller's tensors, operators
that compilers use return new tensors.
"""

from __future__ import annotations

from typing import Any

from profilerkit.costs import reduction as reductions

from .families import register_free, register_op_costs
from .registry import Cost
from .shapes import count_elements

_FUNCTIONAL = ("_c10d_functional", "_c10d_functional_autograd")


@register_op_costs(
    "_c10d_functional::all_reduce _c10d_functional::all_reduce_ _c10d_functional::all_reduce_coalesced",
    "_c10d_functional::all_reduce_coalesced_ _c10d_functional_autograd::all_reduce",
    "c10d::allreduce_ c10d::allreduce_coalesced_ c10d::reduce_",
)
def all_reduce(x: Any, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each element: around a ring of n devices each one adds up n - 1 of n parts, rounded up."""
    return reductions.all_reduce(count_elements(x))


@register_op_costs(
    "_c10d_functional::reduce_scatter_tensor _c10d_functional::reduce_scatter_tensor_coalesced",
    "_c10d_functional::reduce_scatter_tensor_out _c10d_functional_autograd::reduce_scatter_tensor",
)
def reduce_scatter(x: Any, *_: Any, out: Any, **__: Any) -> Cost:
    """One addition for each element that the result has fewer than the input: an addition makes one element of two."""
    return reductions.all_reduce(count_elements(x) - count_elements(out))


@register_op_costs("c10d::_reduce_scatter_base_ c10d::reduce_scatter_ c10d::reduce_scatter_tensor_coalesced_")
def reduce_scatter_into(result: Any, x: Any, *_: Any, out: Any, **__: Any) -> Cost:
    """Return the cost of `reduce_scatter` into tensors that the caller gives."""
    return reductions.all_reduce(count_elements(x) - count_elements(result))


_MOVES = """
    _wrap_tensor_autograd all_gather_into_tensor all_gather_into_tensor_out all_gather_into_tensor_coalesced
    all_to_all_single batch_p2p_ops broadcast broadcast_ irecv isend wait_tensor
"""
for _space in _FUNCTIONAL:
    register_free(_space, _MOVES)
register_free(
    "c10d",
    """
    _allgather_base_ allgather_ allgather_coalesced_ allgather_into_tensor_coalesced_ alltoall_ alltoall_base_ barrier
    broadcast_ gather_ monitored_barrier_ recv_ recv_any_source_ scatter_ send
    """,
)
register_free("fsdp", "all_gather_copy_in split_with_sizes_copy chunk_cat chunk_cat_mixed_dtype")
