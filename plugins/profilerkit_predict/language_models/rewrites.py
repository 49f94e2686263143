"""The two execution models, and the table of rewrites that leads from the model's own code to a serving engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .formulas import count_macs
from .records import LatentAttention, Law, Term, Work

__all__ = ["REWRITES", "Rewrite", "engine_macs", "engine_terms"]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One thing that a serving engine does otherwise than the model's own code.

    Attributes:
        name: What is rewritten.
        as_written: What the model's own code does.
        engine: What the engine is taken to do.
        changes: Which numbers that changes.
    """

    name: str
    as_written: str
    engine: str
    changes: str


REWRITES: tuple[Rewrite, ...] = (
    Rewrite(
        "fused attention",
        "the whole square of queries and keys, masked afterwards",
        "each query with the keys that it attends to: causal, inside the window, or its own chunk, no more than "
        "an indexer chooses; scores are never written",
        "MACs of attention, bytes",
    ),
    Rewrite(
        "absorbed latent attention",
        "keys and values of the whole cache are expanded from their latents at each step",
        "decode: the expansion is multiplied into queries and outputs, attention runs on the latents; a pass over "
        "several tokens expands or absorbs, whichever takes fewer MACs",
        "MACs of latent attention",
    ),
    Rewrite(
        "latent cache",
        "what the cache object holds (keys and values of all heads where the library expands them first)",
        "the latent and the shared part of the key with the position, once for all heads; an indexer's keys as seen",
        "bytes of the cache",
    ),
    Rewrite(
        "grouped cache",
        "what the cache object holds (Falcon's new architecture repeats keys and values for all heads first)",
        "keys and values of each group of heads once",
        "bytes of the cache",
    ),
    Rewrite(
        "paged cache",
        "each step copies the cache to append to it",
        "blocks of block_size tokens; a step writes its own tokens and reads those that it attends to",
        "bytes of the cache, bytes moved",
    ),
    Rewrite(
        "head on the last token",
        "logits of the last token, as generate() asks for; of all tokens where the model cannot leave them out",
        "logits of the last token of each sequence",
        "MACs of the head in prefill",
    ),
    Rewrite(
        "grouped experts",
        "as the experts implementation does; Llama 4's runs all experts for each token",
        "a product for each token and each of its experts; the weights of distinct experts are read once",
        "MACs of experts, bytes of weights",
    ),
    Rewrite(
        "chunked prefill",
        "all prompts in one pass",
        "at most prefill_tokens tokens in one pass: activations are those of so many tokens",
        "bytes of activations",
    ),
)


def engine_terms(work: Work) -> tuple[Term, ...]:
    """Return the terms of a model without its latent attention, which `engine_macs` counts by its own sizes.

    The expansion of latents is a term for each cached token where the cache holds latents, and a part of that for each
    new token where the library expands them before they are cached. What an indexer does for each pair stays. Experts
    that a token is not sent to are left out, also where the library runs all of them.
    """
    left_out = {Law.TOKEN: work.unrouted_macs, Law.KEY: 0, Law.PAIR: 0}
    latent = work.latent
    if latent is not None:
        expansion = latent.layers * latent.rank * latent.heads * (latent.nope + latent.value)
        is_for_each_key = any(term.law is Law.KEY and term.rate >= expansion for term in work.terms)
        left_out[Law.KEY if is_for_each_key else Law.TOKEN] += expansion
        left_out[Law.PAIR] = latent.layers * latent.heads * (latent.nope + latent.rope + latent.value)
    terms = []
    for term in work.terms:
        less = left_out.get(term.law, 0) if term.window is None else 0  # latent attention has no windows
        rate = term.rate - less if term.rate >= less else term.rate
        if rate or term.prefill_rate:
            terms.append(replace(term, rate=rate))
    return tuple(terms)


def _list_latent_terms(latent: LatentAttention) -> Iterator[tuple[Term, ...]]:
    """Yield the two ways to run latent attention: expanded, and absorbed."""
    expansion = latent.rank * latent.heads * (latent.nope + latent.value) * latent.layers
    core = latent.heads * (latent.nope + latent.rope + latent.value) * latent.layers
    absorbed_core = latent.heads * (latent.rank + latent.rope + latent.rank) * latent.layers
    most = latent.most_attended
    yield Term(Law.KEY, expansion), Term(Law.PAIR, core, most_attended=most)
    yield Term(Law.TOKEN, expansion), Term(Law.PAIR, absorbed_core, most_attended=most)


def engine_macs(work: Work, batch: int, new_tokens: int, cached: int, logits: int = 1) -> int:
    """Return the multiply-accumulates that a serving engine needs for a step, by the table of rewrites.

    ``logits`` is of how many tokens of each sequence the head makes logits.
    """
    total = batch * (logits - 1) * sum(term.rate for term in work.terms if term.law is Law.LAST)
    total += count_macs(engine_terms(work), batch, new_tokens, cached, attended=True)
    if work.latent is not None:
        expanded, absorbed = (
            count_macs(terms, batch, new_tokens, cached, attended=True) for terms in _list_latent_terms(work.latent)
        )
        total += absorbed if new_tokens == 1 else min(expanded, absorbed)
    return total
