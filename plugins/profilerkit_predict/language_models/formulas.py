"""Formulas over plain numbers: the multiply-accumulates of a step as written and in an engine, experts, bytes.

A table in ``docs/language-models.rst`` has the differences between an engine and the model's code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from profilerkit.errors import ArgumentError

from ..checkpoints.formats import WeightFormat
from .records import WeightPart
from .work import LatentAttention, Law, Term, Work

#: Bytes of an element.
_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int8": 1}


def dtype_bytes(dtype: str) -> int:
    """Return the bytes of an element of a dtype."""
    return _BYTES[dtype]


def count_expected_experts(experts: int, experts_per_token: int, tokens: int) -> float:
    """Return how many distinct experts so many tokens are expected to use, if routing is uniform.

    ``E * (1 - (1 - k / E) ** B)``: an expert is left out by one token with the probability ``1 - k / E``. Tokens are
    taken to choose independently; a trained router is never uniform, and uses fewer.

    >>> count_expected_experts(8, 2, 1), round(count_expected_experts(8, 2, 8), 3)
    (2.0, 7.199)
    """
    if not 0 < experts_per_token <= experts:
        raise ArgumentError(f"experts_per_token={experts_per_token}: give a number from 1 to {experts}, the experts")
    return float(experts * (1 - (1 - experts_per_token / experts) ** tokens))


def count_attended_pairs(new_tokens: int, cached: int, window: int | None = None) -> int:
    """Return how many pairs of a query and a key attention needs, causal and inside the window.

    >>> count_attended_pairs(4, 0), count_attended_pairs(1, 4), count_attended_pairs(4, 0, window=2)
    (10, 5, 7)
    """
    if window is None or cached + new_tokens <= window:
        return new_tokens * cached + new_tokens * (new_tokens + 1) // 2
    partial = max(0, window - cached - 1)  # the first queries, that see fewer keys than the window has
    return count_attended_pairs(partial, cached) + (new_tokens - partial) * window


def count_chunked_pairs(new_tokens: int, cached: int, chunk: int) -> int:
    """Return how many pairs attention needs in which a query sees the keys of its own chunk up to itself.

    The query at position ``p`` sees ``p % chunk + 1`` keys.

    >>> count_chunked_pairs(5, 0, chunk=4), count_chunked_pairs(1, 7, chunk=4), count_chunked_pairs(1, 8, chunk=4)
    (11, 4, 1)
    """
    return _sum_chunks(cached + new_tokens, chunk) - _sum_chunks(cached, chunk)


def _sum_chunks(tokens: int, chunk: int) -> int:
    """Return the pairs among the first so many tokens: the pairs of complete chunks, and of the incomplete chunk."""
    whole, begun = divmod(tokens, chunk)
    return whole * count_attended_pairs(chunk, 0) + count_attended_pairs(begun, 0)


def count_attended_entries(new_tokens: int, cached: int, stride: int, most: int | None = None) -> int:
    """Return how many pairs of a query and an entry attention needs, if each ``stride`` tokens make one entry.

    A query sees the entries that are full by then, itself counted, and ``most`` of them at most.

    >>> count_attended_entries(1, 11, 4), count_attended_entries(12, 0, 4), count_attended_entries(12, 0, 4, most=1)
    (3, 15, 9)
    """
    return _sum_entries(cached + new_tokens, stride, most) - _sum_entries(cached, stride, most)


def _sum_entries(tokens: int, stride: int, most: int | None) -> int:
    """Return the sum of ``min(most, t // stride)`` over all ``t`` from 0 to a number of tokens."""
    last = tokens // stride if most is None else min(most, tokens // stride)  # the term of the last token
    before = stride * (last * (last - 1) // 2)  # 0, 1, ... last - 1, each ``stride`` times
    return before + last * (tokens - stride * last + 1)


def count_written_pairs(new_tokens: int, cached: int, window: int | None = None) -> int:
    """Return how many pairs the model's code computes: the whole square, also the pairs that a mask hides.

    A window limits the tokens from the cache, to one less than the window, and not the square of new tokens.
    """
    from_cache = cached if window is None else min(cached, window - 1)
    return new_tokens * (new_tokens + from_cache)


def count_macs(terms: Iterable[Term], batch: int, new_tokens: int, cached: int, attended: bool) -> int:
    """Return the multiply-accumulates of a step by its terms.

    With ``attended``, attention counts the pairs that it needs; otherwise the whole square, like the model's code.
    """
    total: int | Fraction = 0
    for term in terms:
        match term.law:
            case Law.TOKEN:
                total += term.rate * new_tokens
            case Law.LAST:
                total += term.rate
            case Law.PAIR:
                total += term.rate * _count_pairs(term, new_tokens, cached, attended)
            case Law.ENTRY:
                total += term.rate * _count_entries(term, new_tokens, cached, attended)
            case Law.KEY:
                total += term.rate * (new_tokens + cached)
            case Law.SPLIT:
                rate = term.rate if new_tokens == 1 or term.prefill_rate is None else term.prefill_rate
                total += rate * new_tokens
    return round(total * batch)


def _count_pairs(term: Term, new_tokens: int, cached: int, attended: bool) -> int:
    """Return how many pairs of a query and a key a term of `Law.PAIR` is for, in one sequence."""
    if not attended:
        return count_written_pairs(new_tokens, cached, term.window)
    if term.window is None:  # an indexer chooses other keys than a window, but as many
        return count_attended_pairs(new_tokens, cached, term.most_attended)
    count = count_chunked_pairs if term.is_chunked else count_attended_pairs
    return count(new_tokens, cached, term.window)


def _count_entries(term: Term, new_tokens: int, cached: int, attended: bool) -> int:
    """Return how many pairs of a query and an entry a term of `Law.ENTRY` is for, in one sequence."""
    if attended:
        return count_attended_entries(new_tokens, cached, term.stride, term.most_attended)
    if term.is_causal:
        return count_attended_entries(new_tokens, cached, term.stride)
    return new_tokens * ((new_tokens + cached) // term.stride)  # each query meets all entries, and a mask hides some


def count_stored_bytes(part: WeightPart, weights: WeightFormat | None) -> int:
    """Return the bytes of weights in a format, if it is for their kind; None for their stored format."""
    return weights.count_bytes(part.elements) if weights and part.kind in weights.kinds else part.bytes


def engine_terms(work: Work) -> tuple[Term, ...]:
    """Return the terms of a model without its latent attention, which `engine_macs` counts by the latent sizes.

    The expansion of latents is a term for each cached token if the cache holds latents, and a part of the term for each
    new token if the library expands them before they are cached. The work of an indexer for each pair stays. Experts
    that a token is not sent to are left out, also if the library runs all of them.

    A law may have several terms: the left-out work is subtracted once, from the first term that is as large.
    """
    left_out = _count_left_out(work)
    terms = []
    for term in work.terms:
        rate = term.rate
        if term.window is None and rate >= left_out[term.law]:  # latent attention has no windows
            rate -= left_out.pop(term.law, 0)
        if rate or term.prefill_rate:
            terms.append(replace(term, rate=rate))
    return tuple(terms)


def _count_left_out(work: Work) -> Counter[Law]:
    """Return the work that an engine does otherwise, or not at all, by the law that it follows in the model's code."""
    left_out = Counter({Law.TOKEN: work.unrouted_macs})
    if work.latent is not None:
        expansion = work.latent.expansion_macs
        is_for_each_key = any(term.law is Law.KEY and term.rate >= expansion for term in work.terms)
        left_out[Law.KEY if is_for_each_key else Law.TOKEN] += expansion
        left_out[Law.PAIR] = work.latent.pair_macs
    return left_out


def _list_latent_terms(latent: LatentAttention) -> Iterator[tuple[Term, ...]]:
    """Yield the two ways to run latent attention: expanded, and absorbed."""
    expansion, most = latent.expansion_macs, latent.most_attended
    absorbed_pair = latent.layers * latent.heads * (latent.rank + latent.rope + latent.rank)
    yield Term(Law.KEY, expansion), Term(Law.PAIR, latent.pair_macs, most_attended=most)
    yield Term(Law.TOKEN, expansion), Term(Law.PAIR, absorbed_pair, most_attended=most)


def engine_macs(work: Work, batch: int, new_tokens: int, cached: int, logits: int = 1) -> int:
    """Return the multiply-accumulates that a serving engine needs for a step.

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
