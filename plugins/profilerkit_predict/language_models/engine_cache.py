"""The cache of a serving engine: its bytes in blocks, and the bytes that a step reads and writes.

`StepCost` uses both. The cache has parts, and each part grows by entries: an entry is for one token, or for several if
a model compresses them (`CacheLayer`). The parts follow from the model's own cache; this file stores them as an engine
does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from profilerkit.process.cached import cached_property

from ..checkpoints.formats import WeightFormat
from .engines import ANY_ENGINE, EngineRule, WindowPool
from .formulas import dtype_bytes
from .layout import ONE_DEVICE, Layout
from .model_cache import CacheLayer, find_layer_numbers
from .records import ModelFacts
from .steps import Piece, count_sequences
from .work import LatentAttention


@dataclass(frozen=True)
class EngineCache:
    """The cache of a model in an engine."""

    facts: ModelFacts
    #: The engine's rules for windows, and for the storage of latents.
    engine: EngineRule = ANY_ENGINE
    #: Tokens in a block.
    block_size: int = 16
    #: The format of keys and values; None for the dtype of the activations, which states of constant size keep.
    cache_format: WeightFormat | None = None
    #: Tokens at the start of all prompts that are the same.
    shared_prefix: int = 0

    @cached_property
    def parts(self) -> tuple[CacheLayer, ...]:
        """How it grows: as the cache of the model does, or as latents if the model has latent attention.

        Layers that grow alike are one part. Heads that the library repeats before it caches them are in it once.
        """
        latent = self.facts.work.latent
        if latent is not None:
            return tuple(self._list_latents(latent))
        alike: dict[CacheLayer, list[CacheLayer]] = {}
        for layer in self.facts.cache.parts:
            alike.setdefault(replace(layer, path=""), []).append(layer)
        return tuple(map(self._join_layers, alike.values()))

    @property
    def bytes_per_token(self) -> float:
        """The bytes that a token of one sequence adds to it, on average."""
        return sum(part.bytes_per_token for part in self.parts)

    def _list_latents(self, latent: LatentAttention) -> Iterator[CacheLayer]:
        """Yield the latents, and the keys of an indexer if there is one.

        An engine may have a layout of its own for latents that an indexer chooses from.
        """
        element_bytes = dtype_bytes(self.facts.dtype)
        entry = self._store(latent.layers * (latent.rank + latent.rope) * element_bytes)
        index_entry = self._store(latent.index_bytes)
        layout = self.engine.sparse_latents if latent.most_attended is not None else None
        if layout is not None:
            index_entry = layout.count_index_bytes(latent.index_bytes // element_bytes)
            if self.cache_format is not None and self.cache_format.name == "fp8":
                entry = latent.layers * layout.count_bytes(latent.rank, latent.rope)
        yield CacheLayer("latents", entry, most_read=latent.most_attended, heads=1)
        if index_entry:
            yield CacheLayer("keys of the indexer", index_entry, heads=1)

    def _join_layers(self, layers: Sequence[CacheLayer]) -> CacheLayer:
        """Return layers that are alike as one part, in the format of the cache."""
        one, count, repeats = layers[0], len(layers), self.facts.cache.repeats
        constant_bytes = count * one.constant_bytes
        if one.heads is not None:  # keys and values, and no state
            constant_bytes = self._store(constant_bytes)
        return replace(
            one,
            path=f"{count} parts",
            bytes_per_entry=self._store(count * one.bytes_per_entry // repeats),
            constant_bytes=constant_bytes,
            heads=None if one.heads is None else max(1, one.heads // repeats),
            numbers=find_layer_numbers(layer.path for layer in layers),
        )

    def _store(self, plain_bytes: int) -> int:
        """Return the bytes in the format of the cache of what has so many in the dtype of the activations."""
        if self.cache_format is None:
            return plain_bytes
        return self.cache_format.count_bytes(plain_bytes // dtype_bytes(self.facts.dtype))

    def count_bytes(self, context: int, batch: int, layout: Layout = ONE_DEVICE) -> int:
        """Return its bytes in blocks after so many tokens of so many sequences, on the fullest device of a layout."""
        return math.ceil(max(self.list_stage_bytes(context, batch, layout)))

    def list_stage_bytes(self, context: int, batch: int, layout: Layout) -> list[float]:
        """Return its bytes on a device in each stage of a pipeline; see `count_bytes` for the arguments.

        Tensor parallelism shares the heads: a device has at least one, and latents whole. The stages of a pipeline have
        the layers in their order.
        """
        tokens, sequences = self.count_tokens(context), math.ceil(batch / layout.data)
        stages = [0.0] * layout.pipeline
        for part in self.parts:
            # Whole blocks of a common prefix are of all sequences.
            shared = self.count_shared_entries(part) // self.block_size * self.block_size
            entries = sequences * self._count_entries_in_blocks(part, tokens) - (sequences - 1) * shared
            part_bytes = sequences * part.constant_bytes + entries * part.bytes_per_entry
            of_device = part.share_out(part_bytes, layout.tensor)
            for stage, share in enumerate(layout.compute_stage_shares(self.facts.sizes.layers, part.numbers)):
                stages[stage] += of_device * share
        return stages

    def _count_entries_in_blocks(self, part: CacheLayer, tokens: int) -> int:
        """Return how many entries the blocks of one sequence have room for, by the engine's rules for windows."""
        if part.waits:
            return part.entries(tokens)
        pool = self.engine.window_pool
        if pool is not None and any(other.window is not None for other in self.parts):
            entries = self._count_entries_of_pool(part, tokens, pool)
            return math.ceil(entries / self.block_size) * self.block_size
        blocks = math.ceil(part.entries(tokens) / self.block_size)
        if part.window is not None and not part.is_chunked:  # chunks begin with a block
            blocks = min(blocks + self.engine.window_spare_blocks, math.ceil(tokens / self.block_size))
        return blocks * self.block_size

    def _count_entries_of_pool(self, part: CacheLayer, tokens: int, pool: WindowPool) -> int:
        """Return the entries of one sequence in pools whose ratio is fixed: one is full before the other.

        A sequence takes as much of both pools as of the pool with less room for it.
        """
        entries = replace(part, window=None).entries(tokens)
        if self.facts.architecture not in pool.architectures:
            return entries
        needed = max(other.entries(tokens) for other in self.parts if other.window is not None)
        entries = max(entries, math.ceil(needed / pool.share))
        return entries if part.window is None else math.ceil(pool.share * entries)

    def count_shared_entries(self, part: CacheLayer) -> int:
        """Return how many entries of a part belong to the prefix: none if the part keeps only the last tokens."""
        return 0 if part.window is not None or part.waits else part.entries(self.shared_prefix)

    def count_tokens(self, context: int) -> int:
        """Return how many tokens the growing part has: without an encoder's prompt, which is in the states."""
        source = self.facts.encoder_prompt
        return context if source is None else max(context - source + 1, 0)


