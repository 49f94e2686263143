"""The facts of a language model that is followed: its counts, its cache and its weights."""

from __future__ import annotations

from typing import Any

from profilerkit import ModelTrace
from profilerkit_predict.language_models.facts.laws import find_terms
from profilerkit_predict.language_models.facts.model_cache import CacheGrowth
from profilerkit_predict.language_models.facts.records import ModelFacts
from profilerkit_predict.language_models.facts.weights import (
    count_unrouted_macs,
    list_layer_weights,
    list_matrices,
    weight_parts,
)
from profilerkit_predict.language_models.facts.work import Work

from .caches import count_repeats, find_latent_attention
from .checkpoints import find_storage
from .configurations import describe_execution, find_routing, find_sizes
from .following import FollowedPrompt, follow_prompt
from .generating import require_decoder
from .models import find_dtype, make_language_model
from .mtp_layer import add_mtp_layer
from .notes import list_notes, list_notes_on_text, list_notes_on_trace
from .traced_passes import count_passes, list_passes

__all__ = ["find_facts"]

#: The number of sequences that are followed.
_BATCH = 1


def find_facts(model: Any, prompt: int, dtype: str | None = None, name: str | None = None) -> ModelFacts:
    """Return the facts of a language model, found by one pass over a prompt and one token after it."""
    language_model = make_language_model(model, dtype)
    require_decoder(language_model)
    traced = follow_prompt(language_model, prompt, _BATCH)
    trace, config = traced.trace, language_model.config
    # The work, by laws of the tokens and the context.
    latent = find_latent_attention(language_model, traced.cache)
    passes = list_passes(traced, latent)
    terms, strangers = find_terms(passes)
    routing = find_routing(config)
    work = Work(terms, latent, count_unrouted_macs(trace, passes.decode, _BATCH, routing))
    # The weights, and how they are stored.
    storage = find_storage(trace, config)
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
        work=work,
        cache=_describe_cache(traced),
        architecture=type(language_model).__name__,
        matrices=list_matrices(weights),
        traced=count_passes(traced, passes, has_laws=not (traced.is_encoder_decoder or work.unrouted_macs)),
        encoder_prompt=traced.length if traced.is_encoder_decoder else None,
        unknown_storage=storage.unknown,
        notes=(
            *traced.notes,
            *list_notes(language_model, passes, strangers, trace, is_unrouted=work.unrouted_macs > 0),
            *storage.notes,
            *list_notes_on_trace(language_model, trace),
        ),
        notes_on_text=tuple(list_notes_on_text(trace)),
    )
    return add_mtp_layer(language_model, facts, passes, weights, storage)


def _describe_cache(traced: FollowedPrompt) -> CacheGrowth:
    """Return how the cache grows, with its contents after each pass."""
    contents = tuple(traced.calls.contents)
    return CacheGrowth(traced.cache, contents, count_repeats(traced.model, contents[0]))


def _find_head_weight(model: Any, trace: ModelTrace) -> int | None:
    """Return the identity of the weight that makes logits, in the trace."""
    output = model.get_output_embeddings()
    path = next((path for path, module in model.named_modules() if module is output), None)
    records = [layer for layer in trace.layers if layer.path == path]
    weights = [weight for layer in records for weight in layer.parameters if weight.name == "weight"]
    return weights[0].identity if weights else None
