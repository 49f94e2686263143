"""The bytes of the tensors that are alive in an eager run: each until the last Python reference to it is gone."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from ..compat.eager_runs import identify_tensor
from .split_products import VIEWS
from .tensor_facts import count_tensor_bytes, static_shape

__all__ = ["EagerLiveBytes"]


class EagerLiveBytes:
    """Counts the bytes of the tensors alive; views share the bytes of their bases."""

    def __init__(self) -> None:
        self._total = 0
        #: By the number of the tensor.
        self._alive: dict[int, _Alive] = {}
        #: A tensor is put there by code in C: an error in a callback in Python would be lost, and its bytes with it.
        self._freed: deque[_Freed] = deque()

    @property
    def total(self) -> int:
        """The bytes alive now."""
        self._take_off()
        return self._total

    def hold(self, tensors: Iterable[Any]) -> None:
        """Count tensors that are alive from the start; of sparse and ragged ones the parts."""
        for part in tf.nest.flatten(list(tensors), expand_composites=True):
            self._add(part, _Buffer(_count_bytes(part)))

    def note(self, kind: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Count the outputs of an operator; a weight that it read is counted elsewhere."""
        self._take_off()
        viewed = self._alive.get(identify_tensor(inputs[0])) if kind in VIEWS and inputs else None
        for tensor in outputs:
            size = 0 if kind == "ReadVariableOp" else _count_bytes(tensor)
            self._add(tensor, _Buffer(size) if viewed is None else viewed.buffer)

    def _add(self, tensor: Any, buffer: _Buffer) -> None:
        number = identify_tensor(tensor)
        if number in self._alive:
            return
        if not buffer.tensors:
            self._total += buffer.bytes
        buffer.tensors += 1
        reference = _Freed(tensor, self._freed.append)
        reference.number = number
        self._alive[number] = _Alive(buffer, reference)

    def _take_off(self) -> None:
        """Subtract the bytes of tensors that were freed since."""
        while self._freed:
            buffer = self._alive.pop(self._freed.popleft().number).buffer
            buffer.tensors -= 1
            if not buffer.tensors:
                self._total -= buffer.bytes


class _Freed(weakref.ref[Any]):
    """A reference to a tensor, with its number."""

    __slots__ = ("number",)

    number: int


@dataclass
class _Buffer:
    """Bytes that tensors share: how many these bytes are, and how many tensors."""

    bytes: int
    tensors: int = 0


class _Alive(NamedTuple):
    """A tensor that is alive: its buffer, and the reference that is put on the list when the tensor is freed."""

    buffer: _Buffer
    reference: _Freed


def _count_bytes(tensor: Any) -> int:
    return count_tensor_bytes(static_shape(tensor), tensor.dtype.name)
