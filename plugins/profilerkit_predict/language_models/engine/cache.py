"""The cache of a serving engine: its bytes in blocks, and the bytes that a step reads and writes.

The cache has parts, and each part grows by entries: an entry is for one token, or for several if a model compresses
them (`CacheLayer`). The parts follow from the model's own cache; this file stores them as an engine does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from profilerkit.process.cached import cached_property

from ...checkpoints.formats import WeightFormat
from ..facts.model_cache import CacheLayer, find_layer_numbers
from ..facts.records import ModelFacts
from ..facts.work import LatentAttention
from .engines import ANY_ENGINE, EngineRule, count_scaled_bytes
from .layout import ONE_DEVICE, Layout


class CacheTraffic(NamedTuple):
    """Bytes of a cache that a step reads, and bytes that it writes."""

    read: float
    written: float


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

        An engine may have scales beside both, of elements of 8 bits, and the part of a key with the position in 16.
        """
        element_bytes = self.facts.element_bytes
        entry = self._store(latent.layers * (latent.rank + latent.rope) * element_bytes)
        index_entry = self._store(latent.index_bytes)
        group = self.engine.scaled_latents
        if group is not None and latent.most_attended is not None:
            index_entry = count_scaled_bytes(latent.index_bytes // element_bytes, group)
            if self.cache_format is not None and self.cache_format.name == "fp8":
                entry = latent.layers * (count_scaled_bytes(latent.rank, group) + 2 * latent.rope)
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
        return self.cache_format.count_bytes(plain_bytes // self.facts.element_bytes)

    # What is stored ---------------------------------------------------------------------------------------------------

    def count_bytes(self, context: int, batch: int, layout: Layout = ONE_DEVICE) -> int:
        """Return its bytes in blocks after so many tokens of so many sequences, on the fullest device of a layout."""
        return math.ceil(max(self.list_stage_bytes(context, batch, layout)))

    def list_stage_bytes(self, context: int, batch: int, layout: Layout) -> list[float]:
        """Return its bytes on a device in each stage of a pipeline; see `count_bytes` for the arguments.

        Tensor parallelism shares the heads: a device has at least one, and latents whole. The stages of a pipeline have
        the layers in their order.
        """
        tokens, sequences = self._count_tokens(context), math.ceil(batch / layout.data)
        stages = [0.0] * layout.pipeline
        for part in self.parts:
            of_sequence = self._count_paged_entries(part, tokens)
            # Whole blocks of a common prefix are of all sequences.
            shared = min(self._count_shared_entries(part) // self.block_size * self.block_size, of_sequence)
            entries = sequences * of_sequence - (sequences - 1) * shared
            part_bytes = sequences * part.constant_bytes + entries * part.bytes_per_entry
            of_device = part.share_out(part_bytes, layout.tensor)
            for stage, share in enumerate(layout.compute_stage_shares(self.facts.sizes.layers, part.numbers)):
                stages[stage] += of_device * share
        return stages

    def _count_paged_entries(self, part: CacheLayer, tokens: int) -> int:
        """Return how many entries the blocks of one sequence have room for, by the engine's rules for windows."""
        without_window = replace(part, window=None)
        if self.engine.window_shares is not None and not part.waits and self._list_windows():
            return self._count_entries_of_pool(without_window, tokens, part.window is not None)
        entries = part.count_paged_entries(tokens, self.block_size)
        if part.window is None or part.is_chunked:  # chunks begin with a block
            return entries
        spare = self.engine.window_spare_blocks * self.block_size  # a window may begin inside of a block
        return min(entries + spare, without_window.count_paged_entries(tokens, self.block_size))

    def _count_entries_of_pool(self, part: CacheLayer, tokens: int, has_window: bool) -> int:
        """Return the entries of one sequence in pools whose ratio is fixed: one is full before the other.

        A sequence takes as much of both pools as of the pool with less room for it.
        """
        entries, shares = part.entries(tokens), self.engine.window_shares or {}
        share = shares.get(self.facts.architecture)
        if share is not None:
            needed = max(other.entries(tokens) for other in self._list_windows())
            entries = max(entries, math.ceil(needed / share))
            entries = math.ceil(share * entries) if has_window else entries
        return math.ceil(entries / self.block_size) * self.block_size

    def _list_windows(self) -> list[CacheLayer]:
        return [part for part in self.parts if part.window is not None]

    def _count_shared_entries(self, part: CacheLayer) -> int:
        """Return how many entries of a part belong to the prefix: none if the part keeps only the last tokens."""
        return 0 if part.window is not None or part.waits else part.entries(self.shared_prefix)

    def _count_tokens(self, context: int) -> int:
        """Return how many tokens the growing part has: without an encoder's prompt, which is in the states."""
        source = self.facts.encoder_prompt
        return context if source is None else max(context - source + 1, 0)

    # What a step moves ------------------------------------------------------------------------------------------------

    def count_traffic(
        self, sequences: int, new_tokens: int, cached: int, tensor: int = 1, replicas: int = 1
    ) -> CacheTraffic:
        """Return the bytes that a step reads and writes on one of ``tensor`` devices, which share the heads.

        Each of the ``replicas`` that share the sequences reads a shared prefix once. The first step of a sequence
        writes the parts of constant size. Each later step reads them, and writes the states among them: keys and values
        of cross attention, or of no token, are no states.
        """
        readers = min(replicas, sequences)
        read = written = 0.0
        for part in self.parts:
            states = part.constant_bytes * sequences
            part_read = part.bytes_per_entry * self._count_read_entries(part, sequences, cached, readers)
            part_written = part.bytes_per_entry * sequences * self._count_added_entries(part, new_tokens, cached)
            read += part.share_out(part_read + (states if cached else 0), tensor)
            is_written = part.heads is None or not cached
            written += part.share_out(part_written + (states if is_written else 0), tensor)
        return CacheTraffic(read, written)

    def _count_read_entries(self, part: CacheLayer, sequences: int, cached: int, readers: int) -> int:
        """Return how many entries a step reads, of which each of the ``readers`` reads the prefix once."""
        prefix, entries = self._count_shared_entries(part), part.entries_read(self._count_tokens(cached))
        return sequences * max(entries - prefix, 0) + readers * min(prefix, entries)

    def _count_added_entries(self, part: CacheLayer, new_tokens: int, cached: int) -> int:
        """Return how many entries of a sequence a step writes.

        If each token has an entry, it writes as many entries as tokens, also in a full window. An entry of several
        tokens is written when it is complete. Tokens beyond a multiple of ``stride`` wait for an entry. The prompt of
        an encoder-decoder is the encoder's, and begins the decoder with one token; each further step adds one as well.
        """
        new = 1 if self.facts.is_encoder_decoder else new_tokens
        if part.stride == 1 or part.waits:
            return part.entries(new)
        before = self._count_tokens(cached)
        return part.entries(before + new) - part.entries(before)
