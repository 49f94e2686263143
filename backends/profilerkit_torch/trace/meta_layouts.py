"""How kernels lay out what they return, where torch's kernels for meta tensors have another layout.

Convolutions, norms and paddings keep channels last. Attention's fused kernels return what is laid out as the queries
are; the meta kernel puts the heads before the tokens instead, so that models which join the heads afterwards would seem
to copy them. A model that asks ``x.is_contiguous()`` takes another way by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..compat import schema_of

__all__ = ["as_in_a_run", "attention_output"]


def attention_output(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> torch.Tensor | None:
    """Return the output of ``scaled_dot_product_attention``; None where its own kernel must judge the arguments."""
    shapes = (query.shape, key.shape, value.shape)
    if any(len(shape) != 4 for shape in shapes) or key.shape != value.shape or not value.is_meta or not key.is_meta:
        return None
    (batch, heads, queries, width), (key_batch, key_heads, keys, key_width) = shapes[:2]
    grouped = enable_gqa and heads % key_heads == 0
    if (batch, width) != (key_batch, key_width) or not (heads == key_heads or grouped):
        return None
    if not query.dtype == key.dtype == value.dtype or (attn_mask is not None and is_causal):
        return None
    if attn_mask is not None:
        full = (1, 1, 1, 1, *attn_mask.shape)[-4:]
        fits = zip(full, (batch, heads, queries, keys), strict=True)
        if attn_mask.dim() > 4 or any(size not in (1, expected) for size, expected in fits):
            return None
    if query.stride(-1) != 1:  # its kernels do not take that: attention is spelled out
        return torch.empty_like(query, memory_format=torch.contiguous_format)
    return torch.empty_like(query)


def as_in_a_run(func: Any, args: Any, result: Any) -> Any:
    """Return what an operator made without values, laid out as its kernels lay it out."""
    layout_of = _LAYOUTS.get(schema_of(func).name)
    if layout_of is None or not args or not isinstance(args[0], torch.Tensor):
        return result
    layout = layout_of(args)
    first = result[0] if isinstance(result, (tuple, list)) else result
    if layout is None or first.is_contiguous(memory_format=layout):
        return result
    first = torch.empty_like(first, memory_format=layout)
    return first if isinstance(result, torch.Tensor) else type(result)((first, *result[1:]))


def _of_tensor(args: Any) -> torch.memory_format | None:
    """Return the layout of a kernel that has two of them, and takes the one of its first tensor."""
    tensor = args[0]
    return None if tensor.is_contiguous() else _channels_last(tensor) or torch.contiguous_format


def _of_convolution(args: Any) -> torch.memory_format | None:
    """Return channels last where the images or the weights are."""
    tensor, weight = args[:2]
    if tensor.dim() != weight.dim() or (tensor.is_contiguous() and weight.is_contiguous()):
        return None
    return _channels_last(tensor) or _channels_last(weight)


def _contiguous(args: Any) -> torch.memory_format:
    return torch.contiguous_format


def _channels_last(tensor: torch.Tensor) -> torch.memory_format | None:
    """Return the layout with channels last if a tensor has it, as torch's kernels tell."""
    if tensor.dim() not in _FORMATS or not _is_channels_last(tensor.shape, tensor.stride()):
        return None
    return _FORMATS[tensor.dim()]


def _is_channels_last(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether strides grow from the channels over the last dimension to the first, as torch decides it."""
    smallest = 0
    if strides[1] == 0:
        return False
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        if sizes[dim] == 0 or strides[dim] < smallest or (dim == 0 and smallest == strides[1]):
            return False
        smallest = strides[dim] * max(sizes[dim], 1)
    return True


_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
#: By operator: the layout of its (first) output, None where torch's meta kernel is right.
_LAYOUTS: dict[str, Callable[[Any], torch.memory_format | None]] = {
    **{f"aten::conv{kind}{dims}d": _of_convolution for kind in ("", "_transpose") for dims in (2, 3)},
    **dict.fromkeys(("aten::convolution", "aten::_convolution"), _of_convolution),
    **dict.fromkeys(
        (
            *("aten::group_norm", "aten::native_group_norm", "aten::batch_norm", "aten::native_batch_norm"),
            *(f"aten::{kind}_pad{dims}d" for kind in ("reflection", "replication") for dims in (2, 3)),
            *("aten::channel_shuffle", "aten::native_channel_shuffle", "aten::pixel_shuffle"),
        ),
        _of_tensor,
    ),
    **dict.fromkeys(("aten::roll", "aten::pad"), lambda args: _channels_last(args[0])),
    "aten::max_pool1d": _contiguous,
}


def at_the_beginning(moved: Any) -> Any:
    """Return a tensor that was to be moved off the meta device, and stays there, at address 0.

    On that device an address is an offset. ``tolist()`` takes what it has moved to the CPU for values, and reads at
    any address but 0: the process would end.
    """
    if not (isinstance(moved, torch.Tensor) and moved.is_meta and moved.storage_offset()):
        return moved
    return moved.as_strided(moved.size(), moved.stride(), 0)
