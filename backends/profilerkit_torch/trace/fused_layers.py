"""Which calls of layers of attention torch runs as one kernel, while a trace runs their parts.

In inference ``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer`` take a "fast path", one operator each, which
multiplies, normalizes and adds what the parts do, and holds other tensors meanwhile: see `fused_bytes`. The conditions
here are those of their ``forward``, which gathers in ``why_not_fast_path`` what speaks against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from ..compat.modes import is_any_autocast_enabled
from ..compat.modules import call_hooks
from .fused_bytes import SelfAttention, count_attention_bytes, count_encoder_bytes

__all__ = ["find_fused_bytes", "may_be_fused", "packs_samples"]

_ATTENTION_ARGUMENTS = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
_ENCODER_ARGUMENTS = ("src", "src_mask", "src_key_padding_mask")


def may_be_fused(module: nn.Module) -> bool:
    """Return whether a module has the code of a layer that torch may run as one kernel, its class or one derived."""
    kind: Any = type(module)
    forward = getattr(kind, "forward", None)
    return forward in (nn.MultiheadAttention.forward, nn.TransformerEncoderLayer.forward, nn.TransformerEncoder.forward)


def packs_samples(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether an encoder leaves the padding out: as a nested tensor, where its padding is at the ends."""
    if not isinstance(module, nn.TransformerEncoder) or is_any_autocast_enabled():
        return False
    arguments = {**dict(zip(("src", "mask", "src_key_padding_mask"), args, strict=False)), **kwargs}
    if arguments.get("mask") is not None or arguments.get("src_key_padding_mask") is None:
        return False
    packs = getattr(module, "use_nested_tensor", False) and not module.layers[0].training
    return packs and not _needs_gradients((arguments["src"], *module.parameters()))


def find_fused_bytes(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], device: torch.device
) -> int | None:
    """Return the most bytes that a layer's call has alive, besides its inputs, in one kernel; None if it takes none.

    The module is one that `may_be_fused`. ``device`` is where the model runs; one on the meta device is taken to run on
    an accelerator.
    """
    if device.type not in ("cpu", "cuda", "meta") or is_any_autocast_enabled():
        return None
    if isinstance(module, nn.MultiheadAttention):
        arguments = {**dict(zip(_ATTENTION_ARGUMENTS, args, strict=False)), **kwargs}
        query, mask, padding = arguments["query"], arguments.get("attn_mask"), arguments.get("key_padding_mask")
        call = SelfAttention(module, query, mask, padding, arguments.get("need_weights", True))
        is_self_attention = arguments.get("key") is query and arguments.get("value") is query
        return count_attention_bytes(call, device) if is_self_attention and _is_attention_fused(call) else None
    if isinstance(module, nn.TransformerEncoderLayer) and isinstance(module.self_attn, nn.MultiheadAttention):
        arguments = {**dict(zip(_ENCODER_ARGUMENTS, args, strict=False)), **kwargs}
        source, mask, padding = arguments["src"], arguments.get("src_mask"), arguments.get("src_key_padding_mask")
        call = SelfAttention(module.self_attn, source, mask, padding, needs_weights=False)
        return count_encoder_bytes(module, call, device) if _is_encoder_fused(module, call) else None
    return None


def _is_attention_fused(call: SelfAttention) -> bool:
    if any(torch.is_floating_point(mask) for mask in call.masks):
        return False
    return _is_supported(call) and not _needs_gradients((call.query, *call.layer.parameters()))


def _is_encoder_fused(encoder: nn.TransformerEncoderLayer, call: SelfAttention) -> bool:
    if not _is_supported(call) or encoder.training or not encoder.activation_relu_or_gelu:
        return False
    if any(any(call_hooks(part)) for part in encoder.modules()):  # the kernel would not call them
        return False
    if _needs_gradients((call.query, *encoder.parameters())):
        return False
    # Other layers may stand in the place of torch's, and torch reads these attributes of theirs.
    weight, epsilon = getattr(encoder.linear1, "weight", None), getattr(encoder.norm1, "eps", None)
    has_equal_norms = epsilon is not None and epsilon == getattr(encoder.norm2, "eps", None)
    return isinstance(weight, torch.Tensor) and has_equal_norms


def _is_supported(call: SelfAttention) -> bool:
    """Return whether the kernel can take this input, and does all that this layer of attention does."""
    attention, query = call.layer, call.query
    if attention.in_proj_weight is None or attention.in_proj_bias is None or not attention.batch_first:
        return False
    if attention.bias_k is not None or attention.bias_v is not None or attention.add_zero_attn:
        return False
    if attention.training or attention.num_heads % 2:  # dropout; and torch leaves an odd number of heads out
        return False
    is_batch = isinstance(query, torch.Tensor) and not query.is_nested and query.dim() == 3
    return is_batch and query.dtype == attention.in_proj_weight.dtype


def _needs_gradients(tensors: Iterable[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
