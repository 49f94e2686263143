"""Bytes that an operator makes for itself and gives back before it returns, where a rule of torch's says how many.

There is one such rule that holds on every device: ``scaled_dot_product_attention`` makes a mask of numbers, of the
queries' dtype, out of a mask of booleans, before it chooses a kernel (``convert_boolean_attn_mask`` in
``aten/src/ATen/native/transformers/attention.cpp``). What the kernels take besides differs between devices, and no
trace has it.
"""

from __future__ import annotations

from typing import Any

import torch

from ..compat import operator

__all__ = ["bytes_inside"]

_ATTENTION = operator("aten.scaled_dot_product_attention.default")


def bytes_inside(func: Any, args: Any, kwargs: Any) -> int:
    """Return the bytes that are alive only while an operator runs; 0 where no rule says."""
    if func is not _ATTENTION:
        return 0
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    if mask is None or mask.dtype is not torch.bool:
        return 0
    elements: int = mask.numel()  # one that was expanded is made in full
    return elements * int(args[0].element_size())
