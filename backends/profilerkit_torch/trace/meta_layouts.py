"""How attention's fused kernels lay out what they return: as the queries are laid out.

torch's kernel for meta tensors puts the heads before the tokens instead, so that models which join the heads afterwards
would seem to copy them.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["attention_output"]


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
    return torch.empty_like(query)
