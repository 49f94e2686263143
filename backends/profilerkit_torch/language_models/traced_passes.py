"""The prefill and the step of a language model, each alone: its operators, its work, and its trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import structs
from torch import nn

from profilerkit import ModelTrace
from profilerkit.trace.records import LayerCall, OpRecord
from profilerkit_predict.language_models.facts.laws import Passes, find_root_call, split_phases
from profilerkit_predict.language_models.facts.model_cache import CacheContents, CacheLayer, find_layer
from profilerkit_predict.language_models.facts.records import PassCounts, TracedPasses
from profilerkit_predict.language_models.facts.step_shapes import find_shapes
from profilerkit_predict.language_models.facts.work import LatentAttention

from .configurations import has_chunks
from .following import FollowedPrompt

__all__ = ["count_passes", "list_passes"]


def list_passes(traced: FollowedPrompt, latent: LatentAttention | None) -> Passes:
    """Return the operators of the prefill and the step, and the sizes that their work may follow."""
    model, trace, batch = traced.model, traced.trace, traced.calls.contents[0].batch
    prefill, decode = ([trace.operators[index] for index in phase] for phase in split_phases(trace)[:2])
    windows = _name_by_path(model, traced.calls.windows)
    # `count_engine_macs` limits the keys of latents.
    limits = _find_limits(model, traced.cache) if latent is None else {}
    return Passes(prefill, decode, batch, traced.length, windows, traced.strides, limits, has_chunks(model.config))


def _find_limits(model: nn.Module, cache: Iterable[CacheLayer]) -> dict[str, int | None]:
    """Return how many entries each attention attends to at most by its path, if an indexer chooses them."""
    limits: dict[int, int] = {}
    for part in cache:
        index = find_layer(part.path).rpartition(".")[2]
        if part.most_read is not None and index.isdigit():
            limits[int(index)] = part.most_read
    return _name_by_path(model, limits)


def _name_by_path(model: nn.Module, values: Mapping[int, int]) -> dict[str, int | None]:
    """Return the values of layers by the paths of the modules that have the index of the layer."""
    indices = {path: getattr(module, "layer_idx", None) for path, module in model.named_modules()}
    return {path: values[index] for path, index in indices.items() if isinstance(index, int) and index in values}


def count_passes(traced: FollowedPrompt, passes: Passes, has_laws: bool) -> TracedPasses:
    """Return the work of both passes, and functions for their traces and, if they follow laws, for shapes."""
    trace, length = traced.trace, traced.length
    prefill, decode = split_phases(trace)[:2]
    after_prefill, after_step = traced.calls.contents[:2]
    cached = 1 if traced.is_encoder_decoder else length
    return TracedPasses(
        _count_pass(trace, prefill, after_prefill, new=length, cached=0),
        _count_pass(trace, decode, after_step, new=1, cached=cached),
        make_shapes=partial(find_shapes, passes) if has_laws else None,
        make_traces=partial(_split_trace, trace, passes.prefill, passes.decode),
    )


def _count_pass(
    trace: ModelTrace, indices: Sequence[int], contents: CacheContents, new: int, cached: int
) -> PassCounts:
    """Return the work of one pass.

    Args:
        trace: The trace of both passes.
        indices: The indices of the pass's operators; the trace has the memory by the same indices.
        contents: The contents of the cache afterwards: its bytes are no activations.
        new: The tokens of each sequence that are new in this pass.
        cached: The tokens of each sequence that the cache held before.
    """
    operators = [trace.operators[index] for index in indices]
    live = max((trace.memory.live_bytes[index] for index in indices), default=0)
    return PassCounts(
        contents.batch,
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


def _split_trace(
    trace: ModelTrace, prefill: Sequence[OpRecord], decode: Sequence[OpRecord]
) -> tuple[ModelTrace, ModelTrace]:
    """Return the trace of each of both passes: its operators, and the calls of layers in it.

    An encoder is called in the prefill alone. The memory is left out: `_count_pass` reads it from the trace of both.
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
        layers = tuple(structs.replace(layer, calls=keep_calls(layer.path, number)) for layer in trace.layers)
        return ModelTrace(layers, tuple(operators), uncounted=trace.uncounted)

    return keep_pass(0, prefill), keep_pass(1, decode)
