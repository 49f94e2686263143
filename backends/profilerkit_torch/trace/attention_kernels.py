"""Attention: which kernel a device takes for it, and what it has alive without one.

Where no kernel takes the arguments, torch makes all scores: see ``_scaled_dot_product_attention_math`` in
``aten/src/ATen/native/transformers/attention.cpp``. The CPU's one kernel takes four dimensions, and values as wide as
the queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from types import FunctionType
from typing import Any

import torch
from torch.backends import cuda
from torch.nn import functional as F

from profilerkit.process.cached import cached_property

from ..compat.compiler import find_transform_level
from ..compat.modes import disable_dispatch_modes
from ..compat.operators import choose_attention, efficient_attention, flash_attention
from .hidden_modes import PassMode

__all__ = [
    "FusedAttention",
    "choose_kernel",
    "count_spelled_out_bytes",
    "list_enabled_kernels",
]

#: The number of attention that no kernel takes.
_SPELLED_OUT = 0
#: Dtypes in which it is not spelled out: their elements become those of float32 first.
_NARROW = (torch.float16, torch.bfloat16)


def list_enabled_kernels() -> tuple[bool, ...]:
    """Return which kernels may be taken now: a model may say so for a part of itself (``sdpa_kernel``)."""
    return (
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
    )


def choose_kernel(
    tensors: tuple[torch.Tensor, ...],
    mask: torch.Tensor | None,
    dropout: float,
    is_causal: bool,
    is_grouped: bool,
    device: torch.device,
) -> int:
    """Ask torch, with tensors that look like these and take up one row, which kernel it takes on a device."""
    if device.type == "meta":  # an accelerator, whose kernels drop out too
        dropout = 0.0
    if device.type != "cuda":
        device = torch.device("cpu")
    with disable_dispatch_modes():
        query, key, value = (_make_lookalike(tensor, device) for tensor in tensors)
        mask = None if mask is None else _make_lookalike(mask, device)
        return int(choose_attention(query, key, value, mask, dropout, is_causal, enable_gqa=is_grouped))


def _make_lookalike(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device of the same shape and dtype, contiguous in the last dimension where the other is."""
    if not tensor.dim():
        return torch.empty((), dtype=tensor.dtype, device=device)
    row = torch.empty(max(1, tensor.shape[-1]), dtype=tensor.dtype, device=device)
    strides = (*[0] * (tensor.dim() - 1), min(1, tensor.stride(-1)))
    return row.as_strided(tensor.shape, strides).requires_grad_(tensor.requires_grad)


def count_spelled_out_bytes(
    device: torch.device | None,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    enable_gqa: bool = False,
    **options: Any,
) -> int:
    """Return what attention has alive at its peak beyond its output, without gradients; 0 where a kernel takes it."""
    tensors = (query, key, value)
    if device is None or device.type not in ("cpu", "cuda") or any(tensor.is_nested for tensor in tensors):
        return 0
    if choose_kernel(tensors, mask, dropout, is_causal, enable_gqa, device) != _SPELLED_OUT:
        return 0
    itemsize, copies = query.element_size(), 0
    if query.dtype in _NARROW:
        itemsize = 4
        copies = itemsize * sum(tensor.numel() for tensor in tensors)
    batch = query.shape[:-2] if enable_gqa else torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    rows = batch.numel() * query.shape[-2]
    scores = rows * key.shape[-2]
    if enable_gqa:  # keys and values are repeated for each head of the queries
        copies += itemsize * batch.numel() * key.shape[-2] * (key.shape[-1] + value.shape[-1])
    if is_causal:
        copies += itemsize * query.shape[-2] * key.shape[-2]  # a mask of numbers
    scaled_query, scaled_key = itemsize * query.numel(), itemsize * key.numel()
    # A product takes the heads of all samples as one dimension, for which it copies what has them apart.
    copied = [0 if _has_one_batch(tensor) else itemsize * tensor.numel() for tensor in tensors]
    if enable_gqa:
        copied[1:] = 0, 0  # what is repeated has them together
    product = scaled_key + sum(copied[:2]) + itemsize * scores
    # The scores, their softmax, whether each is minus infinity, whether all of a row are, and minus infinity.
    softmax = 2 * itemsize * scores + scores + rows + itemsize
    weighted = itemsize * (scores + rows * value.shape[-1]) + copied[2]
    output = query.element_size() * rows * value.shape[-1]
    return max(0, copies + scaled_query + max(product, softmax, weighted) - output)


