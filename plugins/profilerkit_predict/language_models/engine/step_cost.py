"""The cost of one step of a language model, as a function that simulators can call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from profilerkit.arguments.checks import at_least
from profilerkit.devices import DeviceInfo
from profilerkit.errors import ArgumentError, InputError
from profilerkit.process.cached import cached_property

from ...checkpoints.formats import WeightFormat, list_product_dtypes
from ...prediction.calibration import Calibration, Corrected
from ..facts.prompts import EncodedInputs, require_context
from ..facts.records import ModelFacts
from ..facts.work import count_engine_macs, count_macs
from .adapters import Adapters
from .cache import EngineCache
from .engines import ANY_ENGINE, EngineRule
from .estimating import Estimator
from .layout import ONE_DEVICE, Layout
from .step import Resource, Step, StepTerm
from .weights import EngineWeights

_COUNT, _CACHED = at_least(1), at_least(0)


class StageBytes(NamedTuple):
    """The bytes that a device of a stage keeps between steps."""

    weights: float
    cache: float
    adapters: float


class _Tokens(NamedTuple):
    """The tokens of a step; see `StepCost.__call__` for the fields."""

    sequences: int
    new: int
    cached: int
    logits: int
    encodes: bool

    @property
    def total(self) -> int:
        """The new tokens of all sequences."""
        return self.sequences * self.new

    @property
    def is_first(self) -> bool:
        """Whether they are the start of prompts, for which alone an encoder is read."""
        return not self.cached

    @property
    def is_decode(self) -> bool:
        """Whether sequences generate: all new tokens have logits; in a chunk of a prompt only the last has.

        A chunk of one token costs as much as a generated token.
        """
        return self.cached > 0 and self.new == self.logits


@dataclass(frozen=True)
class StepCost:
    """The cost of a step by batch, new tokens and tokens in the cache: ``cost(batch=8, new_tokens=1, cached=2048)``.

    Seconds are lower bounds from the device's data: no launch, no host, no queue, and communication at the same time as
    the rest. A simulator of serving adds these times, or on a calibrated device those of `estimate`.

    Attributes:
        facts: The model.
        device: The device; None for counts alone.
        weights: The format of the matrices; None for their stored format.
        layout: How devices share the model.
        block_size: Tokens in a block of the paged cache.
        cache_format: The format of the keys and values in the cache; None for the dtype of the activations. States of
            constant size keep that dtype.
        has_uniform_routing: Whether tokens choose experts at random, so that a step reads the expected number of
            experts (see `count_expected_experts`). Otherwise all tokens of a step choose the same experts, so that a
            step reads the fewest: a lower bound, because real routers are between the two.
        shared_prefix: Tokens at the start of all prompts that are the same: they are in the cache once for each
            replica, and a step reads them once.
        engine: The engine's rules for windows, and for the storage of latents.
        adapters: Adapters beside the weights; None for none.
        inputs: The images and sound of each prompt.
    """

    facts: ModelFacts
    device: DeviceInfo | None = None
    weights: WeightFormat | None = None
    layout: Layout = ONE_DEVICE
    block_size: int = 16
    cache_format: WeightFormat | None = None
    has_uniform_routing: bool = False
    shared_prefix: int = 0
    engine: EngineRule = ANY_ENGINE
    adapters: Adapters | None = None
    inputs: tuple[EncodedInputs, ...] = ()

    @property
    def devices(self) -> int:
        """How many devices share the model."""
        return self.layout.devices

    @property
    def product_formats(self) -> tuple[str, ...]:
        """The formats of matrices and of the cache, by which an engine may multiply in a faster dtype."""
        formats = self.facts.storage_formats if self.weights is None else (self.weights.name,)
        return formats if self.cache_format is None else (*formats, self.cache_format.name)

    @cached_property
    def peak_dtype(self) -> str:
        """The dtype whose peak bounds the products: the fastest that an engine may multiply in."""
        facts, device = self.facts, self.device
        if device is None:
            return facts.dtype
        dtypes = [facts.dtype, *(dtype for name in self.product_formats for dtype in list_product_dtypes(name))]
        return max(dtypes, key=lambda dtype: device.peak(dtype) or 0.0)

    @cached_property
    def cache(self) -> EngineCache:
        """The cache of the engine."""
        return EngineCache(self.facts, self.engine, self.block_size, self.cache_format, self.shared_prefix)

    @cached_property
    def engine_weights(self) -> EngineWeights:
        """The weights in the engine."""
        return EngineWeights(self.facts, self.weights, self.has_uniform_routing)

    @property
    def stored_weight_bytes(self) -> int:
        """The bytes of all weights in their format."""
        return self.engine_weights.total_bytes

    def cache_bytes(self, context: int, batch: int = 1) -> int:
        """Return the bytes of the engine's paged cache after so many tokens of so many sequences.

        Each replica of the layout has the shared prefix. For an encoder-decoder, the tokens are the prompt's tokens and
        the decoded tokens together.
        """
        _CACHED("context", context)
        sequences, with_one_more = divmod(_COUNT("batch", batch), self.layout.data)
        replicas = {sequences + 1: with_one_more, sequences: self.layout.data - with_one_more}
        return sum(number * self.cache.count_bytes(context, size) for size, number in replicas.items() if size * number)

    def list_stage_bytes(self, context: int, batch: int, layout: Layout) -> list[StageBytes]:
        """Return the bytes that a device keeps between steps, for each stage of a layout; see `cache_bytes`."""
        weights = self.engine_weights.list_stage_bytes(layout)
        cache = self.cache.list_stage_bytes(context, batch, layout)
        adapters = [0.0] * layout.pipeline
        if self.adapters is not None:
            adapters = self.adapters.list_stage_bytes(layout, self.facts.sizes.layers)
        return list(map(StageBytes, weights, cache, adapters))

    def weight_bytes_read(self, tokens: int, is_first: bool = False) -> int:
        """Return the bytes of weights that a step over so many tokens reads, of one replica.

        ``is_first`` says whether it is the pass over the prompts, which alone reads an encoder.

        Matrices, heads, norms and buffers are read once; of tables a row for each token; of experts the fewest, or as
        many as are expected to be chosen.
        """
        return round(sum(self.engine_weights.count_traffic(tokens, is_first, ONE_DEVICE).values()))

    def as_written(self, batch: int, new_tokens: int = 1, cached: int = 0) -> int:
        """Return the multiply-accumulates that the model's own code runs for a step; no time is predicted from them."""
        _require_valid(batch, new_tokens, cached, 1)
        return count_macs(self.facts.work.terms, batch, new_tokens, cached, attended=False)

    def __call__(
        self, batch: int, new_tokens: int = 1, cached: int = 0, logits: int = 1, *, encodes_inputs: bool = False
    ) -> Step:
        """Return the cost of a step of ``batch`` sequences in a serving engine.

        Args:
            batch: Sequences.
            new_tokens: New tokens of each: the prompt in prefill, 1 in decode.
            cached: Tokens of each that are in the cache already.
            logits: For how many tokens of each the head makes logits: for all tokens if drafted tokens are checked.
            encodes_inputs: Whether the images and sound of each are encoded in this step.

        Raises `InputError` if the model does not take so many tokens, and `ArgumentError` for numbers that no step has.
        """
        _require_valid(batch, new_tokens, cached, logits)
        facts = self.facts
        require_context(facts.sizes.longest_context, new_tokens + cached, facts.name)
        if facts.encoder_prompt is not None and new_tokens not in (1, facts.encoder_prompt):
            raise InputError(
                f"{facts.name} is an encoder-decoder, and was traced with a prompt of {facts.encoder_prompt:,} tokens: "
                f"the cost of {new_tokens:,} does not follow from it; call llm with prompt={new_tokens}"
            )
        tokens = _Tokens(batch, new_tokens, cached, logits, encodes_inputs)
        read, written = self.cache.count_traffic(batch, new_tokens, cached, replicas=self.layout.data)
        return Step(
            execution="engine",
            macs=sum(self._count_macs(tokens).values()),
            weight_bytes=round(sum(self._count_weight_traffic(tokens, batch, ONE_DEVICE).values())),
            cache_read_bytes=round(read),
            cache_write_bytes=round(written),
            terms=tuple(self._list_terms(tokens)),
        )

    def estimate(self, batch: int, new_tokens: int = 1, cached: int = 0) -> Corrected | None:
        """Return the estimated seconds of a step in an interval; None where ``reason_without_estimates`` says why.

        The arguments are the same as in a call of the cost.
        """
        if self._estimator is None or self.reason_without_estimates:
            return None
        return self._estimator.estimate(self(batch, new_tokens, cached), batch, new_tokens, cached)

    @cached_property
    def reason_without_estimates(self) -> str:
        """Why there are bounds and no estimates, in words; empty if there are estimates."""
        return next(self._list_reasons(), "")

    def _list_reasons(self) -> Iterator[str]:
        """Yield the reasons against estimates: no calibration, or a step with work that no calibration has."""
        if self.device is None:
            yield "no device: counts alone"
        if self._estimator is None:
            yield "by a data sheet: bounds, no estimates; 'profilerkit calibrate' makes a device that has them"
            return
        if self.devices > 1:
            yield "estimates are for one device: the time of communication is not in a calibration"
        if self.inputs:
            yield "no estimates with images or sound: the shapes of their encoder are not derived"
        if self.adapters is not None:
            yield "no estimates with adapters: the calibration has no products of low rank"
        if self.cache_format is not None:
            yield f"no estimates for a cache in {self.cache_format.name}: the calibration has attention without it"
        yield from self._estimator.list_missing()

    @cached_property
    def calibration(self) -> Calibration | None:
        """The calibration of the device; None without one."""
        return None if self.device is None else Calibration.of(self.device)

    @cached_property
    def _estimator(self) -> Estimator | None:
        if self.calibration is None:
            return None
        return Estimator(replace(self.engine_weights, has_uniform_routing=True), self.calibration)

    # The parts of a step ----------------------------------------------------------------------------------------------

    def _list_terms(self, tokens: _Tokens) -> Iterator[StepTerm]:
        """Yield the terms of a step; in prefill the stages of a pipeline share them evenly.

        In a chunk of a prefill, or after a shared prefix, there are tokens in the cache too; but only the last new
        token has logits.
        """
        layout, device = self.layout, self.device
        stages = 1 if tokens.is_decode else layout.pipeline
        on_device = tokens._replace(sequences=layout.count_sequences(tokens.sequences, tokens.is_decode))
        peak = device.peak(self.peak_dtype) if device else None  # in FLOP/s, of which a MAC has two
        yield from _make_terms(Resource.COMPUTE, self._count_products(on_device), stages, peak and peak / 2)
        read, written = self.cache.count_traffic(on_device.sequences, tokens.new, tokens.cached, layout.tensor)
        weights = self._count_weight_traffic(on_device, tokens.sequences, layout)
        moved = {**weights, "cache, read": read, "cache, written": written}
        bandwidth = self._find_bandwidth(math.ceil(sum(moved.values()) / stages))
        yield from _make_terms(Resource.MEMORY, moved, stages, bandwidth)
        link = device.link if device else None  # of both directions together
        yield from _make_terms(Resource.LINK, self._count_sent_bytes(on_device.total), stages, link and link / 2)

    def _count_macs(self, tokens: _Tokens) -> dict[str, int]:
        """Return the multiply-accumulates of tokens, by name."""
        of_inputs = sum(inputs.number * inputs.encoder.macs for inputs in self.inputs) if tokens.encodes else 0
        return {
            "products": count_engine_macs(self.facts.work, *tokens[:4]),
            "products of adapters": self.adapters.macs_of_a_token * tokens.total if self.adapters else 0,
            "products of the encoder": tokens.sequences * of_inputs,
        }

    def _count_products(self, tokens: _Tokens) -> dict[str, float]:
        """Return the multiply-accumulates of a device for the tokens of its replica, by name, in all stages."""
        tensor = self.layout.tensor
        products = {name: macs / tensor for name, macs in self._count_macs(tokens).items()}
        products["products"] += self.engine_weights.count_repeated_elements(tensor) * tokens.total
        return products

    def _count_weight_traffic(self, tokens: _Tokens, sequences: int, layout: Layout) -> dict[str, float]:
        """Return the bytes of weights that a device of a layout reads for the tokens of its replica, in all stages.

        They are by name. ``sequences`` are those of all replicas. The weights of encoders are read once for all inputs.
        """
        adapter_bytes = 0.0
        if self.adapters is not None:
            in_stage = min(sequences, tokens.sequences * layout.data)
            adapter_bytes = self.adapters.count_read_bytes(tokens.sequences, in_stage, layout)
        encoders = [part for inputs in self.inputs for part in inputs.encoder.weights] if tokens.encodes else []
        return {
            **self.engine_weights.count_traffic(tokens.total, tokens.is_first, layout),
            "encoder": sum(part.count_bytes(self.weights) for part in encoders) / layout.tensor,
            "adapters": adapter_bytes,
        }

    def _find_bandwidth(self, moved: int) -> float | None:
        """Return the bandwidth that bounds so many bytes: the measured one for as many bytes if it is calibrated."""
        best = self.calibration.best_bandwidth(moved) if self.calibration is not None else None
        return best if best is not None or self.device is None else self.device.bandwidth

    def _count_sent_bytes(self, tokens: int) -> dict[str, float]:
        """Return the bytes that a device sends for so many tokens of its own, by purpose."""
        sizes = self.facts.sizes
        reductions = (sizes.layers or 0) * sizes.all_reduces_per_layer
        routed = [(part.layers, part.routing) for part in self.facts.weights if part.routing is not None]
        chosen = max((routing.experts_per_token for _, routing in routed), default=0) if self.has_uniform_routing else 0
        token_bytes = (sizes.width or 0) * self.facts.element_bytes
        return self.layout.count_sent_bytes(
            tokens * token_bytes, reductions, sum(layers for layers, _ in routed), chosen
        )


def _require_valid(batch: int, new_tokens: int, cached: int, logits: int) -> None:
    """Raise `ArgumentError` for numbers that no step has."""
    _COUNT("batch", batch)
    _COUNT("new_tokens", new_tokens)
    _CACHED("cached", cached)
    if _COUNT("logits", logits) > new_tokens:
        raise ArgumentError(f"logits={logits}: a step of {new_tokens} new tokens has no more of them")


def _make_terms(
    resource: Resource, amounts: Mapping[str, float], stages: int, rate: float | None
) -> Iterator[StepTerm]:
    """Yield the term of each amount that is not zero, and that of products in any case, in one of so many stages."""
    for name, in_all_stages in amounts.items():
        amount = in_all_stages / stages
        if amount or name == "products":
            yield StepTerm(name, resource, amount, amount / rate if rate else None)
