"""How kernels lay out what they return, where torch's kernels for meta tensors have another layout.

Convolutions, norms and paddings keep channels last. Attention's fused kernels return what is laid out as the queries
are; the meta kernel puts the heads before the tokens instead, so that models which join the heads afterwards would seem
to copy them. A model that asks ``x.is_contiguous()`` takes another way by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..compat.operators import read_schema

__all__ = ["lay_out_as_kernels", "make_attention_output"]

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def make_attention_output(
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
    if any(tensor.dim() != 4 for tensor in (query, key, value)) or not (key.is_meta and value.is_meta):
        return None
    batch, heads, queries, width = query.shape
    key_batch, key_heads, keys, key_width = key.shape
    has_fitting_heads = heads == key_heads or (enable_gqa and heads % key_heads == 0)
    if (batch, width) != (key_batch, key_width) or key.shape != value.shape or not has_fitting_heads:
        return None
    if not query.dtype == key.dtype == value.dtype:
        return None
    if attn_mask is not None and (is_causal or not _can_expand(attn_mask.shape, (batch, heads, queries, keys))):
        return None
    if query.stride(-1) != 1:  # its kernels do not take that: attention is spelled out
        return torch.empty_like(query, memory_format=torch.contiguous_format)
    return torch.empty_like(query)


def _can_expand(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether a tensor of a shape can be expanded to another shape."""
    missing = len(target) - len(shape)
    return missing >= 0 and all(size in (1, goal) for size, goal in zip(shape, target[missing:], strict=True))


def lay_out_as_kernels(func: Any, args: Any, result: Any) -> Any:
    """Return what an operator made without values, laid out as its kernels lay it out."""
    find_layout = _LAYOUTS.get(read_schema(func).name)
    if find_layout is None or not args or not isinstance(args[0], torch.Tensor):
        return result
    layout = find_layout(args)
    if isinstance(result, torch.Tensor):
        return _lay_out(result, layout)
    first, *others = result
    laid_out = _lay_out(first, layout)
    return result if laid_out is first else type(result)((laid_out, *others))


def _lay_out(tensor: torch.Tensor, layout: torch.memory_format | None) -> torch.Tensor:
    """Return a tensor without values in a layout; as it is where it has that, or where there is none."""
    if layout is None or tensor.is_contiguous(memory_format=layout):
        return tensor
    return torch.empty_like(tensor, memory_format=layout)


# The layout of an operator's (first) output by its arguments; None where torch's meta kernel is right ----------------


def _keep_layout(args: Any) -> torch.memory_format | None:
    """Return the layout of a kernel that has two of them, and takes the one of its first tensor."""
    tensor = args[0]
    return None if tensor.is_contiguous() else _find_channels_last(tensor) or torch.contiguous_format


def _lay_out_convolution(args: Any) -> torch.memory_format | None:
    """Return channels last where the images or the weights are."""
    tensor, weight = args[:2]
    if tensor.dim() != weight.dim() or (tensor.is_contiguous() and weight.is_contiguous()):
        return None
    return _find_channels_last(tensor) or _find_channels_last(weight)


def _find_channels_last(tensor: torch.Tensor) -> torch.memory_format | None:
    """Return the layout with channels last if a tensor has it, as torch's kernels tell."""
    layout = _FORMATS.get(tensor.dim())
    return layout if layout is not None and _is_channels_last(tensor.shape, tensor.stride()) else None


def _is_channels_last(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether strides grow from the channels over the last dimension to the first, as torch decides it.

    That is ``is_channels_last_strides_2d`` in ``c10/core/MemoryFormat.h``.
    """
    if strides[1] == 0:
        return False
    least = 0
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        if sizes[dim] == 0 or strides[dim] < least:
            return False
        if dim == 0 and least == strides[1]:  # of (samples, 1, 1, 1) both layouts are alike: torch takes the other
            return False
        least = strides[dim] * sizes[dim]
    return True


_CONVOLUTIONS = (
    *("conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d"),
    *("convolution", "_convolution"),
)
_KEEPERS = (
    *("group_norm", "native_group_norm", "batch_norm", "native_batch_norm"),
    *("reflection_pad2d", "reflection_pad3d", "replication_pad2d", "replication_pad3d"),
    *("channel_shuffle", "native_channel_shuffle", "pixel_shuffle"),
)
_LAYOUTS: dict[str, Callable[[Any], torch.memory_format | None]] = {
    **{f"aten::{name}": _lay_out_convolution for name in _CONVOLUTIONS},
    **{f"aten::{name}": _keep_layout for name in _KEEPERS},
    **dict.fromkeys(("aten::roll", "aten::pad"), lambda args: _find_channels_last(args[0])),
    "aten::max_pool1d": lambda args: torch.contiguous_format,
}
