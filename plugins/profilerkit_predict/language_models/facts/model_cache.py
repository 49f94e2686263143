"""The cache that a model itself returns: its contents, the growth of its parts, and its bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheTensor:
    """A tensor in a cache that a model returned."""

    #: Where it is in the cache: "layers.3.keys".
    path: str
    shape: tuple[int, ...]
    #: The name of its dtype: "bfloat16".
    dtype: str
    #: The bytes of its elements.
    bytes: int
    #: The bytes of the storage that it keeps alive, which may be larger; 0 if another tensor of the cache counts that
    #: storage already.
    allocated_bytes: int
    #: How many tokens its layer attends to; None if that is not limited, or not known.
    window: int | None = None


@dataclass(frozen=True)
class CacheContents:
    """The tensors of a cache after so many tokens of so many sequences."""

    #: The tokens of each sequence that the model has seen; in an encoder-decoder the tokens of its decoder.
    context: int
    batch: int
    #: The tensors; single numbers (counters, lengths) are left out.
    tensors: tuple[CacheTensor, ...]
    #: The tokens that the encoder of an encoder-decoder has seen; None for others.
    source: int | None = None

    @property
    def logical_bytes(self) -> int:
        """Bytes of the elements of all tensors."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the storages that the tensors keep alive: a view can keep a whole prompt."""
        return sum(tensor.allocated_bytes for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """How one part of a cache grows; all bytes are for one sequence."""

    #: Where it is in the cache: "layers.3".
    path: str
    #: The bytes of one entry: of a token, or of ``stride`` tokens; 0 for a state of constant size.
    bytes_per_entry: int
    #: The bytes that do not depend on the context, such as a state-space state.
    constant_bytes: int = 0
    #: How many tokens the layer attends to at most; None for all.
    window: int | None = None
    #: How many tokens one entry is for: more than 1 if a model compresses them.
    stride: int = 1
    #: Whether the entries are only the tokens that wait until ``stride`` tokens are there.
    waits: bool = False
    #: How many of its entries a step reads at most, because an indexer chooses them; None for all.
    most_read: int | None = None
    #: The heads of keys and values, which devices can share; 1 for latents, which each device has whole. None for a
    #: part that any number of devices can share.
    heads: int | None = None
    #: Whether the windows are chunks, as in Llama 4: a token attends only to tokens of its own chunk.
    is_chunked: bool = False
    #: Of layers that are joined as one part, their numbers in the model; empty if they are not known.
    numbers: tuple[int, ...] = ()

    @property
    def bytes_per_token(self) -> float:
        """The bytes that a token adds, on average; 0 for a part that does not grow."""
        return 0 if self.waits else self.bytes_per_entry / self.stride

    def share_out(self, amount: float, devices: int) -> float:
        """Return how much of an amount of it the fullest of so many devices has: of heads whole ones.

        >>> CacheLayer("layers.0", 1, heads=8).share_out(800, devices=3)  # three heads of eight
        300.0
        """
        return amount / devices if self.heads is None else amount * math.ceil(self.heads / devices) / self.heads

    def entries(self, context: int) -> int:
        """Return how many entries it has after so many tokens.

        A window has all of its tokens but one, because the next token is the last. Chunks have as many, because the
        next token after a whole chunk needs none of it.
        """
        if self.waits:
            return context % self.stride
        return (context if self.window is None else min(context, self.window - 1)) // self.stride

    def entries_read(self, context: int) -> int:
        """Return how many entries a step after so many tokens reads."""
        if self.is_chunked and self.window is not None:
            return context % self.window  # the entries of the next token's chunk
        entries = self.entries(context)
        return entries if self.most_read is None else min(entries, self.most_read)

    def count_paged_entries(self, context: int, block_size: int) -> int:
        """Return for how many entries its blocks have room, each of which is allocated whole."""
        entries = self.entries(context)
        return entries if self.waits else math.ceil(entries / block_size) * block_size

    def count_paged_bytes(self, context: int, block_size: int) -> int:
        """Return its bytes in blocks of so many entries."""
        return self.constant_bytes + self.bytes_per_entry * self.count_paged_entries(context, block_size)


@dataclass(frozen=True, slots=True)
class CacheGrowth:
    """The cache of a model for the tokens that it has seen."""

    #: How each part of the cache grows.
    parts: tuple[CacheLayer, ...]
    #: The contents of the model's cache after the prompt, and after the step; empty if no code was followed.
    contents: Sequence[CacheContents] = ()
    #: How often that cache holds each head of keys and values, because the library repeats them first.
    repeats: int = 1


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
        bytes_per_token: The bytes that the next token of one sequence adds; 0 if all windows are full, or all states
            constant.
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


def find_layer(path: str) -> str:
    """Return the layer that a part of a cache belongs to: "layers.3" of "layers.3.keys"."""
    return ".".join(path.split(".")[:2])


def find_layer_numbers(paths: Iterable[str]) -> tuple[int, ...]:
    """Return the numbers of layers in the model; empty if they are not known.

    >>> find_layer_numbers(["layers.3.keys", "layers.5.keys"]), find_layer_numbers(["state"])
    ((3, 5), ())
    """
    parts = [[part for part in path.split(".") if part.isdigit()] for path in paths]
    numbers = tuple(int(of_path[0]) for of_path in parts if of_path)
    return numbers if len(numbers) == len(parts) else ()


def is_index(path: str) -> bool:
    """Return whether a layer, or a part of a cache, belongs to an indexer, which chooses the entries for attention."""
    return "index" in path or "idx" in path
