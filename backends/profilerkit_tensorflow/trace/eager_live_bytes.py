"""The bytes of the tensors that are alive in an eager run: each until the last Python reference to it is gone."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .eager_patterns import VIEWS
from .values import count_tensor_bytes, static_shape

__all__ = ["EagerLiveBytes"]


class _Freed(weakref.ref[Any]):
    """A reference to a tensor, with its ``id``, which is known by that while it is alive."""

    __slots__ = ("key",)

    key: int


@dataclass
class _Buffer:
    """Bytes that tensors share: how many these bytes are, and how many tensors."""

    bytes: int
    tensors: int = 0


class _Alive(NamedTuple):
    """A tensor that is alive: its buffer, and what is put on the list when it is freed."""

    buffer: _Buffer
    reference: _Freed


class EagerLiveBytes:
    """Counts the bytes of the tensors alive; views share their bytes with what they are views of."""

    def __init__(self) -> None:
        self._total = 0
        self._alive: dict[int, _Alive] = {}
        #: A tensor is put there by code in C: an error in a callback in Python would be lost, and its bytes with it.
        self._freed: deque[_Freed] = deque()

    @property
    def total(self) -> int:
        """The bytes alive now."""
        self._take_off()
        return self._total

    def hold(self, tensors: Iterable[Any]) -> None:
        """Count tensors that are alive from the start."""
        for tensor in tensors:
            self._add(tensor, _Buffer(_count_bytes(tensor)))

    def note(self, kind: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Count what an operator made; a weight that it read is counted elsewhere."""
        for tensor in outputs:
            self._take_off()  # else the id of the input may be that of a tensor that was freed
            viewed = self._alive.get(id(inputs[0])) if kind in VIEWS and inputs else None
            if viewed is not None:
                self._add(tensor, viewed.buffer)
            else:
                self._add(tensor, _Buffer(0 if kind == "ReadVariableOp" else _count_bytes(tensor)))

    def _add(self, tensor: Any, buffer: _Buffer) -> None:
        self._take_off()
        if id(tensor) in self._alive:
            return
        if not buffer.tensors:
            self._total += buffer.bytes
        buffer.tensors += 1
        reference = _Freed(tensor, self._freed.append)
        reference.key = id(tensor)
        self._alive[reference.key] = _Alive(buffer, reference)

    def _take_off(self) -> None:
        """Take off the bytes of what was freed since."""
        while self._freed:
            buffer = self._alive.pop(self._freed.popleft().key).buffer
            buffer.tensors -= 1
            if not buffer.tensors:
                self._total -= buffer.bytes


def _count_bytes(tensor: Any) -> int:
    return count_tensor_bytes(static_shape(tensor), tensor.dtype.name)
