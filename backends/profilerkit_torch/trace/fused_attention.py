"""Attention and one-hot numbers on shapes alone, run by the operators that a device has for them.

On meta tensors torch spells both out, one-hot numbers on fake tensors too: autograd and transforms make every score of
attention, where a fused kernel makes none; one-hot numbers are compared with every class, where a device writes a one
into each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch.nn import functional as F

from ..compat.operators import efficient_attention, flash_attention
from ..compat.tensors import stands_in
from .attention_kernels import choose_kernel
from .hidden_modes import PassMode

__all__ = ["FusedAttention"]

#: Kernels by their numbers in torch. The layout of cuDNN's output is that of flash attention.
_FLASH, _EFFICIENT, _CUDNN = 1, 2, 3
_OPERATOR = torch.ops.aten.scaled_dot_product_attention
#: The function, and the operator that an exported program calls.
_ATTENTION: frozenset[Any] = frozenset((F.scaled_dot_product_attention, _OPERATOR, _OPERATOR.default))
_ONE_HOT: Any = F.one_hot


class FusedAttention(PassMode):
    """While it is active, attention over meta tensors runs as one kernel where the device has one for it.

    On CUDA torch says which kernel the device takes. A model on the meta device is taken to be run on an accelerator,
    which has a kernel wherever the CPU has one, and for attention with dropout too, for which the CPU has none.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run attention and one-hot numbers as the device does, any other function as it is."""
        kwargs = kwargs or {}
        if func in _ATTENTION:
            query = args[0] if args else kwargs["query"]
            return func(*args, **kwargs) if query.is_nested else self._attend(*args, **kwargs)
        if func is _ONE_HOT:
            return _make_one_hot(*args, **kwargs)
        return func(*args, **kwargs)

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """Run attention by the kernel of the device; by torch where it has none, or where the tensors are real."""
        tensors = query, key, value
        kernel = None
        if query.is_meta:
            kernel = choose_kernel(
                self._device, tensors, attn_mask, dropout_p, is_causal=is_causal, is_grouped=enable_gqa
            )
        if kernel not in (_FLASH, _EFFICIENT, _CUDNN):
            return F.scaled_dot_product_attention(
                *tensors, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        if attn_mask is not None and attn_mask.dtype is torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -math.inf).to(query.dtype)
        run: Callable[..., torch.Tensor] = _attend_in_rows if kernel == _EFFICIENT else _attend_in_blocks
        return run(tensors, attn_mask, dropout_p, is_causal, scale=scale)


_Tensors: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _attend_in_blocks(
    tensors: _Tensors, mask: torch.Tensor | None, *settings: Any, scale: float | None
) -> torch.Tensor:
    """Run flash attention for a query, key and value; the settings are the dropout, and whether it is causal."""
    output: torch.Tensor = flash_attention(*tensors, *settings, attn_mask=mask, scale=scale)[0]
    return output


def _attend_in_rows(tensors: _Tensors, mask: torch.Tensor | None, *settings: Any, scale: float | None) -> torch.Tensor:
    """Run the memory-efficient kernel: its output has the heads of a row side by side, in any layout of the queries."""
    query, key, _ = tensors
    # The backward pass needs the sum of each row of the scores; the kernel writes it only on request.
    keeps_sums = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    output: torch.Tensor = efficient_attention(*tensors, mask, keeps_sums, *settings, scale=scale)[0]
    return output


def _make_one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """Return one-hot numbers by the operators of devices; by torch where the tensors have values."""
    if not stands_in(tensor) or num_classes < 1 or not tensor.numel():
        return F.one_hot(tensor, num_classes)
    torch.aminmax(tensor)  # a device checks first that all are classes
    numbers = torch.zeros((*tensor.shape, num_classes), dtype=torch.int64, device=tensor.device)
    return numbers.scatter_(-1, tensor.unsqueeze(-1), 1)
