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
    """Bytes of a cache that a step reads, and those that it writes; ``shared`` are those read of a prefix of all."""

    read: float
    written: float
    shared: float = 0.0


def count_cache_traffic(cache: EngineCache, pieces: Iterable[Piece], tensor: int = 1) -> CacheTraffic:
    """Return the bytes that a step reads and writes, of one of so many devices that share the heads.

    A prefix that sequences share is read once.
    """
    read = written = most_shared = 0.0
    for piece in pieces:
        of_one = _count_sequence_traffic(cache, piece, tensor)
        read += piece.sequences * (of_one.read - of_one.shared)
        written += piece.sequences * of_one.written
        most_shared = max(most_shared, of_one.shared)
    return CacheTraffic(read + most_shared, written, most_shared)


def _count_sequence_traffic(cache: EngineCache, piece: Piece, tensor: int) -> CacheTraffic:
    """Return the bytes of one sequence of a piece. An encoder's prompt adds one token to the part that grows."""
    is_first, has_encoder = not piece.cached, cache.facts.is_encoder_decoder
    before = 0 if is_first else cache.count_tokens(piece.cached)
    new = 1 if has_encoder else piece.new_tokens
    read = written = shared = 0.0
    for part in cache.parts:
        devices = part.count_sharing(tensor)
        entries = part.entries_read(before)
        constant = _count_constant_traffic(part, is_first, has_encoder)
        read += (part.bytes_per_entry * entries + constant.read) / devices
        written += (part.bytes_per_entry * _count_added_entries(part, before, new) + constant.written) / devices
        shared += part.bytes_per_entry * min(cache.count_shared_entries(part), entries) / devices
    return CacheTraffic(read, written, shared)


def _count_constant_traffic(part: CacheLayer, is_first: bool, has_encoder: bool) -> CacheTraffic:
    """Return what a step reads and writes of what has a constant size, which the first step of a sequence makes.

    It is a state, of which each later step makes another one; of a model with an encoder, what the cross attention
    reads of the prompt.
    """
    if is_first:
        return CacheTraffic(0, part.constant_bytes)
    return CacheTraffic(part.constant_bytes, 0 if has_encoder else part.constant_bytes)


def _count_added_entries(part: CacheLayer, before: int, new: int) -> int:
    """Return how many entries a step writes that adds so many tokens to those before.

    A window of the last tokens is full and written over. Entries of several tokens are written as they fill.
    """
    has_entry_of_each_token = part.stride == 1 or part.waits
    return part.entries(new) if has_entry_of_each_token else part.entries(before + new) - part.entries(before)
