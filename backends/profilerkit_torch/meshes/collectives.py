"""From an operator that exchanges data between ranks to its kind, its ranks and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch.distributed as dist

from ..compat import find_process_group, schema_of
from ..trace.replay import tensors_in

__all__ = ["MeshGroups", "Message", "is_collective", "read_message"]

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


@dataclass(frozen=True, slots=True)
class Message:
    """One collective: between which ranks, and the bytes of the whole tensor."""

    kind: str
    ranks: tuple[int, ...]
    bytes: int

    @property
    def sent_bytes(self) -> int:
        """The bytes that one rank sends around a ring of n: (n - 1) / n of the whole, and twice that to reduce all."""
        others, ranks = len(self.ranks) - 1, len(self.ranks)
        if self.kind in ("send", "broadcast"):
            return self.bytes * (others > 0)
        if self.kind == "receive":
            return 0
        return self.bytes * others * (2 if self.kind == "all-reduce" else 1) // ranks


def is_collective(func: Any) -> bool:
    """Return whether an operator is one of torch's collectives."""
    return str(schema_of(func).name).partition("::")[0] in _SPACES


def read_message(func: Any, args: Sequence[Any], result: Any) -> Message | None:
    """Return what a collective exchanges; None if it exchanges nothing. Raises `LookupError` for one not known."""
    name = str(schema_of(func).name).partition("::")[2]
    if name in _SILENT:
        return None
    kind = next((kind for begin, kind in _KINDS.items() if name.startswith(begin)), None)
    if kind is None:
        raise LookupError(name)
    ranks = tuple(dist.get_process_group_ranks(_find_group(args, name)))
    whole = max(sum(tensor.numel() * tensor.itemsize for tensor in tensors_in(value)) for value in (*args, result))
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


class MeshGroups:
    """Tells which dimensions of a mesh several ranks differ in."""

    def __init__(self, mesh: Mapping[str, int]) -> None:
        self._mesh = mesh

    def name(self, ranks: Sequence[int]) -> str:
        """Return the names of the dimensions in which the ranks differ, joined by commas."""
        left = prod(self._mesh.values())
        names = []
        for dimension, size in self._mesh.items():
            left //= size
            if len({rank // left % size for rank in ranks}) > 1:
                names.append(dimension)
        return ",".join(names)
