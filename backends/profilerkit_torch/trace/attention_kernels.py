"""Attention: which kernel a device uses, and the bytes alive if there is no kernel.

If no kernel accepts the arguments, torch makes all scores: see ``_scaled_dot_product_attention_math`` in
``aten/src/ATen/native/transformers/attention.cpp``. The CPU's one kernel takes four dimensions, and values as wide as
the queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import torch
from torch.backends import cuda

from ..compat.modes import disable_dispatch_modes
from ..compat.operators import choose_attention, read_attention_order

__all__ = ["choose_kernel", "count_spelled_out_bytes", "list_kernel_conditions"]

#: The number of attention that no kernel takes.
_SPELLED_OUT = 0
#: Dtypes that are converted to float32 first if attention is composed of operators.
_NARROW = (torch.float16, torch.bfloat16)


def list_kernel_conditions(tensors: Iterable[torch.Tensor]) -> tuple[int, ...]:
    """Return what the choice of a kernel depends on beside shapes, strides and dtypes.

    A model may enable kernels for a part of itself, in an order of its own (``sdpa_kernel``), and the CPU's kernel
    takes no mask that requires a gradient.
    """
    return (
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        *read_attention_order(),
        torch.is_grad_enabled(),
        *(tensor.requires_grad for tensor in tensors),
    )


def choose_kernel(
    device: torch.device,
    tensors: tuple[torch.Tensor, ...],
    mask: torch.Tensor | None,
    dropout: float,
    *,
    is_causal: bool,
    is_grouped: bool,
) -> int:
    """Ask torch which kernel it uses on a device for query, key and value; the tensors of the question are small."""
    if device.type == "meta":  # an accelerator, whose kernels drop out too
        dropout = 0.0
    if device.type != "cuda":
        device = torch.device("cpu")
    with disable_dispatch_modes():
        lookalikes = [None if tensor is None else _make_lookalike(tensor, device) for tensor in (*tensors, mask)]
        return int(choose_attention(*lookalikes, dropout, is_causal, enable_gqa=is_grouped))


def _make_lookalike(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device of the same shape and dtype, contiguous in the last dimension where the other is."""
    strides = (0,) * (tensor.dim() - 1) + tuple(min(1, stride) for stride in tensor.stride()[-1:])
    needs_gradient = tensor.requires_grad  # of a new tensor: transforms forbid `requires_grad_`
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=device, requires_grad=needs_gradient)


def count_spelled_out_bytes(
    device: torch.device | None,
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
    dropout: float,
    *,
    is_causal: bool,
    is_grouped: bool,
) -> int:
    """Return the bytes alive at the peak of attention beyond its output, without gradients; 0 if there is a kernel.

    ``tensors`` are query, key and value.
    """
    if device is None or device.type not in ("cpu", "cuda", "meta") or any(tensor.is_nested for tensor in tensors):
        return 0
    if choose_kernel(device, tensors, mask, dropout, is_causal=is_causal, is_grouped=is_grouped) != _SPELLED_OUT:
        return 0
    query, key, value = tensors
    batch = query.shape[:-2] if is_grouped else torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    rows = batch.numel() * query.shape[-2]
    scores, outputs = rows * key.shape[-2], rows * value.shape[-1]
    # Keys and values that are repeated for groups of heads have these together.
    copied = [0 if _has_one_batch(tensor) else tensor.numel() for tensor in tensors[: 1 if is_grouped else 3]]
    kept = query.numel() + _count_copies(tensors, batch.numel(), is_causal=is_causal, is_grouped=is_grouped)
    itemsize = 4 if query.dtype in _NARROW else query.element_size()
    product = itemsize * (key.numel() + sum(copied[:2]) + scores)
    # The scores, their softmax, whether each is minus infinity, whether all of a row are, and minus infinity.
    softmax = itemsize * (2 * scores + 1) + scores + rows
    weighted = itemsize * (scores + outputs + sum(copied[2:]))
    return max(0, itemsize * kept + max(product, softmax, weighted) - query.element_size() * outputs)


def _count_copies(tensors: tuple[torch.Tensor, ...], batch: int, *, is_causal: bool, is_grouped: bool) -> int:
    """Return the elements of copies that are alive all along: in float32, repeated for groups, of a causal mask."""
    query, key, value = tensors
    copies = sum(tensor.numel() for tensor in tensors) if query.dtype in _NARROW else 0
    if is_grouped:
        copies += batch * key.shape[-2] * (key.shape[-1] + value.shape[-1])
    return copies + query.shape[-2] * key.shape[-2] if is_causal else copies


def _has_one_batch(tensor: torch.Tensor) -> bool:
    """Return whether a product can take the dimensions before a tensor's matrices as one without a copy."""
    batch = [(size, stride) for size, stride in zip(tensor.shape[:-2], tensor.stride()[:-2], strict=True) if size > 1]
    return all(stride == inner_size * inner_stride for (_, stride), (inner_size, inner_stride) in pairwise(batch))
