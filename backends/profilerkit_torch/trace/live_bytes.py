"""The bytes alive at once, by the lifetimes of storages."""

from __future__ import annotations

import weakref
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..compat.tensors import find_storage, storage_address
from ..model.storages import list_parts, storage_key
from ..model.tensors import PLAIN_TYPES

__all__ = ["INPUT", "LiveBytes", "select_makers"]

#: The maker of an input of the model.
INPUT = -1
#: The maker of a storage that no operator has written to, such as a weight or a constant.
NOBODY = -2


class _Watched(weakref.ref[Any]):
    """A storage that is alive."""

    __slots__ = ("counted", "heirs", "key", "made", "maker", "part", "seen", "suspicion", "values", "weights")

    #: Its address.
    key: int
    #: Its bytes when it was last seen, and the bytes that count.
    seen: int
    counted: int
    #: The bytes of weights in it, which a trace has beside the bytes alive.
    weights: int
    #: The part of memory that it belongs to.
    part: Any
    #: Whether it was made for the pass, and should be gone after it.
    made: bool
    #: The place of the operator that wrote to it last; `INPUT` or `NOBODY` where none has.
    maker: int
    #: Why its content may be of unknown origin: a `Suspicion`, or None.
    suspicion: Any
    #: The storage with its values, or a tensor that has them, if it has none and they are known: see `KnownValues`.
    values: Any
    #: The storages of its stand-ins on the meta device, which take its place when it is freed.
    heirs: tuple[_Watched, ...]


class LiveBytes:
    """Counts the bytes of all storages alive: each one once, from its first tensor until it is freed.

    A storage that is freed is only put on a list, by code in C: an interrupt that Python raised in a callback of its
    own would be lost, and the bytes with it.
    """

    def __init__(self) -> None:
        self._total = 0
        #: The part that new storages belong to from now on, and the bytes alive of each part; the bytes of "weights"
        #: are less than 0 if weights were freed.
        self.part: Any = "inputs"
        self.parts: Counter[Any] = Counter()
        self._watched: dict[int, _Watched] = {}
        #: The freed storages that are not taken off yet.
        self._freed: deque[_Watched] = deque()

    @property
    def total(self) -> int:
        """The bytes alive now."""
        if self._freed:
            self.take_off()
        return self._total

    @property
    def by_storage(self) -> Mapping[int, _Watched]:
        """The storages alive now, by their addresses."""
        if self._freed:
            self.take_off()
        return self._watched

    def take_off(self) -> None:
        """Take off the freed storages; only then can a new storage at the same address be counted."""
        freed = self._freed
        while freed:
            watched = freed.popleft()
            del self._watched[watched.key]
            self.parts[watched.part] -= watched.counted
            self.parts["weights"] -= watched.weights
            self._total -= watched.counted + watched.weights
            heirs = self._list_alive(watched.heirs) if watched.heirs else ()
            if heirs:  # in a run they are one storage: the first of them has its bytes from now on
                first, *rest = heirs
                first.heirs = (*first.heirs, *rest)
                self._count(first, watched.counted)

    def _count(self, watched: _Watched, by: int) -> None:
        """Count more bytes of a storage, or fewer."""
        watched.counted += by
        self._total += by
        self.parts[watched.part] += by

    def _list_alive(self, storages: Iterable[_Watched]) -> list[_Watched]:
        return [watched for watched in storages if self._watched.get(watched.key) is watched]

    def add_stand_in(self, tensor: torch.Tensor, stand_in: torch.Tensor) -> None:
        """Count a stand-in for a real tensor as nothing, and as that when it is freed: in a run they are one."""
        self.add(stand_in, size=0)
        watched, heir = self.find(tensor), self.find(stand_in)
        if watched is not None and heir is not None:
            watched.heirs = (*self._list_alive(watched.heirs), heir)

    def add(
        self,
        tensor: torch.Tensor,
        size: int | None = None,
        made: bool = False,
        maker: int = NOBODY,
        *,
        is_weight: bool = False,
    ) -> int:
        """Count the tensor's storage, or its growth; return its bytes if it was not known before, else 0.

        ``size`` replaces its bytes. ``made`` means that the storage was made for the pass, and should be gone after it.
        ``maker`` is the operator that has just written to it. ``is_weight`` means that a trace has its bytes beside the
        bytes alive, where they stay even if the model replaces the weight in its pass: when it is freed, its bytes are
        subtracted.
        """
        try:
            storage = tensor.untyped_storage() if type(tensor) in PLAIN_TYPES else find_storage(tensor)
        except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
            return sum([self.add(part, size, made, maker, is_weight=is_weight) for part in list_parts(tensor)])
        if self._freed:
            self.take_off()
        key, nbytes = storage_address(storage), int(storage.nbytes())
        watched = self._watched.get(key)
        if watched is not None:
            if nbytes > watched.seen:
                self._count(watched, nbytes - watched.seen)
                watched.seen = nbytes
            if maker != NOBODY:
                watched.maker = maker
            return 0
        counted = nbytes if size is None else min(size, nbytes)
        if counted:
            self._total += counted
            self.parts[self.part] += counted
        watched = self._watched[key] = _Watched(storage, self._freed.append)
        watched.key, watched.seen, watched.counted, watched.part = key, nbytes, counted, self.part
        watched.made, watched.maker, watched.suspicion, watched.values, watched.heirs = made, maker, None, None, ()
        watched.weights = nbytes if is_weight else 0
        return nbytes

    def discount(self, tensor: torch.Tensor) -> None:
        """Count a tensor's storage as nothing: the pass has met it, and somebody else has it."""
        watched = self.find(tensor)
        if watched is not None:
            self._count(watched, -watched.counted)

    def resize(self, storage: Any) -> None:
        """Count a storage that is known, and whose memory was taken or given back, as large as it is now."""
        watched = self.by_storage.get(storage_address(storage))
        if watched is not None:
            self._count(watched, storage.nbytes() - watched.counted)
            watched.seen = storage.nbytes()

    def list_makers(self, tensors: Iterable[torch.Tensor], before: int) -> tuple[int, ...]:
        """Return the operators that wrote last to these tensors, in order, each once; only those before a place."""
        if self._freed:
            self.take_off()
        makers = set()
        for tensor in tensors:
            watched = self._watched.get(storage_key(tensor))
            if watched is not None:
                makers.add(watched.maker)
        return select_makers(makers, before)

    def move(self, tensor: torch.Tensor, part: Any) -> None:
        """Count the tensor's storage to another part from now on."""
        watched = self.find(tensor)
        if watched is not None:
            self.parts[watched.part] -= watched.counted
            self.parts[part] += watched.counted
            watched.part = part

    def mark_as_made(self, results: Iterable[torch.Tensor], arguments: Iterable[torch.Tensor]) -> None:
        """Note that an operator's results were made for the pass, unless they share storage with its arguments."""
        shared = {storage_key(tensor) for tensor in arguments}
        for tensor in results:
            watched = self.find(tensor)
            if watched is not None and watched.key not in shared:
                watched.made = True

    def list_remaining(self) -> set[int]:
        """Return the addresses of the storages made for the pass that are still alive."""
        return {key for key, watched in list(self.by_storage.items()) if watched.made}

    def find(self, tensor: torch.Tensor) -> _Watched | None:
        """Return what is known of the tensor's storage; None where it is not alive, or not known."""
        return self.by_storage.get(storage_key(tensor))


def select_makers(makers: Iterable[int], before: int) -> tuple[int, ...]:
    """Return the makers that are operators before a place, or the inputs of the model, in order."""
    return tuple(sorted(filter(range(INPUT, before).__contains__, makers)))
