"""The multiply-accumulates of a step, by laws of its tokens: as the model's code runs it, and in a serving engine.

A table in ``docs/language-models.rst`` has the differences between an engine and the model's code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction


class Law(StrEnum):
    """How multiply-accumulates grow with ``n`` new tokens of a sequence after ``c`` tokens in its cache."""

    #: ``rate * n``: products with weights.
    TOKEN = "token"
    #: ``rate``: products for the last token alone, like the head.
    LAST = "last"
    #: ``rate`` for each pair of a query and a key: attention.
    PAIR = "pair"
    #: ``rate`` for each pair of a query and an entry of several tokens, like compressed keys.
    ENTRY = "entry"
    #: ``rate * (c + n)``: work that is done anew for each token in the cache.
    KEY = "key"
    #: ``rate * n`` in a step of one token, ``prefill_rate * n`` in one of several.
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the multiply-accumulates of a step, by the law that it follows."""

    law: Law
    #: Multiply-accumulates, of one sequence.
    rate: int
    #: How many tokens are attended to at most; None for all.
    window: int | None = None
    #: Of `Law.SPLIT` alone; None for the others.
    prefill_rate: Fraction | None = None
    #: Of how many tokens an entry is, of `Law.ENTRY`; 1 for the others.
    stride: int = 1
    #: How many keys or entries a query attends to at most in an engine, if an indexer chooses them; None for all.
    most_attended: int | None = None
    #: Of `Law.ENTRY`: whether the model's code too computes only the entries that a query sees.
    is_causal: bool = False
    #: Whether an engine attends only to the tokens of a query's chunk of ``window`` tokens; see `CacheLayer`.
    is_chunked: bool = False


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """The sizes of latent attention, which has a low-rank latent of keys and values in its cache."""

    layers: int
    heads: int
    rank: int
    #: The size of the part of a key that is shared by all heads and has the position.
    rope: int
    #: The size of the rest of a key.
    nope: int
    value: int
    #: How many keys a query attends to at most, if an indexer chooses them; None for all.
    most_attended: int | None = None
    #: The bytes of a token in the cache besides the latents, in all layers: the bytes of an indexer.
    index_bytes: int = 0
    #: The size of the latent that queries are made of; 0 if they are made of a token's features.
    query_rank: int = 0

    @property
    def expansion_macs(self) -> int:
        """The multiply-accumulates that make keys and values of the latent of a token, in all layers."""
        return self.layers * self.rank * self.heads * (self.nope + self.value)

    @property
    def pair_macs(self) -> int:
        """The multiply-accumulates of a query and an expanded key with its value, in all layers."""
        return self.layers * self.heads * (self.nope + self.rope + self.value)


@dataclass(frozen=True, slots=True)
class Work:
    """The laws of the multiply-accumulates of a pass."""

    #: Their parts, as the model's own code runs them.
    terms: tuple[Term, ...]
    #: The sizes of latent attention; None for a model without it.
    latent: LatentAttention | None = None
    #: The multiply-accumulates of a token for experts that it is not sent to, if a library runs all experts.
    unrouted_macs: int = 0


# The pairs of attention -----------------------------------------------------------------------------------------------


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


# The multiply-accumulates of a step -----------------------------------------------------------------------------------


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


def count_engine_macs(work: Work, batch: int, new_tokens: int, cached: int, logits: int = 1) -> int:
    """Return the multiply-accumulates that a serving engine needs for a step.

    ``logits`` is of how many tokens of each sequence the head makes logits.
    """
    total = batch * (logits - 1) * sum(term.rate for term in work.terms if term.law is Law.LAST)
    total += count_macs(_list_engine_terms(work), batch, new_tokens, cached, attended=True)
    if work.latent is not None:
        expanded, absorbed = (
            count_macs(terms, batch, new_tokens, cached, attended=True) for terms in _list_latent_terms(work.latent)
        )
        total += absorbed if new_tokens == 1 else min(expanded, absorbed)
    return total


def _list_engine_terms(work: Work) -> Iterator[Term]:
    """Yield the terms of a model without what an engine does otherwise, or not at all.

    A law may have several terms: the left-out work is subtracted once, from the first term that is as large.
    """
    left_out = _count_left_out(work)
    for term in work.terms:
        rate = term.rate
        if term.window is None and rate >= left_out[term.law]:  # latent attention has no windows
            rate -= left_out.pop(term.law, 0)
        if rate or term.prefill_rate:
            yield replace(term, rate=rate)


def _count_left_out(work: Work) -> Counter[Law]:
    """Return the work that an engine does otherwise, or not at all, by the law that it follows in the model's code.

    These are experts that a token is not sent to, and latent attention, which is counted by its sizes: the expansion of
    latents is a term for each cached token if the cache holds latents, and a part of the term for each new token if the
    library expands them before they are cached. The work of an indexer for each pair stays.
    """
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
