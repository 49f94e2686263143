"""The bytes of tensors that may be views of one another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..compat.tensors import find_storage, storage_address
from ..model.tensors import list_wrapped
from ..model.weights import find_spans

__all__ = ["list_viewed_bytes"]


def list_viewed_bytes(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[torch.Tensor, int]]:
    """Yield a tensor of each storage with the sum of the bytes of the tensors in it.

    Tensors of the same elements count once, such as a tensor and its transpose, and an expanded tensor only with what
    is stored. Tensors that overlap in part count in full: the sum may be more than the bytes of the storage, which
    `LiveBytes.add` does not exceed.
    """
    shown: dict[Any, dict[Any, int]] = {}
    first: dict[Any, torch.Tensor] = {}
    for tensor in tensors:
        for part in list_wrapped(tensor) or [tensor]:
            size = part.element_size()
            if part.is_nested or part.layout is not torch.strided:
                yield part, part.numel() * size
                continue
            storage = storage_address(find_storage(part))
            spans = find_spans(part)
            elements = math.prod(length for stride, length in spans if stride)
            shown.setdefault(storage, {})[part.storage_offset() * size, spans, size] = elements * size
            first.setdefault(storage, part)
    for storage, views in shown.items():
        yield first[storage], sum(views.values())
