"""What a step reads and writes of the cache of a serving engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .engine_cache import EngineCache
from .records import CacheLayer

if TYPE_CHECKING:
    from .steps import Piece

__all__ = ["CacheTraffic", "count_cache_traffic"]


class CacheTraffic(NamedTuple):
    """Bytes of a cache that a step reads, and those that it writes."""

    read: float
    written: float


class _SequenceTraffic(NamedTuple):
    """Bytes that a step reads and writes for one sequence; ``shared`` are those that it reads of a common prefix."""

    read: float
    written: float
    shared: float


def count_cache_traffic(cache: EngineCache, pieces: Iterable[Piece], tensor_parallel: int = 1) -> CacheTraffic:
    """Return the bytes that a step reads and writes on one of ``tensor_parallel`` devices, which share the heads.

    A prefix that sequences share is read once.
    """
    read = written = most_shared = 0.0
    for piece in pieces:
        sequence = _count_sequence_traffic(cache, piece, tensor_parallel)
        read += piece.sequences * (sequence.read - sequence.shared)
        written += piece.sequences * sequence.written
        most_shared = max(most_shared, sequence.shared)
    return CacheTraffic(read + most_shared, written)


def _count_sequence_traffic(cache: EngineCache, piece: Piece, tensor_parallel: int) -> _SequenceTraffic:
    is_first, has_encoder = not piece.cached, cache.facts.is_encoder_decoder
    tokens_before = 0 if is_first else cache.count_tokens(piece.cached)
    # The prompt is the encoder's, and begins the decoder with one token; each further step adds one as well.
    new_tokens = 1 if has_encoder else piece.new_tokens
    read = written = shared = 0.0
    for part in cache.parts:
        devices = part.count_sharing(tensor_parallel)
        entries = part.entries_read(tokens_before)
        constant = _count_constant_traffic(part, is_first, has_encoder)
        added = _count_added_entries(part, tokens_before, new_tokens)
        read += (part.bytes_per_entry * entries + constant.read) / devices
        written += (part.bytes_per_entry * added + constant.written) / devices
        shared += part.bytes_per_entry * min(cache.count_shared_entries(part), entries) / devices
    return _SequenceTraffic(read, written, shared)


def _count_constant_traffic(part: CacheLayer, is_first: bool, has_encoder: bool) -> CacheTraffic:
    """Return what a step reads and writes of what has a constant size, which the first step of a sequence writes.

    With an encoder these are the keys and values of cross attention, which each later step reads. Otherwise it is a
    state, which each later step reads and writes.
    """
    if is_first:
        return CacheTraffic(0, part.constant_bytes)
    return CacheTraffic(part.constant_bytes, 0 if has_encoder else part.constant_bytes)


def _count_added_entries(part: CacheLayer, before: int, new: int) -> int:
    """Return how many entries a step writes that adds ``new`` tokens to those before.

    Where each token has an entry, it writes as many entries as tokens, also in a window that is full. An entry of
    several tokens is written once it is full. Of tokens that wait to be ``stride``, those beyond a multiple of it wait.
    """
    if part.stride == 1 or part.waits:
        return part.entries(new)
    return part.entries(before + new) - part.entries(before)
