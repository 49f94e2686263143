"""A tensor as the header of a file describes it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from profilerkit.errors import InputError

__all__ = ["StoredTensor", "require_no_overlap"]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file; its values are not read.

    Attributes:
        name: Its name.
        shape: Its sizes, the one that varies slowest first.
        dtype: The name of its dtype or of the type of its blocks: "bfloat16", "Q4_K".
        start: Where its bytes begin, from where those of all tensors begin.
        bytes: How many bytes it has.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
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
