"""The memory of layers of attention that torch runs as one kernel in inference, while a trace runs their parts.

In inference ``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer`` take a "fast path", one operator each
(``aten/src/ATen/native/transformers/attention.cpp`` and ``transformer.cpp``). It multiplies, normalizes and adds what
the parts do, and holds other tensors meanwhile: on the CPU it makes all scores of the attention, and the layer of an
encoder applies its activation in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..compat.modes import is_any_autocast_enabled
from ..compat.modules import call_hooks

__all__ = ["find_fused_bytes", "may_be_fused"]

#: The dtypes that attention of one kernel has on an accelerator; the width of a head is a multiple of 8.
_FUSED_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_ATTENTION_ARGUMENTS = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
_ENCODER_ARGUMENTS = ("src", "src_mask", "src_key_padding_mask")


def may_be_fused(module: nn.Module) -> bool:
    """Return whether a module has the code of a layer that torch may run as one kernel, its class or one derived."""
    kind: Any = type(module)
    return getattr(kind, "forward", None) in (nn.MultiheadAttention.forward, nn.TransformerEncoderLayer.forward)


def find_fused_bytes(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], device: torch.device
) -> int | None:
    """Return the most bytes that a layer's call has alive, besides its inputs, in one kernel; None if it takes none.

    ``device`` is where the model runs; one on the meta device is taken to run on an accelerator.
    """
    if device.type not in ("cpu", "cuda", "meta") or is_any_autocast_enabled():
        return None
    if isinstance(module, nn.MultiheadAttention):
        arguments = {**dict(zip(_ATTENTION_ARGUMENTS, args, strict=False)), **kwargs}
        return _count_attention_bytes(module, arguments, device) if _is_fused_attention(module, arguments) else None
    if isinstance(module, nn.TransformerEncoderLayer):
        arguments = {**dict(zip(_ENCODER_ARGUMENTS, args, strict=False)), **kwargs}
        return _count_encoder_bytes(module, arguments, device) if _is_fused_encoder(module, arguments["src"]) else None
    return None


# Which calls torch runs as one kernel ---------------------------------------------------------------------------------


def _is_fused_attention(attention: nn.MultiheadAttention, arguments: Mapping[str, Any]) -> bool:
    query: Any = arguments["query"]
    is_self_attention = arguments.get("key") is query and arguments.get("value") is query
    if not is_self_attention:
        return False
    masks = (arguments.get("attn_mask"), arguments.get("key_padding_mask"))
    if any(mask is not None and torch.is_floating_point(mask) for mask in masks):
        return False
    if not _is_fast(attention) or not _is_batch(attention, query):
        return False
    return not _needs_gradients((query, *attention.parameters()))


def _is_fused_encoder(layer: nn.TransformerEncoderLayer, source: Any) -> bool:
    attention = layer.self_attn
    if not isinstance(attention, nn.MultiheadAttention) or not _is_fast(attention) or not _is_batch(attention, source):
        return False
    if layer.training or not layer.activation_relu_or_gelu or attention.in_proj_bias is None:
        return False
    if any(any(call_hooks(part)) for part in layer.modules()) or _needs_gradients((source, *layer.parameters())):
        return False
    # Other layers may stand in the place of torch's, and torch reads these attributes of theirs.
    weight, epsilon = getattr(layer.linear1, "weight", None), getattr(layer.norm1, "eps", None)
    has_equal_norms = epsilon is not None and epsilon == getattr(layer.norm2, "eps", None)
    return isinstance(weight, torch.Tensor) and has_equal_norms


def _is_fast(attention: nn.MultiheadAttention) -> bool:
    """Return whether torch runs a layer of attention as one operator, if it is not asked for gradients."""
    is_plain = attention.batch_first and attention.in_proj_weight is not None
    has_more = attention.bias_k is not None or attention.bias_v is not None or attention.add_zero_attn
    return is_plain and not has_more and not attention.training and attention.num_heads % 2 == 0


def _is_batch(attention: nn.MultiheadAttention, query: Any) -> bool:
    """Return whether the input is a batch of sequences of the weights' dtype."""
    is_dense = isinstance(query, torch.Tensor) and not query.is_nested and query.dim() == 3
    return is_dense and query.dtype == attention.in_proj_weight.dtype and attention.in_proj_bias is not None


