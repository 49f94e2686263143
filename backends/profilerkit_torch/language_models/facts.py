"""What is found out about a language model by following it: its counts, its cache and its weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import structs

from profilerkit import ModelTrace
from profilerkit.trace.records import LayerCall, OpRecord
from profilerkit_predict.language_models.laws import Passes, find_root_call, find_terms, split_phases
from profilerkit_predict.language_models.model_cache import CacheContents, CacheGrowth
from profilerkit_predict.language_models.records import LatentAttention, ModelFacts, PassCounts, TracedPasses, Work
from profilerkit_predict.language_models.step_shapes import find_shapes
from profilerkit_predict.language_models.weights import (
    count_unrouted_macs,
    list_layer_weights,
    list_matrices,
    weight_parts,
)

from .caches import count_repeats, find_latent_attention, find_limits, find_windows
from .checkpoints import find_storage
from .configurations import describe_execution, find_routing, find_sizes, has_chunks
from .dtypes import find_dtype
from .following import FollowedPrompt, follow_prompt
from .generating import require_decoder
from .models import make_language_model
from .mtp_layer import add_mtp_layer
from .notes import list_notes, list_notes_on_text, list_notes_on_trace

__all__ = ["find_facts"]

#: How many sequences are followed.
_BATCH = 1


def find_facts(model: Any, prompt: int, dtype: str | None = None, name: str | None = None) -> ModelFacts:
    """Return what is found out about a language model by one pass over a prompt and one token after it."""
    language_model = make_language_model(model, dtype)
    require_decoder(language_model)
    traced = follow_prompt(language_model, prompt, _BATCH)
    trace, contents, config = traced.trace, traced.calls.contents, language_model.config
    latent = find_latent_attention(language_model, traced.cache)
    passes = _describe_passes(traced, latent)
    terms, strangers = find_terms(passes)
    routing, storage = find_routing(config), find_storage(trace, config)
    unrouted_macs = count_unrouted_macs(trace, passes.decode, _BATCH, routing)
    head = _find_head_weight(language_model, trace)
    weights = list_layer_weights(trace, passes.decode, _BATCH, head, routing)
    parts = weight_parts(weights, storage.formats, storage.packed)
    facts = ModelFacts(
        name=name or type(language_model).__name__,
        execution=describe_execution(config, has_experts=any(part.routing is not None for part in parts)),
        parameters=trace.total_params,
        weights=parts,
        dtype=find_dtype(language_model),
        sizes=find_sizes(config),
        work=Work(terms, latent, unrouted_macs),
        cache=CacheGrowth(traced.cache, tuple(contents), count_repeats(language_model, contents[0])),
        architecture=type(language_model).__name__,
        matrices=list_matrices(weights),
        traced=_describe_trace(traced, passes, has_laws=not (traced.is_encoder_decoder or unrouted_macs)),
        encoder_prompt=traced.length if traced.is_encoder_decoder else None,
        unknown_storage=storage.unknown,
        notes=(
            *traced.notes,
            *list_notes(language_model, passes, strangers, trace, is_unrouted=unrouted_macs > 0),
            *storage.notes,
            *list_notes_on_trace(language_model, trace),
        ),
        notes_on_text=tuple(list_notes_on_text(trace)),
    )
    return add_mtp_layer(language_model, facts, passes, weights, storage)


# The passes -----------------------------------------------------------------------------------------------------------


def _describe_passes(traced: FollowedPrompt, latent: LatentAttention | None) -> Passes:
    """Return the operators of the prefill and the step, and what their work may follow."""
    model, trace = traced.model, traced.trace
    prefill, decode = ([trace.operators[index] for index in phase] for phase in split_phases(trace)[:2])
    windows = find_windows(model, traced.calls.windows)
    limits = find_limits(model, traced.cache) if latent is None else {}  # of latents `engine_macs` limits the keys
    return Passes(prefill, decode, _BATCH, traced.length, windows, traced.strides, limits, has_chunks(model.config))


def _describe_trace(traced: FollowedPrompt, passes: Passes, has_laws: bool) -> TracedPasses:
    """Return the work of both passes, and what makes traces of others; the latter by shapes only if these have laws."""
    trace, length = traced.trace, traced.length
    prefill, decode = split_phases(trace)[:2]
    contents = traced.calls.contents
    return TracedPasses(
        count_pass(trace, prefill, _BATCH, length, 0, contents[0]),
        count_pass(trace, decode, _BATCH, 1, 1 if traced.is_encoder_decoder else length, contents[1]),
        make_shapes=partial(find_shapes, passes) if has_laws else None,
        make_traces=partial(split_passes, trace, passes.prefill, passes.decode),
    )


def _find_head_weight(model: Any, trace: ModelTrace) -> int | None:
    """Return the identity of the weight that makes logits, in the trace."""
    output = model.get_output_embeddings()
    path = next((path for path, module in model.named_modules() if module is output), None)
    records = [layer for layer in trace.layers if layer.path == path]
    weights = [weight for layer in records for weight in layer.parameters if weight.name == "weight"]
    return weights[0].identity if weights else None


# Each pass alone: its work, and its trace -----------------------------------------------------------------------------


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
        layers = tuple(structs.replace(layer, calls=keep_calls(layer.path, number)) for layer in trace.layers)
        return ModelTrace(layers, tuple(operators), uncounted=trace.uncounted)

    return keep_pass(0, prefill), keep_pass(1, decode)
