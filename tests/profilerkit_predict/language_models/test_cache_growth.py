"""How the parts of a cache grow, by caches that are written down."""

from __future__ import annotations

import pytest

from profilerkit_predict.language_models.facts.cache_growth import find_growth, needs_later_lengths
from profilerkit_predict.language_models.facts.model_cache import CacheContents, CacheTensor

#: The bytes of an entry.
ENTRY = 64


def make_contents(context: int, entries: int) -> CacheContents:
    """Return a cache with one tensor of so many entries, after so many tokens of one sequence."""
    size = entries * ENTRY
    tensor = CacheTensor("layers.0.keys", (1, 1, entries, 16), "float32", size, size)
    return CacheContents(context, 1, (tensor,))


def test_an_entry_for_each_token_needs_two_lengths() -> None:
    for beside in (0, 1, 4):  # entries that are there before the first token
        before, after = make_contents(10, 10 + beside), make_contents(11, 11 + beside)
        assert not needs_later_lengths(before, after)
        (part,) = find_growth(before, after)
        assert (part.stride, part.bytes_per_entry, part.constant_bytes) == (1, ENTRY, beside * ENTRY)


@pytest.mark.parametrize("stride", [2, 3, 4, 8])
def test_an_entry_of_several_tokens_is_none_for_each_token(stride: int) -> None:
    """At each length where one token more completes an entry."""
    for full in (2, 3, 5):
        context = full * stride - 1
        before, after = make_contents(context, full - 1), make_contents(context + 1, full)
        assert needs_later_lengths(before, after)
        far = 32 * context - 1
        for later in ((), [make_contents(far, far // stride)]):
            (part,) = find_growth(before, after, later)
            assert (part.stride, part.bytes_per_entry, part.constant_bytes) == (stride, ENTRY, 0)
            assert part.count_paged_bytes(100 * stride, block_size=1) == 100 * ENTRY


@pytest.mark.parametrize("context", [3, 4, 20, 64, 126, 130, 1000])
@pytest.mark.parametrize("stride", [4, 128])
def test_tokens_that_wait_are_no_window(stride: int, context: int) -> None:
    """Up to the stride each token waits, as in a window; of 128, 1,000 tokens leave 104, 1,531 leave 123, 4,095 127."""

    def wait(length: int) -> CacheContents:
        tokens = CacheTensor("layers.0.keys", (1, 1, length, 16), "float32", length * ENTRY, length * ENTRY)
        waiting = [
            CacheTensor("layers.0.waiting", (1, 1, count, 16), "float32", count * ENTRY, count * ENTRY, window=128)
            for count in [length % stride]
            if count
        ]
        return CacheContents(length, 1, (tokens, *waiting))

    parts = find_growth(wait(context), wait(context + 1), [wait(length) for length in (1000, 1531, 4095)])
    for length in (1, 50, 127, 128, 200, 5000):
        held = sum(part.count_paged_bytes(length, block_size=1) for part in parts)
        assert held == (length + length % stride) * ENTRY, length
