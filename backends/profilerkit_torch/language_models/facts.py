"""What is found out about a language model by following it: its counts, its cache, its weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from profilerkit import ModelTrace
from profilerkit.trace.conditions import write_notes
from profilerkit.trace.records import OpRecord
from profilerkit_predict.language_models.laws import Passes, find_terms, split_phases
from profilerkit_predict.language_models.records import CacheGrowth, ModelFacts, ReadIn, TracedPasses, Work
from profilerkit_predict.language_models.shapes import find_shapes
from profilerkit_predict.language_models.weights import (
    count_unrouted_macs,
    find_passes,
    list_layer_weights,
    list_matrices,
    weight_parts,
)

from ..model.weights import note_quantization
from .attention_caches import count_repeats, find_latent_attention, find_limits, find_windows
from .configurations import (
    describe_execution,
    find_index_stride,
    find_longest_context,
    find_routing,
    find_sizes,
    has_chunks,
)
from .decoders import require_decoder
from .dtypes import find_dtype
from .following import choose_length, find_cache_growth, follow
from .models import make_language_model
from .own_heads import add_own_heads
from .passes import count_pass, split_passes
from .storage import find_storage

__all__ = ["find_facts"]

_SPLIT = (
    "the work of some layers follows no law of tokens and pairs ({layers}): prefill is taken to grow with the tokens, "
    "from the traced prompt; a step is as traced"
)
_GROWING = (
    "the work of a step grows with the cache in these layers, by no law that is known here: a step counts as after the "
    "traced prompt, so that its work is a lower bound for longer ones"
)
_TELLING = (
    "traced with a prompt of {count:,} tokens, after which the step fills entries of several tokens; others follow"
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


def find_facts(
    model: Any, prompt: int, dtype: str | None = None, name: str | None = None, batch: int = 1
) -> ModelFacts:
    """Return what is found out about a language model by one pass over a prompt and one token after it."""
    language_model = make_language_model(model, dtype)
    require_decoder(language_model)
    config = language_model.config
    is_encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    length, notes = choose_length(language_model, prompt)
    trace, calls = follow(language_model, length, batch, 1)
    parts = find_cache_growth(language_model, calls.contents)
    strides = sorted(({part.stride for part in parts if not part.waits} | {find_index_stride(config)}) - {1})
    telling = _find_telling_length(strides, length)
    if telling != length and telling < (find_longest_context(config) or telling + 1):
        length, notes = telling, [_TELLING.format(count=telling)]
        trace, calls = follow(language_model, length, batch, 1)

    indices = split_phases(trace)[:2]
    prefill, decode = ([trace.operators[index] for index in phase] for phase in indices)
    windows = find_windows(language_model, calls.windows)
    latent = find_latent_attention(language_model, parts)
    limits = find_limits(language_model, parts) if latent is None else {}  # of latents `engine_macs` limits the keys
    passes = Passes(prefill, decode, batch, length, windows, tuple(strides), limits, has_chunks(config))
    if passes.has_chunks:
        parts = tuple(replace(part, is_chunked=part.window is not None) for part in parts)
    terms, strangers = find_terms(passes)
    routing = find_routing(config)
    storage = find_storage(trace, config)
    head = _find_head_weight(language_model, trace)
    layer_weights = list_layer_weights(trace, decode, batch, head, routing)
    weights = weight_parts(layer_weights, storage.formats, storage.packed)
    unrouted = count_unrouted_macs(trace, decode, batch, routing)
    cached = 1 if is_encoder_decoder else length
    shapes = partial(find_shapes, passes)

    notes += _list_notes(strangers, is_encoder_decoder, unrouted, trace)
    if strangers and not is_encoder_decoder and _does_step_grow(language_model, strangers, decode, batch, length):
        notes.append(_GROWING)
    notes += storage.notes
    unquantized = tuple(note_quantization(language_model))  # no remark here: the bytes of ``stored`` are counted
    notes += [*(note for note in trace.notes if note not in unquantized), *write_notes(trace.conditions)]
    facts = ModelFacts(
        name=name or type(language_model).__name__,
        execution=describe_execution(config, has_experts=any(part.routing is not None for part in weights)),
        parameters=trace.total_params,
        weights=weights,
        dtype=find_dtype(language_model),
        sizes=find_sizes(config),
        work=Work(terms, latent, unrouted),
        cache=CacheGrowth(parts, tuple(calls.contents), count_repeats(language_model, calls.contents[0])),
        architecture=type(language_model).__name__,
        matrices=list_matrices(layer_weights),
        traced=TracedPasses(
            count_pass(trace, indices[0], batch, length, 0, calls.contents[0]),
            count_pass(trace, indices[1], batch, 1, cached, calls.contents[1]),
            make_shapes=None if is_encoder_decoder or unrouted else shapes,
            make_traces=partial(split_passes, trace, prefill, decode),
        ),
        encoder_prompt=length if is_encoder_decoder else None,
        unknown_storage=storage.unknown,
        notes=tuple(notes),
        notes_on_text=tuple(_list_notes_on_text(trace)),
    )
    return add_own_heads(language_model, facts, passes, layer_weights, storage)


def _find_telling_length(strides: Sequence[int], length: int) -> int:
    """Return the next length after which one more token fills an entry of each kind, beside another that is full.

    The work of a step then tells that it grows with the entries; else it might be that of a token alone.
    """
    if not strides:
        return length
    period = math.lcm(*strides)
    return period * max(math.ceil((length + 1) / period), 2) - 1


def _list_notes(strangers: Sequence[str], is_encoder_decoder: bool, unrouted: int, trace: ModelTrace) -> Iterator[str]:
    """Yield what a reader of the numbers must know."""
    if is_encoder_decoder:
        yield _ENCODER_DECODER
    elif strangers:
        yield _SPLIT.format(layers=_shorten(strangers))
    if unrouted:
        yield _UNROUTED
    if trace.uncounted:
        yield f"not counted, so that counts are lower bounds: {', '.join(trace.missing)}"


def _list_notes_on_text(trace: ModelTrace) -> Iterator[str]:
    """Yield which layers text does not go through."""
    passes = find_passes(trace)
    unread = [layer for layer in trace.layers if passes[layer.path] is ReadIn.NONE]
    count = sum(weight.count for layer in unread for weight in layer.parameters)
    if count:
        outermost = [layer.path for layer in unread if passes[layer.path.rpartition(".")[0]] is not ReadIn.NONE]
        yield _UNREAD.format(count=count, layers=_shorten(outermost))


def _does_step_grow(
    model: nn.Module, strangers: Sequence[str], decode: Sequence[OpRecord], batch: int, length: int
) -> bool:
    """Return whether a step takes more work in some layers after twice as many tokens as after ``length``."""
    longest = find_longest_context(model.config) or 2 * length + 1
    trace, _ = follow(model, min(2 * length, longest - 1), batch, 1)
    later = [trace.operators[index] for index in split_phases(trace)[1]]
    before, after = (sum(op.macs for op in ops if op.layer in set(strangers)) for ops in (decode, later))
    return after > before


def _shorten(paths: Sequence[str]) -> str:
    return f"{', '.join(paths[:2])} and {len(paths) - 2} more" if len(paths) > 3 else ", ".join(paths)


def _find_head_weight(model: Any, trace: ModelTrace) -> int | None:
    """Return the identity of the weight that makes logits, in the trace."""
    output = model.get_output_embeddings()
    path = next((path for path, module in model.named_modules() if module is output), None)
    records = [layer for layer in trace.layers if layer.path == path]
    weights = [weight for layer in records for weight in layer.parameters if weight.name == "weight"]
    return weights[0].identity if weights else None