def _needs_gradients(tensors: tuple[torch.Tensor, ...]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


# What the kernel has alive --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Attention:
    """The sizes of a call of self-attention, and how it runs.

    Attributes:
        mask_bytes: What masks take besides those which the user gave: one of booleans becomes one of numbers, two
            become one with a number for each score (``MultiheadAttention.merge_masks``).
        softmax_bytes: What the softmax takes besides: a boolean for each score, of any but a padding mask.
        makes_scores: Whether all scores are there at once.
    """

    input_bytes: int
    score_bytes: int
    heads: int
    has_masks: bool
    mask_bytes: int
    softmax_bytes: int
    needs_weights: bool
    makes_scores: bool

    @property
    def peak_bytes(self) -> int:
        """The most bytes alive, besides the input and the masks.

        All is in one call of C++: queries, keys and values (3 times the input), which are made twice where the scores
        are made; the scores, and their softmax, which is made in place without a mask; then the output, of which
        a copy is made before the last product.
        """
        projected, outputs = 3 * self.input_bytes, 2 * self.input_bytes
        if not self.makes_scores:
            return projected + outputs
        softmax = projected + self.score_bytes * (2 if self.has_masks else 1) + self.softmax_bytes
        if not self.needs_weights:
            return max(2 * projected, softmax, projected + outputs)
        mean = projected + self.input_bytes + self.score_bytes + self.score_bytes // self.heads
        return max(2 * projected, softmax, projected + outputs + self.score_bytes, mean)


def _count_attention_bytes(attention: nn.MultiheadAttention, arguments: Mapping[str, Any], device: torch.device) -> int:
    mask, padding = arguments.get("attn_mask"), arguments.get("key_padding_mask")
    needs_weights = arguments.get("need_weights", True)
    measured = _measure(attention, arguments["query"], mask, padding, needs_weights, device)
    return measured.peak_bytes + measured.mask_bytes


def _count_encoder_bytes(layer: nn.TransformerEncoderLayer, arguments: Mapping[str, Any], device: torch.device) -> int:
    source, mask, padding = arguments["src"], arguments.get("src_mask"), arguments.get("src_key_padding_mask")
    attention = _measure(layer.self_attn, source, mask, padding, False, device)
    size = attention.input_bytes
    normalized = size if layer.norm_first else 0
    hidden: int = size // source.shape[-1] * layer.linear1.weight.shape[0]
    # What the attention gives, that normalized where norms come first, the hidden layer and its output.
    network = size + normalized + hidden + size
    last_norm = 0 if layer.norm_first else 3 * size
    return max(normalized + attention.peak_bytes, network, last_norm) + attention.mask_bytes


def _measure(
    attention: nn.MultiheadAttention,
    query: torch.Tensor,
    mask: torch.Tensor | None,
    padding: torch.Tensor | None,
    needs_weights: bool,
    device: torch.device,
) -> _Attention:
    batch, length, width = query.shape
    itemsize = query.element_size()
    scores = batch * attention.num_heads * length * length
    masks = [item for item in (mask, padding) if item is not None]
    converted = sum(item.numel() * itemsize for item in masks if item.dtype is torch.bool)
    merged = scores * itemsize if len(masks) == 2 else 0
    is_one_kernel = device.type != "cpu" and query.dtype in _FUSED_DTYPES and width // attention.num_heads % 8 == 0
    return _Attention(
        input_bytes=query.numel() * itemsize,
        score_bytes=scores * itemsize,
        heads=attention.num_heads,
        has_masks=bool(masks),
        mask_bytes=converted + merged,
        softmax_bytes=scores if mask is not None else 0,
        needs_weights=needs_weights,
        makes_scores=not is_one_kernel or bool(masks) or needs_weights,
    )
