"""Tensors in files of checkpoints: names, shapes, dtypes, and where their bytes are. No values are read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from profilerkit.errors import InputError


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file; its values are not read."""

    name: str
    #: Its sizes, the slowest dimension first.
    shape: tuple[int, ...]
    #: The name of its dtype or of the type of its blocks: "bfloat16", "Q4_K".
    dtype: str
    #: The offset of its bytes from the first byte of all tensors.
    start: int
    bytes: int

    @property
    def elements(self) -> int:
        """The number of its elements, unless several are packed in one."""
        return math.prod(self.shape)


def require_no_overlap(path: Path, tensors: Iterable[StoredTensor], size: int) -> None:
    """Raise `InputError` if tensors share bytes, or do not lie within the ``size`` bytes that a file has for them."""
    end, last = 0, ""
    for tensor in sorted((tensor for tensor in tensors if tensor.bytes), key=lambda tensor: tensor.start):
        if tensor.start < end:
            raise InputError(f"{path} is damaged: its tensors {last!r} and {tensor.name!r} share bytes")
        end, last = tensor.start + tensor.bytes, tensor.name
        if end > size:
            raise InputError(
                f"{path} is cut off: its tensor {tensor.name!r} ends at byte {end:,} of {size:,}; download it again"
            )


def join_tensors(groups: Iterable[Iterable[StoredTensor]], message: str) -> tuple[StoredTensor, ...]:
    """Return the tensors of several groups; raises `InputError` with the message if two have the same name."""
    tensors = tuple(tensor for group in groups for tensor in group)
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise InputError(message)
    return tensors
