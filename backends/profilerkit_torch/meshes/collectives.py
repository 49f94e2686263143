"""The operators that exchange data between ranks: the kind, the ranks and the bytes of each, and those of a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from profilerkit_predict.meshes.records import Message, PlacedCollective, make_collective

from ..compat.meshes import find_process_group
from ..compat.operators import read_schema
from ..compat.tensors import storage_address
from ..trace.operator_facts import tensors_in
from .rank_memory import count_bytes

__all__ = ["Exchange", "Exchanges", "count_elements", "is_collective", "read_message"]

# torch has two families of these operators. Operators of ``torch.distributed`` ("c10d::allreduce_") change tensors in
# place and get the group of ranks as an object. Operators that compilers use ("_c10d_functional::all_reduce") return
# new tensors and get the name of the group.

#: The kind of a collective by the beginning of its operator's name, in both families. No beginning includes another.
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
#: The namespaces of operators that are collectives: the part of their names before "::".
_NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
#: Operators of these namespaces that exchange no data: they wait for an exchange, or for the other ranks.
_WITHOUT_DATA = ("wait_tensor", "barrier", "monitored_barrier_")


def is_collective(func: Any) -> bool:
    """Return whether an operator is one of torch's collectives."""
    return func.namespace in _NAMESPACES


def read_message(func: Any, args: Sequence[Any], result: Any) -> Message | None:
    """Return the message of a collective; None if it exchanges nothing, as with one rank alone.

    The bytes of the message are the bytes of the whole tensor that the ranks share: the result of an all-gather, the
    argument of a reduce-scatter, and for others the argument or the result: the largest of all arguments and results.
    Raises LookupError with the operator's name if it is not known, or if none of its arguments is a group.
    """
    _, _, name = str(read_schema(func).name).partition("::")
    if name in _WITHOUT_DATA:
        return None
    kind = _find_kind(name)
    ranks = tuple(dist.get_process_group_ranks(_find_group(args, name)))
    if len(ranks) == 1:
        return None
    whole_bytes = max(count_bytes(tensors_in(value)) for value in (*args, result))
    return Message(kind, ranks, whole_bytes)


def _find_kind(name: str) -> str:
    for beginning, kind in _KINDS.items():
        if name.startswith(beginning):
            return kind
    raise LookupError(name)


def _find_group(args: Sequence[Any], name: str) -> dist.ProcessGroup:
    """Return the group of ranks among a collective's arguments: an object of torch in C++, or the name of a group.

    A name is the last text: the operation of a reduction ("sum") is a text before it.
    """
    for value in args:
        group = _unbox_group(value)
        if group is not None:
            return group
    texts = [value for value in args if isinstance(value, str)]
    if not texts:
        raise LookupError(name)
    named_group: dist.ProcessGroup = find_process_group(texts[-1])
    return named_group


def _unbox_group(value: Any) -> dist.ProcessGroup | None:
    """Return the group of an object of torch in C++; None for any other value."""
    try:
        group = dist.ProcessGroup.unbox(value)
    except (RuntimeError, TypeError, ValueError):
        return None
    return group if isinstance(group, dist.ProcessGroup) else None


def count_elements(args: Sequence[Any], result: Any) -> int:
    """Return the elements of the whole tensor that the ranks of a collective share, from its arguments and result."""
    return max(sum(tensor.numel() for tensor in tensors_in(value)) for value in (*args, result))


# Those of a step ------------------------------------------------------------------------------------------------------


class Exchange(NamedTuple):
    """A collective of a step, and its purpose."""

    message: Message  #: the message that it exchanges
    layer: str
    phase: str
    overlaps: bool  #: whether it runs beside the rank's own work
    #: The tensor whose gradient is reduced, by the node that made the tensor; None for other collectives.
    source: tuple[int, int] | None = None


class Exchanges:
    """The collectives of a step, and what is known of later ones."""

    def __init__(self) -> None:
        #: How often each collective that is not known was called, by its name.
        self.unknown: Counter[str] = Counter()
        self.by_operator: dict[int, Exchange] = {}  #: the collectives, by the places of their operators
        self._updates: list[Exchange] = []  #: the collectives after the update of the weights
        #: The phase that a tensor is exchanged for, by the address of its storage.
        self._phases: dict[int, str] = {}

    def note_phase(self, tensor: torch.Tensor, phase: str) -> None:
        """Note the phase for which a tensor will be sent or received, at any time."""
        self._phases[storage_address(tensor.untyped_storage())] = phase

    def find_phase(self, args: Any) -> str | None:
        """Return the phase that the arguments of a collective are exchanged for; None if none is noted."""
        addresses = (storage_address(tensor.untyped_storage()) for tensor in tensors_in(args))
        return next((self._phases[address] for address in addresses if address in self._phases), None)

    def note_update(self, message: Message, path: str) -> None:
        """Note a message that is exchanged for a layer after the update of the weights."""
        self._updates.append(Exchange(message, path, "update", overlaps=False))

    def list_placed(self, mesh: Mapping[str, int], operators: int) -> Iterator[PlacedCollective]:
        """Yield the collectives of a step of so many operators over a mesh, in their order."""
        updates = ((operators, exchange) for exchange in self._updates)
        for position, exchange in (*self.by_operator.items(), *updates):
            collective = make_collective(exchange.message, exchange.layer, exchange.phase, exchange.overlaps, mesh)
            yield PlacedCollective(position, collective)
