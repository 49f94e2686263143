"""The weights of a layer as records: what is counted of them, what they take, and which are the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.trace.records import WeightRecord

from ..costs.shapes import is_plain, replace_by_shapes
from .packed_weights import count_stored_bytes as size_of
from .packed_weights import logical_count
from .tensors import identify_elements

__all__ = ["note_quantization", "size_of", "weight_record"]


def note_quantization(model: torch.nn.Module) -> Iterator[str]:
    """Yield a note where a model of transformers is built without the quantization that its configuration names.

    A model that transformers loaded quantized has its quantizer, and weights that are counted as they are stored. Any
    other model may have a ``config`` of its own, and whatever in it.
    """
    try:
        quantization = getattr(getattr(model, "config", None), "quantization_config", None)
        has_quantizer = getattr(model, "hf_quantizer", None) is not None
    except MemoryError:
        raise
    except Exception:  # of a property of the user's, which is not asked for its value otherwise
        return
    if has_quantizer:
        return
    content = quantization if isinstance(quantization, dict) else getattr(quantization, "__dict__", {})
    method = content.get("quant_method")
    method = getattr(method, "value", method)  # a member of an enumeration, or its text
    if isinstance(method, str):
        yield (
            f"the configuration of the model says that its weights are stored quantized ({method}); this model has "
            "them unquantized, and its size, memory and times are those of unquantized weights"
        )


def weight_record(
    name: str,
    tensor: torch.Tensor,
    identities: dict[Any, int],
    *,
    persistent: bool = True,
    key: Any = None,
    count: int | None = None,
) -> WeightRecord:
    """Return the record of a weight.

    ``key`` is the identity of one that is no tensor of the module's own; ``count`` how many numbers it stands for,
    where the tensor alone does not determine it.
    """
    ordinary = _ORDINARY.get(tensor.dtype)
    if ordinary is not None and type(tensor) in _PLAIN_TYPES and is_plain(tensor):
        elements, (dtype, size) = tensor.numel(), ordinary
        return WeightRecord(
            name,
            identities.setdefault(key or _identity(tensor, False), len(identities)),
            elements if count is None else count,
            elements * size,
            dtype,
            tensor.requires_grad and key is None,
            persistent,
            tuple(tensor.shape),
        )
    lazy = is_unsized(tensor)
    return WeightRecord(
        name,
        identities.setdefault(key or _identity(tensor, lazy), len(identities)),
        logical_count(tensor) if count is None else count,
        0 if lazy else size_of(tensor),
        _name_dtype(tensor.dtype),
        tensor.requires_grad and key is None,
        persistent,
        () if lazy else tuple(replace_by_shapes(tensor) if tensor.is_nested else tensor.shape),
    )


#: Of these classes and dtypes a tensor's elements are the numbers that it stands for: name and bytes of each.
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
_ORDINARY = {
    dtype: (str(dtype).removeprefix("torch."), dtype.itemsize)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.bool)
}


@cache
def _name_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _identity(tensor: torch.Tensor, lazy: bool) -> Any:
    """Return what two parameters share exactly where they are tied: the same elements of the same storage."""
    shared = None if lazy or tensor.numel() == 0 else identify_elements(tensor)
    if shared is None:
        return id(tensor)
    storage, offset, *_ = shared
    return storage, offset, _span(tensor)


def _span(tensor: torch.Tensor) -> tuple[tuple[int, int], ...]:
    """Return which elements after the first are a tensor's, in whatever order: its own transpose has the same."""
    if tensor.is_contiguous():
        return ((1, tensor.numel()),)
    spans: list[tuple[int, int]] = []
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if spans and spans[-1][0] * spans[-1][1] == stride:
            spans[-1] = (spans[-1][0], spans[-1][1] * size)
        elif size > 1:
            spans.append((stride, size))
    return tuple(spans)
