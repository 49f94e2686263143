"""The bytes of a cache at a context and a batch size, from the object that the model returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .records import CacheContents, CacheLayer

__all__ = ["CacheAfter", "CacheBytes", "cache_bytes", "compute_slope"]


@dataclass(frozen=True, slots=True)
class CacheBytes:
    """The bytes of a cache after so many tokens of so many sequences.

    Attributes:
        context: Tokens of each sequence.
        batch: Sequences.
        logical: Bytes of the elements.
        allocated: Bytes of the storages that they keep alive: a view of a window can keep the whole prompt.
        paged: Bytes in blocks, each of which is allocated whole; states of constant size are not in blocks.
        block_size: Tokens of a block.
        contents: Every tensor.
    """

    context: int
    batch: int
    logical: int
    allocated: int
    paged: int
    block_size: int
    contents: CacheContents


class CacheAfter(NamedTuple):
    """A cache after some tokens: its bytes, and what the next token of one sequence adds to them."""

    size: CacheBytes
    bytes_per_token: int


def cache_bytes(contents: CacheContents, layers: tuple[CacheLayer, ...], block_size: int) -> CacheBytes:
    """Return the bytes of a cache; ``layers`` tell which of its parts grow with the context."""
    tokens, batch = contents.context, contents.batch
    paged = sum(layer.count_paged_bytes(tokens, block_size) for layer in layers) * batch
    return CacheBytes(tokens, batch, contents.logical_bytes, contents.allocated_bytes, paged, block_size, contents)


def compute_slope(before: CacheContents, after: CacheContents) -> int:
    """Return the bytes that one more token of one sequence adds; 0 where windows are full and states constant."""
    return (after.logical_bytes - before.logical_bytes) // before.batch
