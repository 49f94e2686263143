"""The bytes of a cache at a context and a batch size, from the object that the model returns."""

from __future__ import annotations

from dataclasses import dataclass

from .records import CacheContents, CacheLayer

__all__ = ["CacheBytes", "count_cache_bytes"]


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
        bytes_per_token: What the next token of one sequence adds; 0 where windows are full and states constant.
    """

    context: int
    batch: int
    logical: int
    allocated: int
    paged: int
    block_size: int
    contents: CacheContents
    bytes_per_token: int


def count_cache_bytes(
    before: CacheContents, after: CacheContents, layers: tuple[CacheLayer, ...], block_size: int
) -> CacheBytes:
    """Return the bytes of a cache by its contents and those one token later; ``layers`` tell which parts grow."""
    tokens, batch = before.context, before.batch
    paged = sum(layer.count_paged_bytes(tokens, block_size) for layer in layers) * batch
    slope = (after.logical_bytes - before.logical_bytes) // batch
    return CacheBytes(tokens, batch, before.logical_bytes, before.allocated_bytes, paged, block_size, before, slope)
