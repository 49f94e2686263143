"""An operator that has run, and the copies that kernels make of tensors whose numbers lie apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from ..costs.shapes import is_plain
from ..model.storages import count_stored_bytes

__all__ = [
    "Operation",
    "count_copy",
    "count_copy_of_images",
    "count_copy_of_sequences",
    "count_copy_on_cpu",
    "is_one_dimension",
]


class Operation(NamedTuple):
    """An operator that has run.

    Attributes:
        arguments: Its arguments by the names that formulas use: see `argument_names`.
        result: What it has returned.
        device: The device on whose kernels the model would run, "meta" for any accelerator; None where nobody knows.
    """

    arguments: dict[str, Any]
    result: Any
    device: torch.device | None

    @property
    def x(self) -> torch.Tensor:
        """The tensor that it computes with."""
        x: torch.Tensor = self.arguments["x"]
        return x

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument; the default where the caller has left it out."""
        return self.arguments.get(name, default)

    def is_on(self, kind: str) -> bool:
        """Return whether its device is known, and of a kind: "cpu" or "cuda"."""
        return self.device is not None and self.device.type == kind


def count_copy(tensor: torch.Tensor) -> int:
    """Return the bytes of the copy of a tensor with gaps between its numbers; others are read as they are."""
    return 0 if tensor.is_nested or tensor.is_contiguous() else count_stored_bytes(tensor)


def count_copy_of_images(images: torch.Tensor) -> int:
    """Return the bytes of a copy of images, which a kernel needs without gaps, in rows or with the channels last."""
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    layout = layouts.get(images.dim(), torch.contiguous_format)
    is_dense = images.is_contiguous() or images.is_contiguous(memory_format=layout)
    return 0 if is_dense else images.nbytes


def count_copy_of_sequences(sequences: torch.Tensor) -> int:
    """Return the bytes of a copy of sequences, which a kernel takes as images of one row."""
    return count_copy_of_images(sequences.unsqueeze(-2))


def count_copy_on_cpu(copy: Callable[[torch.Tensor], int], name: str, operation: Operation) -> int:
    """Return the bytes of a copy that the CPU makes of the argument of a name, as of the repeated gradient of a sum."""
    tensor = operation.arguments[name]
    return copy(tensor) if operation.is_on("cpu") and is_plain(tensor) else 0


def is_one_dimension(dimensions: Sequence[tuple[int, int]]) -> bool:
    """Return whether dimensions, each a stride and a size, the outermost first, can be viewed as one."""
    return all(stride == inner_stride * size for (stride, _), (inner_stride, size) in pairwise(dimensions))
