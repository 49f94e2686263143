"""The cost of one step of a language model, as a function that simulators can call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from profilerkit.arguments.checks import at_least
from profilerkit.devices import DeviceInfo
from profilerkit.errors import ArgumentError, InputError
from profilerkit.process.cached import cached_property

from ..checkpoints.formats import WeightFormat
from .estimating import Estimate, Estimator
from .formulas import count_expected_experts, count_macs, count_stored_bytes, dtype_bytes
from .lengths import require_context
from .records import CacheLayer, ModelFacts
from .rewrites import engine_macs

__all__ = ["Step", "StepCost"]


@dataclass(frozen=True, slots=True)
class Step:
    """What one step takes: a prefill, a chunk of it, or one token for each sequence.

    Attributes:
        execution: The execution model that the numbers are of.
        macs: Multiply-accumulates.
        weight_bytes: Bytes of weights that are read, experts as expected for uniform routing.
        cache_read_bytes: Bytes of the cache that are read.
        cache_write_bytes: Bytes of the cache that are written.
        compute_seconds: The products at the peak of the dtype; None if the device's peak is not known.
        memory_seconds: The bytes at the bandwidth of the memory; None if that is not known.
    """

    execution: str
    macs: int
    weight_bytes: int
    cache_read_bytes: int
    cache_write_bytes: int
    compute_seconds: float | None
    memory_seconds: float | None

    @property
    def bytes(self) -> int:
        """The bytes that must be moved: weights and cache."""
        return self.weight_bytes + self.cache_read_bytes + self.cache_write_bytes

    @property
    def seconds(self) -> float | None:
        """The least seconds that the step can take: the greater of products and bytes; None if one is not known."""
        if self.compute_seconds is None or self.memory_seconds is None:
            return None
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def bound_by(self) -> str:
        """What binds it: "compute" or "memory"; empty if the seconds are not known."""
        if self.compute_seconds is None or self.memory_seconds is None:
            return ""
        return "compute" if self.compute_seconds >= self.memory_seconds else "memory"


@dataclass(frozen=True)
class StepCost:
    """The cost of a step by batch, new tokens and tokens in the cache: ``cost(batch=8, new_tokens=1, cached=2048)``.

    Seconds are lower bounds from the device's data: no launch, no host, no communication, no queue. A simulator of
    serving adds its own, or takes ``cost.estimate(batch, new_tokens, cached)``, which a calibrated device has.

    Attributes:
        facts: The model.
        device: The device; None for counts alone.
        weights: The format of the matrices; None for the one that they have.
        peak_dtype: The dtype whose peak the products run at.
        devices: Over how many devices work and bytes are divided, perfectly.
        block_size: Tokens in a block of the paged cache.
        cache_format: The format of the keys and values in the cache; None for the dtype of the activations. States of
            constant size keep that dtype.
    """

    facts: ModelFacts
    device: DeviceInfo | None = None
    weights: WeightFormat | None = None
    peak_dtype: str = ""
    devices: int = 1
    block_size: int = 16
    cache_format: WeightFormat | None = None

    def __call__(self, batch: int, new_tokens: int = 1, cached: int = 0, logits: int = 1) -> Step:
        """Return what a serving engine needs for a step of ``batch`` sequences.

        Args:
            batch: Sequences.
            new_tokens: New tokens of each: the prompt in prefill, 1 in decode.
            cached: Tokens of each that are in the cache already.
            logits: Of how many tokens of each the head makes logits: of all of them where drafted ones are checked.

        Raises `InputError` if the model does not take so many tokens.
        """
        batch, new_tokens = at_least(1)("batch", batch), at_least(1)("new_tokens", new_tokens)
        if not isinstance(cached, int) or isinstance(cached, bool) or cached < 0:
            raise ArgumentError(f"cached={cached!r}: give a whole number from 0")
        require_context(self.facts.longest_context, new_tokens + cached, self.facts.name)
        self._require_traced_source(new_tokens)
        macs = engine_macs(self.facts, batch, new_tokens, cached, logits)
        read, written = self._cache_traffic(batch, new_tokens, cached)
        weight_bytes = self.weight_bytes_read(batch * new_tokens)
        total = weight_bytes + read + written
        peak = self.device.peak(self.peak_dtype or self.facts.dtype) if self.device else None
        bandwidth = self._bandwidth(total)
        return Step(
            "engine",
            macs,
            weight_bytes,
            read,
            written,
            2 * macs / peak / self.devices if peak else None,
            total / bandwidth / self.devices if bandwidth else None,
        )

    def estimate(self, batch: int, new_tokens: int = 1, cached: int = 0) -> Estimate | None:
        """Return the seconds of a step between two ends: an estimate by a calibration, a bound by a data sheet.

        The arguments are those of the call. None if the bound is not known.
        """
        step = self(batch, new_tokens, cached)
        if step.seconds is None:
            return None
        if self.estimator is None:
            return Estimate(None, step.seconds, None, "data sheet")
        return self.estimator.estimate(step, batch, new_tokens, cached)

    @cached_property
    def estimator(self) -> Estimator | None:
        """What estimates steps by the device's calibration; None without one."""
        from ..prediction.calibration import Calibration

        calibration = Calibration.of(self.device) if self.device is not None else None
        return None if calibration is None else Estimator(self, calibration)

    def _bandwidth(self, moved: int) -> float | None:
        """Return the bandwidth that bounds so many bytes: of a calibrated device what it reached with as many."""
        if self.estimator is not None:
            best = self.estimator.calibration.best_bandwidth(moved)
            if best is not None:
                return best
        return self.device.bandwidth if self.device else None

    def as_written(self, batch: int, new_tokens: int = 1, cached: int = 0) -> int:
        """Return the multiply-accumulates that the model's own code runs for a step; no time is predicted from them."""
        return count_macs(self.facts.terms, batch, new_tokens, cached, attended=False)

    def weight_bytes_read(self, tokens: int) -> int:
        """Return the bytes of weights that a step over so many tokens reads.

        Matrices, heads, norms and buffers are read once; of tables a row for each token; of experts as many as are
        expected to be chosen (see `count_expected_experts`).
        """
        total = 0.0
        for part in self.facts.weights:
            stored = count_stored_bytes(part, self.weights)
            if part.kind == "embedding":
                rows = part.elements // part.row_elements
                total += stored * min(tokens * part.layers, rows) / rows
            elif part.kind == "experts":
                total += stored * count_expected_experts(part.experts, part.experts_per_token, tokens) / part.experts
            else:
                total += stored
        return round(total)

    @cached_property
    def stored_weight_bytes(self) -> int:
        """The bytes of all weights in their format."""
        return sum(count_stored_bytes(part, self.weights) for part in self.facts.weights)

    @cached_property
    def cache_layers(self) -> tuple[CacheLayer, ...]:
        """How the engine's cache grows: that of the model, or latents where the model has latent attention.

        Heads that the library repeats before it caches them are in it once. Parts that grow alike are one.
        """
        return tuple(self._store(layer) for layer in self._list_layers())

    def _store(self, layer: CacheLayer) -> CacheLayer:
        """Return a part of the cache in the format of the cache."""
        if self.cache_format is None:
            return layer
        elements = layer.bytes_per_entry // dtype_bytes(self.facts.dtype)
        return replace(layer, bytes_per_entry=self.cache_format.count_bytes(elements))

    def _list_layers(self) -> tuple[CacheLayer, ...]:
        """Return the parts of the cache in the dtype of the activations."""
        latent = self.facts.latent
        if latent is not None:
            token_bytes = latent.layers * (latent.rank + latent.rope) * dtype_bytes(self.facts.dtype)
            latents = CacheLayer("latents", token_bytes, most_read=latent.most_attended, heads=1)
            keys = CacheLayer("keys of the indexer", latent.index_bytes, heads=1)
            return (latents, keys) if latent.index_bytes else (latents,)
        alike: dict[CacheLayer, list[CacheLayer]] = {}
        for layer in self.facts.cache_layers:
            alike.setdefault(replace(layer, path="", bytes_per_entry=0, constant_bytes=0), []).append(layer)
        return tuple(self._join_parts(layers) for layers in alike.values())

    def _join_parts(self, layers: Sequence[CacheLayer]) -> CacheLayer:
        """Return parts of a cache that grow alike as one."""
        repeats, first = self.facts.cache_repeats, layers[0]
        return replace(
            first,
            path=f"{len(layers)} parts",
            bytes_per_entry=sum(layer.bytes_per_entry for layer in layers) // repeats,
            constant_bytes=sum(layer.constant_bytes for layer in layers),
            heads=first.heads and max(1, first.heads // repeats),
        )

    def cache_bytes(self, context: int, batch: int = 1) -> int:
        """Return the bytes of the engine's paged cache after so many tokens of so many sequences.

        Of an encoder-decoder the tokens are those of the prompt and those that were decoded.
        """
        tokens = self._in_cache(context)
        return batch * sum(layer.count_paged_bytes(tokens, self.block_size) for layer in self.cache_layers)

    def device_cache_bytes(self, context: int, batch: int, devices: int) -> int:
        """Return the bytes of the cache that one of so many devices has, which share its heads: tensor parallelism.

        A device has at least one head, and latents whole.
        """
        tokens = self._in_cache(context)
        return sum(
            math.ceil(batch * layer.count_paged_bytes(tokens, self.block_size) / min(devices, layer.heads or devices))
            for layer in self.cache_layers
        )

    def _in_cache(self, context: int) -> int:
        """Return how many tokens the growing part of the cache has: those of the prompt are in an encoder's states."""
        return max(context - self.facts.traced_prompt + 1, 0) if self.facts.is_encoder_decoder else context

    def _cache_traffic(self, batch: int, new_tokens: int, cached: int) -> tuple[int, int]:
        """Return the bytes of the cache that a step reads, and those that it writes.

        What is constant is a state, which each step reads and writes, or the cross attention's part, written once.
        """
        before, is_decode = self._in_cache(cached) if cached else 0, cached > 0
        new = 1 if self.facts.is_encoder_decoder else new_tokens
        keeps_constant = self.facts.is_encoder_decoder and is_decode
        read = written = 0
        for layer in self.cache_layers:
            is_even = layer.stride == 1 or layer.waits
            added = layer.entries(new) if is_even else layer.entries(before + new) - layer.entries(before)
            read += layer.bytes_per_entry * layer.entries_read(before) + layer.constant_bytes * is_decode
            written += layer.bytes_per_entry * added + layer.constant_bytes * (not keeps_constant)
        return batch * read, batch * written

    def _require_traced_source(self, new_tokens: int) -> None:
        facts = self.facts
        if facts.is_encoder_decoder and new_tokens not in (1, facts.traced_prompt):
            raise InputError(
                f"{facts.name} is an encoder-decoder, and was traced with a prompt of {facts.traced_prompt:,} tokens: "
                f"the cost of {new_tokens:,} does not follow from it; call llm with prompt={new_tokens}"
            )
