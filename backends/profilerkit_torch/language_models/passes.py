"""The two passes of a trace, the prefill and the step after it: their work, and each alone as a trace."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from profilerkit import ModelTrace
from profilerkit.trace.records import OpRecord
from profilerkit_predict.language_models.records import CacheContents, PassCounts

__all__ = ["count_pass", "split_passes"]


def count_pass(
    trace: ModelTrace, indices: Sequence[int], batch: int, new: int, cached: int, contents: CacheContents
) -> PassCounts:
    """Return the work of one pass, whose operators have these indices in the trace.

    Args:
        trace: The trace of both passes.
        indices: Which of its operators are those of the pass.
        batch: The sequences.
        new: The tokens of each that are new in this pass.
        cached: The tokens of each that the cache held before.
        contents: What the cache holds afterwards; it is no memory of the pass.
    """
    operators = [trace.operators[index] for index in indices]
    live = max((trace.memory.live_bytes[index] for index in indices), default=0)
    return PassCounts(
        batch,
        new_tokens=new,
        cached_tokens=cached,
        macs=sum(operator.macs for operator in operators),
        flops=sum(operator.flops for operator in operators),
        bytes_read=sum(operator.bytes_read for operator in operators),
        bytes_written=sum(operator.bytes_written for operator in operators),
        activation_bytes=max(live - contents.allocated_bytes, 0),
        operators=len(operators),
        uncounted=dict(trace.uncounted),
    )


def split_passes(
    trace: ModelTrace, prefill: Sequence[OpRecord], decode: Sequence[OpRecord]
) -> tuple[ModelTrace, ModelTrace]:
    """Return the trace of each of both passes: its operators, and of the calls of each layer its half."""
    first_layers, second_layers = [], []
    for layer in trace.layers:
        half = len(layer.calls) // 2
        first_layers.append(replace(layer, calls=layer.calls[:half]))
        second_layers.append(replace(layer, calls=layer.calls[half:]))
    return (
        ModelTrace(tuple(first_layers), tuple(prefill), uncounted=trace.uncounted),
        ModelTrace(tuple(second_layers), tuple(decode), uncounted=trace.uncounted),
    )
