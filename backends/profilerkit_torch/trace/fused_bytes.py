"""The bytes that torch's kernels for whole layers of attention have alive, which only their C++ code says.

See ``attention.cpp`` and ``transformer.cpp`` in ``aten/src/ATen/native/transformers``. A kernel is one call: what it
makes lives until its last use there. On the CPU it makes all scores of the attention.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

__all__ = ["SelfAttention", "count_attention_bytes", "count_encoder_bytes"]

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


def count_attention_bytes(call: SelfAttention, device: torch.device) -> int:
    """Return the most bytes alive in a call of ``nn.MultiheadAttention``, besides the input and the user's masks."""
    return _count_kernel_bytes(call, device) + _count_mask_bytes(call)


def count_encoder_bytes(encoder: nn.TransformerEncoderLayer, call: SelfAttention, device: torch.device) -> int:
    """Return the same of ``nn.TransformerEncoderLayer``, whose attention makes this call."""
    size = call.input_bytes
    hidden = size // call.query.shape[-1] * encoder.linear1.weight.shape[0]
    if encoder.norm_first:
        attention = size + _count_kernel_bytes(call, device)  # beside the normalized input
        network = size + size + hidden + size  # what attention gave, that normalized, the hidden layer, its output
        return max(attention, network) + _count_mask_bytes(call)
    attention = _count_kernel_bytes(call, device)
    network = size + hidden + size  # what attention gave, normalized, the hidden layer, its output
    last_norm = size + size + size  # the input of the network, which was added, the sum, and that normalized
    return max(attention, network, last_norm) + _count_mask_bytes(call)


def _count_mask_bytes(call: SelfAttention) -> int:
    """Return what torch makes of the masks (``MultiheadAttention.merge_masks``).

    One of booleans becomes one of numbers; two become one with a number for each score.
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
