"""The cost of one step of a language model, as a function that simulators can call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from profilerkit.arguments.checks import at_least
from profilerkit.devices import DeviceInfo
from profilerkit.errors import InputError
from profilerkit.process.cached import cached_property

from ..checkpoints.formats import WeightFormat, list_product_dtypes
from .adapters import Adapters
from .engine_cache import EngineCache
from .engine_weights import EngineWeights
from .engines import ANY_ENGINE, EngineRule
from .estimating import Estimate, Estimator
from .formulas import count_macs
from .layout import ONE_DEVICE, Layout
from .prompts import EncodedInputs, require_context
from .records import ModelFacts
from .step_work import make_step
from .steps import Piece, Step


class StageBytes(NamedTuple):
    """The bytes that a device of a stage keeps between steps."""

    weights: float
    cache: float
    adapters: float


@dataclass(frozen=True)
class StepCost:
    """The cost of a step by batch, new tokens and tokens in the cache: ``cost(batch=8, new_tokens=1, cached=2048)``.

    Seconds are lower bounds from the device's data: no launch, no host, no queue, and communication at the same time as
    the rest. A simulator of serving adds these times, or uses ``cost.estimate(batch, new_tokens, cached)`` on a
    calibrated device.

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

    def cache_bytes(self, context: int, batch: int = 1) -> int:
        """Return the bytes of the engine's paged cache after so many tokens of so many sequences.

        Each replica of the layout has the shared prefix. For an encoder-decoder, the tokens are the prompt's tokens and
        the decoded tokens together.
        """
        at_least(0)("context", context)
        sequences, with_one_more = divmod(at_least(1)("batch", batch), self.layout.data)
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

    def __call__(self, batch: int, new_tokens: int = 1, cached: int = 0, logits: int = 1) -> Step:
        """Return the cost of a step of ``batch`` sequences in a serving engine.

        Args:
            batch: Sequences.
            new_tokens: New tokens of each: the prompt in prefill, 1 in decode.
            cached: Tokens of each that are in the cache already.
            logits: For how many tokens of each the head makes logits: for all tokens if drafted tokens are checked.

        Raises `InputError` if the model does not take so many tokens, and `ArgumentError` for numbers that no step has.
        """
        return self.run_together([Piece(batch, new_tokens, cached, logits)])

    def run_together(self, pieces: Sequence[Piece]) -> Step:
        """Return the cost of a step whose sequences are not all alike; weights are read once.

        A pass can have the rest of one prompt and the start of another, or decode other sequences at the same time.

        Raises `InputError` if the model does not take so many tokens, and `ArgumentError` for numbers that no step has.
        """
        for piece in pieces:
            piece.require_valid()
            require_context(self.facts.sizes.longest_context, piece.new_tokens + piece.cached, self.facts.name)
            self._require_traced_source(piece.new_tokens)
        return make_step(self, pieces)

    def estimate(self, batch: int, new_tokens: int = 1, cached: int = 0) -> Estimate | None:
        """Return the seconds of a step between two ends: an estimate by a calibration, a bound by a data sheet.

        The arguments are the same as in a call of the cost. None if the bound is not known.
        """
        return self.estimate_step(self(batch, new_tokens, cached), batch, new_tokens, cached)

    def estimate_step(self, step: Step, batch: int, new_tokens: int, cached: int) -> Estimate | None:
        """Return the same of a step whose counts are known; it may encode images or sound besides."""
        if step.seconds is None:
            return None
        if self.estimator is None:
            return Estimate(None, step.seconds, None, self.tier)
        return self.estimator.estimate(step, batch, new_tokens, cached)

    @property
    def tier(self) -> str:
        """The source of predicted times: "data sheet" or "calibrated"."""
        return "data sheet" if self.estimator is None else "calibrated"

    @cached_property
    def estimator(self) -> Estimator | None:
        """The estimator of steps by the device's calibration; None without a calibration."""
        from ..prediction.calibration import Calibration

        calibration = Calibration.of(self.device) if self.device is not None else None
        return None if calibration is None else Estimator(self, calibration)

    def as_written(self, batch: int, new_tokens: int = 1, cached: int = 0) -> int:
        """Return the multiply-accumulates that the model's own code runs for a step; no time is predicted from them."""
        Piece(batch, new_tokens, cached).require_valid()
        return count_macs(self.facts.work.terms, batch, new_tokens, cached, attended=False)

    def weight_bytes_read(self, tokens: int, is_first: bool = False) -> int:
        """Return the bytes of weights that a step over so many tokens reads, of one replica.

        ``is_first`` says whether it is the pass over the prompts, which alone reads an encoder.

        Matrices, heads, norms and buffers are read once; of tables a row for each token; of experts the fewest, or as
        many as are expected to be chosen.
        """
        return round(self.engine_weights.count_read_bytes(tokens, is_first))

    @property
    def stored_weight_bytes(self) -> int:
        """The bytes of all weights in their format."""
        return self.engine_weights.total_bytes

    @cached_property
    def engine_weights(self) -> EngineWeights:
        """The weights in the engine."""
        return EngineWeights(self.facts, self.weights, self.has_uniform_routing)

    def _require_traced_source(self, new_tokens: int) -> None:
        facts = self.facts
        if facts.encoder_prompt is not None and new_tokens not in (1, facts.encoder_prompt):
            raise InputError(
                f"{facts.name} is an encoder-decoder, and was traced with a prompt of {facts.encoder_prompt:,} tokens: "
                f"the cost of {new_tokens:,} does not follow from it; call llm with prompt={new_tokens}"
            )
