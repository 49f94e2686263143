"""What is found out about a language model by following it, its counts, its cache, its weights; and notes, in words."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from msgspec import structs
from torch import nn

from profilerkit import ModelTrace
from profilerkit.count_text import list_some
from profilerkit.trace.conditions import write_notes
from profilerkit.trace.records import LayerCall, OpRecord
from profilerkit_predict.language_models.laws import Passes, find_root_call, find_shapes, find_terms, split_phases
from profilerkit_predict.language_models.model_cache import CacheContents, CacheGrowth, CacheLayer
from profilerkit_predict.language_models.records import (
    LatentAttention,
    ModelFacts,
    PassCounts,
    ReadIn,
    TracedPasses,
    Work,
)
from profilerkit_predict.language_models.weights import (
    count_unrouted_macs,
    find_passes,
    list_layer_weights,
    list_matrices,
    weight_parts,
)

from ..model.weights import note_quantization
from .caches import count_repeats, find_latent_attention, find_limits, find_windows
from .checkpoints import find_dtype, find_storage
from .configurations import (
    describe_execution,
    find_index_stride,
    find_longest_context,
    find_routing,
    find_sizes,
    has_chunks,
    is_encoder_decoder,
    require_decoder,
)
from .following import Followed, choose_length, find_cache_growth, follow
from .models import make_language_model
from .mtp_layer import add_mtp_layer

__all__ = ["find_facts"]

#: How many sequences are followed.
_BATCH = 1
_TELLING = "traced with a prompt of {count:,} tokens, which tells work that grows with the cache from other work"


def find_facts(model: Any, prompt: int, dtype: str | None = None, name: str | None = None) -> ModelFacts:
    """Return what is found out about a language model by one pass over a prompt and one token after it."""
    language_model = make_language_model(model, dtype)
    require_decoder(language_model)
    traced = _trace(language_model, prompt)
    trace, config = traced.followed.trace, language_model.config
    latent = find_latent_attention(language_model, traced.cache)
    passes = _describe_passes(traced, latent)
    terms, strangers = find_terms(passes)
    routing, storage = find_routing(config), find_storage(trace, config)
    unrouted_macs = count_unrouted_macs(trace, passes.decode, _BATCH, routing)
    head = _find_head_weight(language_model, trace)
    weights = list_layer_weights(trace, passes.decode, _BATCH, head, routing)
    parts = weight_parts(weights, storage.formats, storage.packed)
    contents = traced.followed.calls.contents
    facts = ModelFacts(
        name=name or type(language_model).__name__,
        execution=describe_execution(config, has_experts=any(part.routing is not None for part in parts)),
        parameters=trace.total_params,
        weights=parts,
        dtype=find_dtype(language_model),
        sizes=find_sizes(config),
        work=Work(terms, latent, unrouted_macs),
        cache=CacheGrowth(_mark_chunks(traced, passes), tuple(contents), count_repeats(language_model, contents[0])),
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


class _Traced(NamedTuple):
    """A language model that was followed through a prompt and a step of one token.

    Attributes:
        model: The model.
        followed: What it did.
        length: The tokens of the prompt.
        cache: How the parts of its cache grow.
        strides: For how many tokens entries stand that are for several.
        notes: Why the prompt is not the one that was asked for.
    """

    model: Any
    followed: Followed
    length: int
    cache: Sequence[CacheLayer]
    strides: tuple[int, ...]
    notes: Sequence[str]

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the prompt goes to an encoder."""
        return is_encoder_decoder(self.model.config)


def _trace(model: Any, prompt: int) -> _Traced:
    """Follow a model through a prompt of so many tokens, or of more that tell how its work grows."""
    length, notes = choose_length(model, prompt)
    followed = follow(model, length, _BATCH, 1)
    cache = find_cache_growth(model, followed.calls.contents)
    strides = sorted(({part.stride for part in cache if not part.waits} | {find_index_stride(model.config)}) - {1})
    telling = _find_telling_length(strides, followed.calls.windows.values(), length)
    if telling != length and telling < (find_longest_context(model.config) or telling + 1):
        length, notes = telling, [_TELLING.format(count=telling)]
        followed = follow(model, length, _BATCH, 1)
    return _Traced(model, followed, length, cache, tuple(strides), notes)


def _find_telling_length(strides: Iterable[int], windows: Container[int], length: int) -> int:
    """Return the next length whose work tells what it grows with: the entries, the pairs of a window or the tokens.

    One more token fills an entry of each kind, beside another that is full; else the work of the step might be that of
    a token alone. So it might where the prompt is as long as a window: each of its tokens attends to as many keys.
    """
    period = math.lcm(*strides)
    telling = period * max(math.ceil((length + 1) / period), 2) - 1
    while telling in windows:
        telling += period
    return telling


