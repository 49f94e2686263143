"""Multiply-accumulates without the scores that the masks of attention take away."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, ClassVar

from profilerkit import Noted, Partial, ProfilerFunction
from profilerkit.count_text import format_count
from profilerkit.piping.function import Keys
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

from .kinds import Count

__all__ = ["AttendedMacs", "ComputeAttendedMacs", "describe_modes"]


class AttendedMacs(Count):
    """Multiply-accumulates of one forward pass without the scores that attention does not attend to.

    >>> import torch
    >>> from torch import nn
    >>> from profilerkit import profile
    >>> class Causal(nn.Module):
    ...     def forward(self, x):
    ...         return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    >>> report = profile(Causal(), torch.randn(1, 4, 8), metrics=["macs", "attended_macs"])
    >>> report["macs"], report["attended_macs"]
    (256, 160)
    """

    NAME: str = "attended_macs"
    FRIENDLY_NAME: str = "Attended MACs"
    UNIT: str = "MACs"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    FORMULA: str = (
        "macs - those of the scores above the diagonal of causal attention, and of those that a mask takes away, such "
        "as a sliding window"
    )
    OMISSIONS: str = (
        "masks whose values are unknown, or take more than a mebibyte in a pass without values: attention then counts "
        "in full, as an upper bound; masks in attention that is written as matrix products"
    )
    SOURCE: str = (
        "scores up to the diagonal: L * (L + 1) / 2 of L * L; in a window W: the sum of min(i, W) over the queries"
    )


class ComputeAttendedMacs(ProfilerFunction):
    """Counts attention by its attended scores, and says how each is counted. Computed only if requested by name."""

    KEYS: ClassVar[Keys] = (AttendedMacs,)
    ON_DEMAND: ClassVar[bool] = True

    def __call__(self, trace: ModelTrace) -> Any:
        """Return the count; an upper bound if attention has masks of unknown values."""
        spared = sum(op.macs - op.attended_macs for op in trace.operators if op.attended_macs is not None)
        masked = sum(op.is_masked and op.attended_macs is None for op in trace.operators)
        count: Any = trace.macs - spared
        if masked:
            missing = f"how much {masked} masks of attention leave, which depends on their values"
            count = Partial(count, (missing,), Bounds(None, count))
        return Noted(count, "; ".join(describe_modes(trace)))


#: The operators of attention by their names: "torch_attn._varlen_attn" as well.
_ATTENTION = re.compile("attention|attn", re.IGNORECASE)
#: The way of counting attention, by whether it has a mask, and whether the attended scores are known.
_MODES = {
    (False, True): "causal or windowed attention of {}: what it attends to",
    (True, True): "attention of {} under masks of known values, such as windows: what they leave",
    (True, False): "attention of {} under a mask of unknown values: in full",
    (False, False): "attention of {} without a mask: in full",
}


def describe_modes(trace: ModelTrace) -> list[str]:
    """Return in words how many operators of attention count in which way."""
    attention = [op for op in trace.operators if op.macs and _ATTENTION.search(op.operator)]
    numbers = Counter((op.is_masked, op.attended_macs is not None) for op in attention)
    texts = [text.format(format_count(numbers[mode], "operator")) for mode, text in _MODES.items() if numbers[mode]]
    return texts or ["no operator is attention; where it is written as products, it counts in full"]
