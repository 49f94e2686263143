"""From an operator that exchanges data between ranks to its kind, its ranks and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch.distributed as dist

from profilerkit.costs import Cost
from profilerkit.costs.reduction import all_reduce
from profilerkit_predict.meshes.records import Collective

from ..compat.meshes import find_process_group
from ..compat.operators import read_schema
from ..trace.operator_facts import tensors_in
from .shares import count_bytes

__all__ = ["Exchanges", "Message", "count_additions", "is_collective", "read_message"]

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
        others = len(self.ranks) - 1
        if self.kind == "receive" or not others:
            return 0
        if self.kind in ("send", "broadcast"):
            return self.bytes
        rounds = 2 if self.kind == "all-reduce" else 1
        return self.bytes * others * rounds // len(self.ranks)


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


class _Kind(NamedTuple):
    """What equal collectives have in common; the dimensions of the mesh are joined by commas."""

    layer: str
    kind: str
    dimensions: str
    phase: str
    overlaps: bool


@dataclass
class _Sum:
    """Calls and bytes of equal collectives."""

    ranks: int
    calls: int = 0
    bytes: int = 0
    sent_bytes: int = 0


class Exchanges:
    """Adds up the collectives of a step over a mesh."""

    def __init__(self, mesh: Mapping[str, int]) -> None:
        self.mesh = mesh
        self._sums: dict[_Kind, _Sum] = {}

    def add(self, message: Message, layer: str, phase: str, overlaps: bool = False) -> None:
        """Add a collective of a layer; one that ``overlaps`` runs beside the rank's own work."""
        kind = _Kind(layer, message.kind, self._name_dimensions(message.ranks), phase, overlaps)
        total = self._sums.setdefault(kind, _Sum(len(message.ranks)))
        total.calls += 1
        total.bytes += message.bytes
        total.sent_bytes += message.sent_bytes

    def list_collectives(self) -> tuple[Collective, ...]:
        """Return what was exchanged so far: equal collectives of a layer together."""
        return tuple(
            Collective(
                kind.layer,
                kind.kind,
                kind.dimensions,
                total.ranks,
                kind.phase,
                total.calls,
                total.bytes,
                total.sent_bytes,
                kind.overlaps,
            )
            for kind, total in self._sums.items()
        )

    def _name_dimensions(self, ranks: Sequence[int]) -> str:
        """Return the names of the dimensions of the mesh in which ranks differ, joined by commas."""
        step = prod(self.mesh.values())
        names = []
        for dimension, size in self.mesh.items():
            step //= size
            if len({rank // step % size for rank in ranks}) > 1:
                names.append(dimension)
        return ",".join(names)
