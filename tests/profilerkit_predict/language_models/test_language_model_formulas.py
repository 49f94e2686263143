"""Pairs of attention, distinct experts and formats of weights, against counts by hand."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from profilerkit import ArgumentError
from profilerkit_predict.checkpoints.formats import find_weight_format
from profilerkit_predict.language_models import count_expected_experts
from profilerkit_predict.language_models.facts.model_cache import CacheLayer
from profilerkit_predict.language_models.facts.work import (
    Law,
    Term,
    count_attended_entries,
    count_attended_pairs,
    count_chunked_pairs,
    count_macs,
    count_written_pairs,
)


def pairs_one_by_one(new: int, cached: int, window: int | None) -> int:
    """Each query sees the keys up to itself, of which a window keeps the last ones."""
    count = 0
    for query in range(cached, cached + new):
        count += sum(1 for key in range(query + 1) if window is None or query - key < window)
    return count


@pytest.mark.parametrize("window", [None, 1, 3, 8])
def test_attended_pairs_are_those_that_a_mask_leaves(window: int | None) -> None:
    for new, cached in itertools.product((1, 2, 5, 9), (0, 1, 2, 7, 12)):
        assert count_attended_pairs(new, cached, window) == pairs_one_by_one(new, cached, window), (new, cached)


@pytest.mark.parametrize("chunk", [1, 3, 8])
def test_a_query_sees_the_keys_of_its_own_chunk(chunk: int) -> None:
    for new, cached in itertools.product((1, 2, 5, 9), (0, 1, 2, 7, 12)):
        pairs = [(query, key) for query in range(cached, cached + new) for key in range(query + 1)]
        expected = sum(1 for query, key in pairs if query // chunk == key // chunk)
        assert count_chunked_pairs(new, cached, chunk) == expected, (new, cached)


def test_a_cache_of_chunks_keeps_one_and_a_step_reads_what_of_it_is_its_own() -> None:
    layer = CacheLayer("layers.0", 8, window=4, is_chunked=True)
    assert [layer.entries(context) for context in (0, 3, 4, 5, 9)] == [0, 3, 3, 3, 3]
    assert [layer.entries_read(context) for context in (0, 3, 4, 5, 9)] == [0, 3, 0, 1, 1]


@pytest.mark.parametrize("most", [None, 1, 3])
def test_entries_are_seen_when_they_are_full(most: int | None) -> None:
    for stride, new, cached in itertools.product((1, 2, 5), (1, 2, 9), (0, 1, 7, 12)):
        seen = [(tokens // stride) for tokens in range(cached + 1, cached + new + 1)]
        expected = sum(entries if most is None else min(most, entries) for entries in seen)
        assert count_attended_entries(new, cached, stride, most) == expected, (stride, new, cached)


def test_the_square_as_written_has_what_the_cache_hands_out() -> None:
    assert count_written_pairs(4, 0) == 16
    assert count_written_pairs(1, 10) == 11
    assert count_written_pairs(1, 10, window=4) == 4  # three from the cache, and itself
    assert count_written_pairs(6, 0, window=4) == 36  # a prefill masks the whole square


def test_expected_experts_is_the_mean_over_all_choices() -> None:
    """4 experts, 2 a token, 2 tokens: the 36 pairs of choices use 2, 3 or 4 distinct ones."""
    choices = list(itertools.combinations(range(4), 2))
    distinct = [len({*first, *second}) for first in choices for second in choices]
    assert count_expected_experts(4, 2, 2) == pytest.approx(sum(distinct) / len(distinct))


def test_expected_experts_of_no_valid_choice_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="give a number from 1 to 8, the experts"):
        count_expected_experts(8, 9, 1)


def test_int4_has_a_scale_for_128_elements() -> None:
    assert find_weight_format("int4").count_bytes(4096 * 4096) == 4096 * 4096 // 2 + 2 * 4096 * 4096 // 128
    assert find_weight_format("bf16").count_bytes(10) == 20
    assert find_weight_format("nf4").count_bytes(65) == 33 + 8  # half a byte each, and two scales of float32


def test_an_unknown_format_is_an_error_with_the_nearest() -> None:
    with pytest.raises(ArgumentError, match="weights='int5' is no format of weights; there are, nearest first: int4"):
        find_weight_format("int5")


def test_each_law_adds_what_it_says() -> None:
    terms = [Term(Law.TOKEN, 10), Term(Law.LAST, 7), Term(Law.PAIR, 3), Term(Law.PAIR, 5, 2), Term(Law.KEY, 2)]
    # Three new tokens after four: 30, 7, 3 * (5 + 6 + 7), 5 * (2 + 2 + 2), 2 * 7; two sequences.
    assert count_macs(terms, 2, 3, 4, attended=True) == 2 * (30 + 7 + 54 + 30 + 14)
    # As written the square of three new tokens with all seven, and with one from the cache of the window.
    assert count_macs(terms, 1, 3, 4, attended=False) == 30 + 7 + 3 * 21 + 5 * 3 * 4 + 14
    # Chunks of three tokens: the queries at 4, 5 and 6 see 2, 3 and 1 keys; as written the square of a window of three.
    chunks = [Term(Law.PAIR, 5, 3, is_chunked=True)]
    assert (count_macs(chunks, 1, 3, 4, True), count_macs(chunks, 1, 3, 4, False)) == (5 * 6, 5 * 3 * 5)
    chosen = [Term(Law.PAIR, 3, most_attended=6)]  # 5, 6 and 6 of 5, 6 and 7 keys
    assert (count_macs(chosen, 1, 3, 4, True), count_macs(chosen, 1, 3, 4, False)) == (3 * 17, 3 * 21)
    # Entries of two tokens: queries of 5, 6 and 7 tokens see 2, 3 and 3 of them; as written all three see 3.
    entries = [Term(Law.ENTRY, 11, stride=2)]
    assert (count_macs(entries, 1, 3, 4, True), count_macs(entries, 1, 3, 4, False)) == (11 * 8, 11 * 9)
    limited = [Term(Law.ENTRY, 11, stride=2, most_attended=2, is_causal=True)]
    assert (count_macs(limited, 1, 3, 4, True), count_macs(limited, 1, 3, 4, False)) == (11 * 6, 11 * 8)
    split = [Term(Law.SPLIT, 6, None, Fraction(5, 2))]
    assert (count_macs(split, 2, 1, 9, True), count_macs(split, 2, 4, 0, True)) == (12, 20)
