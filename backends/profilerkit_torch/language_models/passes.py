"""The two passes of a trace, the prefill and the step after it: their work, and each alone as a trace."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from profilerkit import ModelTrace
from profilerkit.trace.records import LayerCall, OpRecord
from profilerkit_predict.language_models.laws import find_root_call
from profilerkit_predict.language_models.records import CacheContents, PassCounts

__all__ = ["count_pass", "split_passes"]


def count_pass(
    trace: ModelTrace, indices: Sequence[int], batch: int, new: int, cached: int, contents: CacheContents
) -> PassCounts:
    """Return the work of one pass, whose operators have these indices in the trace.

    Args:
        trace: The trace of both passes.
        indices: Which of its operators are those of the pass; the trace has the memory by the same indices.
        batch: The sequences.
        new: The tokens of each that are new in this pass.
        cached: The tokens of each that the cache held before.
        contents: What the cache holds afterwards: its bytes are not among those of the activations.
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
        uncounted=dict(trace.uncounted),  # of both passes: the trace has their names alone
    )


def split_passes(
    trace: ModelTrace, prefill: Sequence[OpRecord], decode: Sequence[OpRecord]
) -> tuple[ModelTrace, ModelTrace]:
    """Return the trace of each of both passes: its operators, and the calls of layers that were made in it.

    An encoder is called in the prefill alone. The memory is left out: `count_pass` reads it from the trace of both.
    """
    calls = {layer.path: layer.calls for layer in trace.layers}
    pass_numbers: dict[tuple[str, int], int] = {}

    def keep_calls(path: str, number: int) -> tuple[LayerCall, ...]:
        return tuple(
            call
            for index, call in enumerate(calls[path])
            if find_root_call((path, index), calls, pass_numbers) == number
        )

    def keep_pass(number: int, operators: Sequence[OpRecord]) -> ModelTrace:
        layers = tuple(replace(layer, calls=keep_calls(layer.path, number)) for layer in trace.layers)
        return ModelTrace(layers, tuple(operators), uncounted=trace.uncounted)

    return keep_pass(0, prefill), keep_pass(1, decode)
