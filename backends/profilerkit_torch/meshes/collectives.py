"""From an operator that exchanges data between ranks to its kind, its ranks and its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from profilerkit.costs import Cost
from profilerkit.costs.reduction import all_reduce
from profilerkit_predict.meshes.exchanges import Message

from ..compat.meshes import find_process_group
from ..compat.operators import read_schema
from ..trace.operator_facts import tensors_in
from .shares import count_bytes

__all__ = ["count_additions", "is_collective", "read_message"]

#: By the beginning of an operator's name, in both of torch's families: the longer names come first.
_KINDS = {
    "all_gather": "all-gather",
    "_allgather": "all-gather",
    "allgather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "_reduce_scatter": "reduce-scatter",
    "all_reduce": "all-reduce",
    "allreduce": "all-reduce",
    "all_to_all": "all-to-all",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "send": "send",
    "recv": "receive",
}
_SPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
#: They exchange nothing, or only that a rank is there.
_SILENT = ("wait_tensor", "barrier", "monitored_barrier_")


def is_collective(func: Any) -> bool:
    """Return whether an operator is one of torch's collectives."""
    return str(read_schema(func).name).partition("::")[0] in _SPACES


def read_message(func: Any, args: Sequence[Any], result: Any) -> Message | None:
    """Return what a collective exchanges; None if it exchanges nothing. Raises `LookupError` for one not known."""
    name = str(read_schema(func).name).partition("::")[2]
    if name in _SILENT:
        return None
    kind = next((kind for begin, kind in _KINDS.items() if name.startswith(begin)), None)
    if kind is None:
        raise LookupError(name)
    ranks = tuple(dist.get_process_group_ranks(_find_group(args, name)))
    whole = max(count_bytes(tensors_in(value)) for value in (*args, result))
    return Message(kind, ranks, whole) if len(ranks) > 1 else None


def _find_group(args: Sequence[Any], name: str) -> Any:
    """Return the group among a collective's arguments: an object of torch's in C++, or the name of one."""
    for value in args:
        if _is_boxed_group(value):
            return dist.ProcessGroup.unbox(value)
    names = [value for value in args if isinstance(value, str)]
    if not names:
        raise LookupError(name)
    return find_process_group(names[-1])  # the operation, "sum", comes before it


def _is_boxed_group(value: Any) -> bool:
    try:
        return isinstance(dist.ProcessGroup.unbox(value), dist.ProcessGroup)
    except (RuntimeError, TypeError, ValueError):
        return False


def count_additions(message: Message, args: Sequence[Any], result: Any) -> Cost:
    """Return the additions of a rank: around a ring, one for each element that it adds up; rounded up for all."""
    if message.kind == "all-reduce":
        return all_reduce(_count_elements(args))
    if message.kind == "reduce-scatter":
        whole = max(map(_count_elements, (*args, result)))
        return all_reduce(whole // len(message.ranks), len(message.ranks))
    return Cost(0, 0)


def _count_elements(value: Any) -> int:
    return sum(tensor.numel() for tensor in tensors_in(value))
