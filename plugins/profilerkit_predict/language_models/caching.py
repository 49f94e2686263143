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
    contents: CacheContents, one_token_later: CacheContents, layers: tuple[CacheLayer, ...], block_size: int
) -> CacheBytes:
    """Return the bytes of a cache by its contents; ``layers`` tell which parts grow, and so are in blocks."""
    context, batch = contents.context, contents.batch
    return CacheBytes(
        context,
        batch,
        logical=contents.logical_bytes,
        allocated=contents.allocated_bytes,
        paged=sum(layer.count_paged_bytes(context, block_size) for layer in layers) * batch,
        block_size=block_size,
        contents=contents,
        bytes_per_token=(one_token_later.logical_bytes - contents.logical_bytes) // batch,
    )