def _describe_passes(traced: _Traced, latent: LatentAttention | None) -> Passes:
    """Return the operators of the prefill and the step, and what their work may follow."""
    model, trace = traced.model, traced.followed.trace
    prefill, decode = ([trace.operators[index] for index in phase] for phase in split_phases(trace)[:2])
    windows = find_windows(model, traced.followed.calls.windows)
    limits = find_limits(model, traced.cache) if latent is None else {}  # of latents `engine_macs` limits the keys
    return Passes(prefill, decode, _BATCH, traced.length, windows, traced.strides, limits, has_chunks(model.config))


def _mark_chunks(traced: _Traced, passes: Passes) -> tuple[CacheLayer, ...]:
    """Return how the parts of the cache grow, those with windows marked if these are of chunks."""
    if not passes.has_chunks:
        return tuple(traced.cache)
    return tuple(replace(part, is_chunked=part.window is not None) for part in traced.cache)


def _describe_trace(traced: _Traced, passes: Passes, has_laws: bool) -> TracedPasses:
    """Return the work of both passes, and what makes traces of others; the latter by shapes only if these have laws."""
    trace, length = traced.followed.trace, traced.length
    prefill, decode = split_phases(trace)[:2]
    contents = traced.followed.calls.contents
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


# What a reader of the numbers must know -------------------------------------------------------------------------------


_SPLIT = (
    "the work of some layers follows no law of tokens and pairs ({layers}): prefill is taken to grow with the tokens, "
    "from the traced prompt; a step is as traced"
)
_GROWING = (
    "the work of a step grows with the cache in these layers, by no law that is known here: a step counts as after the "
    "traced prompt, so that its work is a lower bound for longer ones"
)
_UNROUTED = (
    "the library's code runs every expert for each token; the engine's numbers are of those that a token is sent to by "
    "the configuration"
)
_UNREAD = (
    "{count:,} parameters of layers that text does not go through ({layers}) take memory, and no step reads them; "
    "where they are for images or sound, images= (--images) or audio= (--audio) counts the work for those"
)
_ENCODER_DECODER = (
    "the prompt goes to the encoder, and its work and the cross attention are those of the traced prompt; the "
    "decoder's own attention is taken as in its second token, so that later steps are lower bounds"
)


def list_notes(
    model: Any, passes: Passes, strangers: Sequence[str], trace: ModelTrace, is_unrouted: bool
) -> Iterator[str]:
    """Yield notes on how the work grows.

    Args:
        model: The model.
        passes: The prefill and the step that were traced.
        strangers: The layers whose work follows no law.
        trace: The trace of both passes.
        is_unrouted: Whether the library runs experts that a token is not sent to.
    """
    has_encoder = is_encoder_decoder(model.config)
    if has_encoder:
        yield _ENCODER_DECODER
    elif strangers:
        yield _SPLIT.format(layers=list_some(strangers, 2))
    if is_unrouted:
        yield _UNROUTED
    if trace.uncounted:
        yield f"not counted, so that counts are lower bounds: {', '.join(trace.missing)}"
    if strangers and not has_encoder and _does_step_grow(model, strangers, passes):
        yield _GROWING


def _does_step_grow(model: Any, strangers: Sequence[str], passes: Passes) -> bool:
    """Return whether a step takes more work in some layers after a prompt of twice the length."""
    longest = find_longest_context(model.config) or 2 * passes.prompt + 1
    trace, _ = follow(model, min(2 * passes.prompt, longest - 1), passes.batch, 1)
    later = [trace.operators[index] for index in split_phases(trace)[1]]
    layers = set(strangers)
    before = sum(operator.macs for operator in passes.decode if operator.layer in layers)
    after = sum(operator.macs for operator in later if operator.layer in layers)
    return after > before


def list_notes_on_trace(model: nn.Module, trace: ModelTrace) -> Iterator[str]:
    """Yield the notes of a trace, but not those on quantization: the bytes of stored weights are counted."""
    on_quantization = tuple(note_quantization(model))
    yield from (note for note in trace.notes if note not in on_quantization)
    yield from write_notes(trace.conditions)


def list_notes_on_text(trace: ModelTrace) -> Iterator[str]:
    """Yield which layers text does not go through."""
    passes = find_passes(trace)
    unread = [layer for layer in trace.layers if passes[layer.path] is ReadIn.NONE]
    count = sum(weight.count for layer in unread for weight in layer.parameters)
    if count:
        outermost = [layer.path for layer in unread if passes[layer.path.rpartition(".")[0]] is not ReadIn.NONE]
        yield _UNREAD.format(count=count, layers=list_some(outermost, 2))
