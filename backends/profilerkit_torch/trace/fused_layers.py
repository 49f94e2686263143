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

from ..compat import call_hooks, is_any_autocast_enabled

__all__ = ["find_fused_bytes", "may_be_fused"]

#: The dtypes that attention of one kernel has on an accelerator; the width of a head is a multiple of 8.
_FUSED_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class _Masks:
    """The bytes that masks take besides those which the user gave: all the time, and while the softmax is made.

    A mask of booleans becomes one of numbers, two become one with a number for each score
    (``MultiheadAttention.merge_masks``), and the softmax makes a boolean for each score out of any but a padding mask.
    """

    has_any: bool
    kept: int
    in_softmax: int


@dataclass(frozen=True)
class _Attention:
    """The sizes of a call of self-attention: of its input, its scores, and how it runs."""

    input_bytes: int
    score_bytes: int
    heads: int
    masks: _Masks
    needs_weights: bool
    makes_scores: bool

    @property
    def peak_bytes(self) -> int:
        """The most bytes alive, besides the input.

        All is in one call of C++: queries, keys and values (3 times the input), which are made twice where the scores
        are made; the scores, and their softmax, which is made in place without a mask; then the output, of which
        a copy is made before the last product.
        """
        projected = 3 * self.input_bytes
        if not self.makes_scores:
            return projected + 2 * self.input_bytes
        softmax = projected + self.score_bytes * (2 if self.masks.has_any else 1) + self.masks.in_softmax
        kept = self.score_bytes if self.needs_weights else 0
        mean = projected + self.input_bytes + self.score_bytes + self.score_bytes // self.heads
        ends = [2 * projected, softmax, projected + 2 * self.input_bytes + kept, mean if self.needs_weights else 0]
        return max(ends)


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
        return _find_attention_bytes(module, args, kwargs, device)
    if isinstance(module, nn.TransformerEncoderLayer):
        return _find_encoder_bytes(module, args, kwargs, device)
    return None


_ATTENTION_ARGUMENTS = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
_ENCODER_ARGUMENTS = ("src", "src_mask", "src_key_padding_mask")


def _find_attention_bytes(
    module: nn.MultiheadAttention, args: tuple[Any, ...], kwargs: Mapping[str, Any], device: torch.device
) -> int | None:
    named = {**dict(zip(_ATTENTION_ARGUMENTS, args, strict=False)), **kwargs}
    query, masks = named["query"], (named.get("attn_mask"), named.get("key_padding_mask"))
    is_self = named.get("key") is query and named.get("value") is query
    numbers = any(mask is not None and torch.is_floating_point(mask) for mask in masks)
    if not is_self or numbers or not _is_fast(module) or not _is_batch(module, query):
        return None
    if _needs_gradients((query, *module.parameters())):
        return None
    measured = _measure(module, query, masks, named.get("need_weights", True), device)
    return measured.peak_bytes + measured.masks.kept


def _find_encoder_bytes(
    module: nn.TransformerEncoderLayer, args: tuple[Any, ...], kwargs: Mapping[str, Any], device: torch.device
) -> int | None:
    named = {**dict(zip(_ENCODER_ARGUMENTS, args, strict=False)), **kwargs}
    source, masks = named["src"], (named.get("src_mask"), named.get("src_key_padding_mask"))
    attention = module.self_attn
    if not isinstance(attention, nn.MultiheadAttention) or not _is_fast(attention) or not _is_batch(attention, source):
        return None
    if module.training or not module.activation_relu_or_gelu:
        return None
    has_hooks = any(any(call_hooks(part)) for part in module.modules())
    if has_hooks or attention.in_proj_bias is None or _needs_gradients((source, *module.parameters())):
        return None
    # Other layers may stand in the place of torch's, and torch reads these attributes of theirs.
    weight, epsilon = getattr(module.linear1, "weight", None), getattr(module.norm1, "eps", None)
    if not isinstance(weight, torch.Tensor) or epsilon is None or epsilon != getattr(module.norm2, "eps", None):
        return None
    measured = _measure(attention, source, masks, False, device)
    first = measured.input_bytes if module.norm_first else 0
    hidden: int = measured.input_bytes // source.shape[-1] * weight.shape[0]
    # What the attention gives, that normalized where norms come first, the hidden layer and its output.
    network = measured.input_bytes + first + hidden + measured.input_bytes
    last = 0 if module.norm_first else 3 * measured.input_bytes
    return max(first + measured.peak_bytes, network, last) + measured.masks.kept


def _measure_masks(mask: torch.Tensor | None, padding: torch.Tensor | None, scores: int, itemsize: int) -> _Masks:
    """Return what masks take besides themselves, for so many scores of so many bytes."""
    masks = [item for item in (mask, padding) if item is not None]
    numbers = sum(item.numel() * itemsize for item in masks if item.dtype is torch.bool)
    merged = scores * itemsize if len(masks) == 2 else 0
    return _Masks(bool(masks), numbers + merged, scores if mask is not None else 0)


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


def _measure(
    attention: nn.MultiheadAttention,
    query: torch.Tensor,
    masks: tuple[torch.Tensor | None, torch.Tensor | None],
    needs_weights: bool,
    device: torch.device,
) -> _Attention:
    batch, length, width = query.shape
    scores = batch * attention.num_heads * length * length
    extra = _measure_masks(masks[0], masks[1], scores, query.element_size())
    is_one_kernel = device.type != "cpu" and query.dtype in _FUSED_DTYPES and width // attention.num_heads % 8 == 0
    return _Attention(
        query.numel() * query.element_size(),
        scores * query.element_size(),
        attention.num_heads,
        extra,
        needs_weights,
        makes_scores=not is_one_kernel or extra.has_any or needs_weights,
    )
