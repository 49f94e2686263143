"""The record of flex attention: one kernel, which modifies each score by a function of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from profilerkit.costs import Cost, Shape

from ..costs import attention
from .excerpts import Excerpt, Peaks, Stretch, record_call

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["record_flex_attention"]

_ALL_SCORES = (
    "flex_attention is counted as the one kernel that torch.compile makes of it; where that is not used it makes all "
    "scores, several times"
)


def record_flex_attention(recorder: Recorder, name: str, args: Any, result: Any, all_scores: Excerpt | None) -> None:
    """Record attention; ``all_scores`` is the excerpt of the code that makes all scores, None without such code."""
    query, key, value, modify, mask, _scale, _options, buffers, *_ = args
    is_masked = getattr(mask[-1], "__name__", "") != "noop_mask"  # which torch gives where the model gives none

    def modify_a_score() -> None:
        indices = [torch.zeros((), dtype=torch.int32, device=query.device) for _ in range(4)]
        modify(query.new_zeros(()), *indices, *buffers)

    modification, _ = record_call(recorder, modify_a_score, ())
    # The dense product, whatever the mask is.
    cost = attention.attend(*(Shape(tensor.shape) for tensor in (query, key, value, result[0])))
    scores = Shape(result[0].shape[:-1]).numel * key.shape[-2]
    cost = cost.plus(Cost(0, scores * modification.flops))
    recorder.record(name, cost, (query, key, value), result, is_masked=is_masked)
    if all_scores is not None:
        index = len(recorder.operators) - 1
        peaks = Peaks(recorder.live_bytes[-1], all_scores.base + all_scores.find_peaks().high)
        recorder.stretches.append(Stretch(index, index + 1, peaks, _ALL_SCORES))
