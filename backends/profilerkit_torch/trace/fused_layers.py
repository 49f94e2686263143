"""Attention layers that torch runs as one kernel, and the bytes alive in this kernel; a trace runs their parts instead.

In inference ``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer`` take a "fast path": one operator each, with
the same arithmetic as the parts, but with other tensors alive. The conditions here are those of their ``forward``,
which collects the reasons against the fast path in ``why_not_fast_path``. The bytes alive follow the C++ code of the
kernel (``attention.cpp`` and ``transformer.cpp`` in ``aten/src/ATen/native/transformers``): each tensor lives until its
last use there. On the CPU the kernel makes all scores of the attention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from ..compat.modes import is_any_autocast_enabled
from ..compat.modules import call_hooks

__all__ = ["SelfAttention", "find_fused_bytes", "may_be_fused", "packs_samples"]

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
        call = _read_attention(module, {**dict(zip(_ATTENTION_ARGUMENTS, args, strict=False)), **kwargs})
        return None if call is None else _count_kernel_bytes(call, device) + _count_mask_bytes(call)
    if isinstance(module, nn.TransformerEncoderLayer):
        call = _read_encoder(module, {**dict(zip(_ENCODER_ARGUMENTS, args, strict=False)), **kwargs})
        return None if call is None else _count_encoder_bytes(module, call, device)
    return None


def _read_attention(layer: nn.MultiheadAttention, arguments: Mapping[str, Any]) -> SelfAttention | None:
    """Return the self-attention of a layer with these arguments; None if a run takes no kernel for it."""
    query: Any = arguments["query"]
    if any(arguments.get(name) is not query for name in ("key", "value")):
        return None
    mask, padding = arguments.get("attn_mask"), arguments.get("key_padding_mask")
    call = SelfAttention(layer, query, mask, padding, arguments.get("need_weights", True))
    if any(map(torch.is_floating_point, call.masks)) or not _is_supported(call):
        return None
    return None if _needs_gradients((query, *layer.parameters())) else call


def _read_encoder(encoder: nn.TransformerEncoderLayer, arguments: Mapping[str, Any]) -> SelfAttention | None:
    """Return the self-attention of an encoder layer with these arguments; None if a run takes no kernel for it."""
    source, attention = arguments["src"], encoder.self_attn
    if not isinstance(attention, nn.MultiheadAttention) or encoder.training or not _fits_kernel(encoder):
        return None
    call = SelfAttention(attention, source, arguments.get("src_mask"), arguments.get("src_key_padding_mask"), False)
    if not _is_supported(call) or _needs_gradients((source, *encoder.parameters())):
        return None
    return None if any(any(call_hooks(part)) for part in encoder.modules()) else call  # the kernel would not call them


def _fits_kernel(encoder: nn.TransformerEncoderLayer) -> bool:
    """Return whether the parts of an encoder layer beside its attention are those of the kernel.

    Other layers may stand in the place of torch's, and torch reads these attributes of theirs.
    """
    weight, epsilon = getattr(encoder.linear1, "weight", None), getattr(encoder.norm1, "eps", None)
    has_equal_norms = epsilon is not None and epsilon == getattr(encoder.norm2, "eps", None)
    return bool(encoder.activation_relu_or_gelu) and isinstance(weight, torch.Tensor) and has_equal_norms


def _is_supported(call: SelfAttention) -> bool:
    """Return whether the kernel can take this input, and does all that this layer of attention does."""
    layer, query = call.layer, call.query
    adds_positions = layer.bias_k is not None or layer.bias_v is not None or layer.add_zero_attn
    has_weights = layer.in_proj_weight is not None and layer.in_proj_bias is not None
    # In training there is dropout, and torch leaves an odd number of heads out.
    if layer.training or layer.num_heads % 2 or not layer.batch_first or adds_positions or not has_weights:
        return False
    is_batch = isinstance(query, torch.Tensor) and not query.is_nested and query.dim() == 3
    return is_batch and query.dtype == layer.in_proj_weight.dtype


def _needs_gradients(tensors: Iterable[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


# The bytes that such a kernel has alive -------------------------------------------------------------------------------


#: The dtypes in which an accelerator attends without making the scores; the width of a head is a multiple of 8.
_DTYPES_WITHOUT_SCORES = (torch.float32, torch.float16, torch.bfloat16)


class SelfAttention(NamedTuple):
    """A call of self-attention: query, key and value are one tensor of (batch, length, width)."""

    layer: nn.MultiheadAttention
    query: torch.Tensor
    mask: torch.Tensor | None
    padding: torch.Tensor | None
    needs_weights: bool

    @property
    def masks(self) -> list[torch.Tensor]:
        """The masks that the user gave: none, one or both."""
        return [mask for mask in (self.mask, self.padding) if mask is not None]

    @property
    def input_bytes(self) -> int:
        """The size of the query, and of each tensor of its shape."""
        return self.query.numel() * self.query.element_size()

    @property
    def heads(self) -> int:
        """The number of heads."""
        return int(self.layer.num_heads)

    @property
    def scores(self) -> int:
        """How many scores there are: one for each two positions, in each head."""
        batch, length, _ = self.query.shape
        return batch * self.heads * length * length


def _count_encoder_bytes(encoder: nn.TransformerEncoderLayer, call: SelfAttention, device: torch.device) -> int:
    """Return the most bytes alive in an encoder layer whose attention makes this call, besides input and masks."""
    size = call.input_bytes
    hidden = size // call.query.shape[-1] * encoder.linear1.weight.shape[0]
    if encoder.norm_first:
        attention = size + _count_kernel_bytes(call, device)  # beside the normalized input
        network = size + size + hidden + size  # attention's result, its normalization, the hidden layer, the output
        return max(attention, network) + _count_mask_bytes(call)
    attention = _count_kernel_bytes(call, device)
    network = size + hidden + size  # the normalized result of attention, the hidden layer, the output
    last_norm = size + size + size  # the input of the network, which was added, the sum, and that normalized
    return max(attention, network, last_norm) + _count_mask_bytes(call)


def _count_mask_bytes(call: SelfAttention) -> int:
    """Return the bytes of the merged masks (``MultiheadAttention.merge_masks``).

    A mask of booleans becomes a mask of numbers; two masks become one with a number for each score.
    """
    itemsize = call.query.element_size()
    converted = sum(mask.numel() * itemsize for mask in call.masks if mask.dtype is torch.bool)
    merged = call.scores * itemsize if len(call.masks) == 2 else 0
    return converted + merged


def _count_kernel_bytes(call: SelfAttention, device: torch.device) -> int:
    """Return the most bytes alive at one of the steps of the attention."""
    # Queries, keys and values; at the end the output, and a copy of it for the last product.
    projected, outputs = 3 * call.input_bytes, 2 * call.input_bytes
    if not _makes_scores(call, device):
        return projected + outputs
    scores = call.scores * call.query.element_size()
    split = 2 * projected  # a copy of them, by heads
    # Without a mask the softmax is written over the scores; a mask of the scores becomes a boolean for each of them.
    copies = 2 if call.masks else 1
    softmax = projected + scores * copies + (call.scores if call.mask is not None else 0)
    if not call.needs_weights:
        return max(split, softmax, projected + outputs)
    # The weights stay; their mean over the heads is made when only one output is left.
    mean = projected + call.input_bytes + scores + scores // call.heads
    return max(split, softmax, projected + outputs + scores, mean)


def _makes_scores(call: SelfAttention, device: torch.device) -> bool:
    """Return whether all scores are there at once."""
    head_width = call.query.shape[-1] // call.heads
    is_one_kernel = device.type != "cpu" and call.query.dtype in _DTYPES_WITHOUT_SCORES and head_width % 8 == 0
    return not is_one_kernel or bool(call.masks) or call.needs_weights