class CacheTraffic(NamedTuple):
    """Bytes of a cache that a step reads, and bytes that it writes."""

    read: float
    written: float


def count_cache_traffic(
    cache: EngineCache, pieces: Sequence[Piece], tensor_parallel: int = 1, replicas: int = 1
) -> CacheTraffic:
    """Return the bytes that a step reads and writes on one of ``tensor_parallel`` devices, which share the heads.

    Each of the ``replicas`` that share the sequences reads a shared prefix once. The first step of a sequence writes
    the parts of constant size. Each later step reads them, and writes the states among them: keys and values of cross
    attention, or of no token, are no states.
    """
    readers = min(replicas, count_sequences(pieces))
    read = written = 0.0
    for part in cache.parts:
        read += part.share_out(_count_read_bytes(cache, part, pieces, readers), tensor_parallel)
        written += part.share_out(_count_written_bytes(cache, part, pieces), tensor_parallel)
    return CacheTraffic(read, written)


def _count_read_bytes(cache: EngineCache, part: CacheLayer, pieces: Iterable[Piece], readers: int) -> int:
    """Return the bytes of a part that a step reads, of which each of the ``readers`` reads the prefix once."""
    prefix = cache.count_shared_entries(part)
    entries = [(piece.sequences, part.entries_read(cache.count_tokens(piece.cached))) for piece in pieces]
    own_entries = sum(sequences * max(count - prefix, 0) for sequences, count in entries)
    shared_entries = min(prefix, max(count for _, count in entries))
    states = count_sequences(piece for piece in pieces if piece.cached)
    return part.bytes_per_entry * (own_entries + readers * shared_entries) + part.constant_bytes * states


def _count_written_bytes(cache: EngineCache, part: CacheLayer, pieces: Iterable[Piece]) -> int:
    """Return the bytes of a part that a step writes.

    The prompt of an encoder-decoder is the encoder's, and begins the decoder with one token; each further step adds one
    as well.
    """
    entries = 0
    for piece in pieces:
        new_tokens = 1 if cache.facts.is_encoder_decoder else piece.new_tokens
        entries += piece.sequences * _count_added_entries(part, cache.count_tokens(piece.cached), new_tokens)
    states = count_sequences(piece for piece in pieces if part.heads is None or not piece.cached)
    return part.bytes_per_entry * entries + part.constant_bytes * states


def _count_added_entries(part: CacheLayer, before: int, new: int) -> int:
    """Return how many entries a step writes that adds ``new`` tokens to the tokens before.

    If each token has an entry, it writes as many entries as tokens, also in a full window. An entry of several tokens
    is written when it is complete. Tokens beyond a multiple of ``stride`` wait for an entry.
    """
    if part.stride == 1 or part.waits:
        return part.entries(new)
    return part.entries(before + new) - part.entries(before)