def _has_one_batch(tensor: torch.Tensor) -> bool:
    """Return whether the dimensions before a tensor's matrices can be one without a copy."""
    batch = [(size, stride) for size, stride in zip(tensor.shape[:-2], tensor.stride()[:-2], strict=True) if size > 1]
    return all(stride == inner_size * inner_stride for (_, stride), (inner_size, inner_stride) in pairwise(batch))


# As one kernel in a pass with autograd --------------------------------------------------------------------------------


#: Kernels by their numbers in torch: that of cuDNN has its output where flash attention has it.
_FLASH, _EFFICIENT, _CUDNN = 1, 2, 3
_ONE_HOT: Any = F.one_hot


class FusedAttention(PassMode):
    """While it is active, attention over meta tensors runs as one kernel where the device has one for it.

    On meta tensors autograd's own kernel spells attention out, and makes every score. A fused kernel makes none.

    On CUDA torch says which kernel the device takes. A model on the meta device is taken to be run on an accelerator
    that has one for what the CPU has one for; such kernels drop out too, that of the CPU does not.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run attention over meta tensors by one kernel, one-hot numbers as devices make them, others as they are."""
        kwargs = kwargs or {}
        if find_transform_level() is not None:  # transforms have rules of their own
            return func(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            query = args[0] if args else kwargs["query"]
            return func(*args, **kwargs) if query.is_nested else self._attend(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self._run_multi_head(*args, **kwargs)
        if func is _ONE_HOT:
            return _make_one_hot(*args, **kwargs)
        return func(*args, **kwargs)

    @cached_property
    def _run_multi_head(self) -> Callable[..., Any]:
        """Torch's Python function, which passes modes by, with attention replaced by `_attend`."""
        function: Any = F.multi_head_attention_forward
        names = {"has_torch_function": lambda tensors: False, "scaled_dot_product_attention": self._attend}
        ours = FunctionType(function.__code__, {**function.__globals__, **names}, argdefs=function.__defaults__)
        ours.__kwdefaults__ = function.__kwdefaults__
        return ours

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
        """Run attention by the kernel of the device; spelled out where that has none, or the tensors are real."""
        tensors = (query, key, value)
        kernel = None
        if query.is_meta:
            kernel = choose_kernel(tensors, attn_mask, dropout_p, is_causal, enable_gqa, self._device)
        if kernel not in (_FLASH, _EFFICIENT, _CUDNN):
            return F.scaled_dot_product_attention(
                *tensors, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        if attn_mask is not None and attn_mask.dtype is torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -math.inf).to(query.dtype)
        if kernel == _EFFICIENT:
            return _attend_in_rows(query, key, value, attn_mask, dropout_p, is_causal, scale)
        arguments = query, key, value, dropout_p, is_causal
        output: torch.Tensor = flash_attention(*arguments, attn_mask=attn_mask, scale=scale)[0]
        return output


def _attend_in_rows(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Run the kernel whose output has the heads of a row side by side, wherever the queries have theirs."""
    keeps_sums = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    output: torch.Tensor = efficient_attention(query, key, value, mask, keeps_sums, dropout, is_causal, scale=scale)[0]
    return output


def _make_one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """Return one-hot numbers by the operators of devices: on meta tensors torch compares with every class."""
    if not tensor.is_meta or num_classes < 1 or not tensor.numel():
        return F.one_hot(tensor, num_classes)
    torch.aminmax(tensor)  # torch looks whether all are classes
    numbers = torch.zeros((*tensor.shape, num_classes), dtype=torch.int64, device=tensor.device)
    return numbers.scatter_(-1, tensor.unsqueeze(-1), 1)
