"""Estimated times of steps by a calibration of the device, between two ends; by a data sheet there are bounds alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from profilerkit.trace.dtypes import element_bytes

from ..prediction.calibration import Calibration
from .engine_weights import EngineWeights
from .formulas import count_macs
from .records import ModelFacts
from .steps import Step
from .work import AttentionShape, Law, ProductShape, StepShapes, TrafficShape


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number between two ends. It is computed, never measured."""

    #: The estimate; None by a data sheet, which gives bounds alone.
    value: float | None
    #: The lower end; None if it is not known.
    low: float | None
    high: float | None
    #: "data sheet" or "calibrated"; the two are never mixed.
    tier: str

    def __str__(self) -> str:
        numbers = {"": self.value, "at least ": self.low, "at most ": self.high}
        texts = [f"{words}{number:.4g}" for words, number in numbers.items() if number is not None]
        return ", ".join(texts) or "not known"


@dataclass(frozen=True)
class Estimator:
    """Estimates the seconds of steps on a calibrated device.

    A step is the sum of its products by their shapes, of fused attention over the pairs that are attended to, and of
    the traffic of its other operators after fusion; the host takes no time, like an engine that replays a captured
    graph. No part is faster than its bytes at the best bandwidth or its products at the best rate that were measured.
    """

    #: The weights in the engine; tokens choose experts at random.
    weights: EngineWeights
    calibration: Calibration

    @property
    def facts(self) -> ModelFacts:
        """The model."""
        return self.weights.facts

    def list_missing(self) -> Iterator[str]:
        """Yield in words which products of the model the calibration has not; nothing if it has all of them."""
        facts = self.facts
        others = [name for name in facts.storage_formats if name != facts.dtype]
        if self.weights.format is not None:
            is_stored_so = self.weights.total_bytes == sum(part.bytes for part in facts.weights)
            others = [] if is_stored_so else [self.weights.format.name]
        if others:
            yield f"no estimates for {', '.join(others)}: the calibration has products of the model's own dtype alone"
        if facts.work.latent is not None:
            yield "no estimates for latent attention: the shapes of its absorbed products are not derived"
        shapes = None if facts.traced is None else facts.traced.shapes
        if facts.traced is None:
            yield "no estimates: no code of the model was followed"
        elif shapes is None or facts.is_encoder_decoder:
            yield "no estimates: some work follows no law of tokens and pairs"
        else:
            dtypes = {shape.dtype for shape in shapes.products} | {shape.dtype for shape in shapes.attention}
            missing = sorted(dtype for dtype in dtypes if self.calibration.table("product", dtype) is None)
            if missing:
                yield f"no estimates: the calibration has no products in {', '.join(missing)}; make it with --dtype"

    def estimate(self, step: Step, batch: int, new_tokens: int, cached: int) -> Estimate:
        """Return the seconds of a step whose counts and bound are known."""
        bound = step.seconds or 0.0
        attention = self._estimate_attention(step, batch, new_tokens, cached)
        total = max(self._estimate_but_attention(batch, batch * new_tokens) + attention, bound)
        return Estimate(*self.calibration.correction("forward").correct(total, bound), "calibrated")

    @property
    def _shapes(self) -> StepShapes:
        """The shapes of a step; empty if they are not known."""
        traced = self.facts.traced
        shapes = None if traced is None else traced.shapes
        return StepShapes() if shapes is None else shapes

    def _estimate_but_attention(self, batch: int, tokens: int) -> float:
        """Return the seconds of products with weights and of other operators, whatever is in the cache."""
        plain = experts = 0.0
        for product, count in self._shapes.products.items():
            if product.is_experts:  # their weights are read as far as tokens are sent to them: together, below
                experts += count * self._estimate_product(product, tokens, 0.0)
            else:
                weights = product.columns * product.depth * element_bytes(product.dtype)
                rows = tokens if product.law is Law.TOKEN else batch
                plain += count * self._estimate_product(product, rows, weights)
        experts = max(experts, self._estimate_bytes(self._count_expert_bytes(tokens)))
        others = sum(count * self._estimate_other(shape, tokens) for shape, count in self._shapes.traffic.items())
        return plain + experts + others

    def _estimate_product(self, shape: ProductShape, tokens: int, weight_bytes: float) -> float:
        """Return the seconds of a product, which reads so many bytes of weights at least."""
        rows = shape.rows * tokens
        work = 2.0 * rows * shape.columns * shape.depth
        seconds = self._look_up("product", shape.dtype, (1, rows, shape.columns, shape.depth), work)
        return max(seconds, self._estimate_bytes(weight_bytes))

    def _estimate_attention(self, step: Step, batch: int, new_tokens: int, cached: int) -> float:
        """Return the seconds of attention in all layers, which read the cache at least."""
        layers = self._shapes.attention.items()
        seconds = sum(count * self._estimate_layer(shape, batch, new_tokens, cached) for shape, count in layers)
        return max(seconds, self._estimate_bytes(step.cache_read_bytes))

    def _estimate_layer(self, shape: AttentionShape, batch: int, new_tokens: int, cached: int) -> float:
        """Return the seconds of attention in one layer."""
        macs = count_macs([shape.pairs], batch, new_tokens, cached, attended=True)
        # A row for each token and head: for a pair a head has ``columns`` in the score, and as many in the output.
        rows = max(1, batch * new_tokens * shape.pairs.rate // (2 * shape.columns))
        depth = max(1, macs // (rows * shape.columns))
        return self._look_up("attention", shape.dtype, (1, rows, shape.columns, depth), 2.0 * macs)

    def _estimate_other(self, shape: TrafficShape, tokens: int) -> float:
        """Return the seconds of an operator without products."""
        moved = max(1.0, shape.token_bytes * tokens)
        tables = (self.calibration.table(shape.family, dtype) for dtype in (shape.dtype, "float32"))
        table = next(filter(None, tables), None)
        return self._estimate_bytes(moved) if table is None else table.seconds((moved,), moved, math.inf)

    def _look_up(self, kind: str, dtype: str, sizes: tuple[float, ...], work: float) -> float:
        table = self.calibration.table(kind, dtype)
        assert table is not None  # noqa: S101 - `list_missing` names dtypes without one
        return table.seconds(sizes, max(work, 1.0), self.calibration.peak(dtype) or math.inf)

    def _count_expert_bytes(self, tokens: int) -> float:
        """Return the bytes of experts that so many tokens are expected to use."""
        routed = [part for part in self.facts.weights if part.routing is not None]
        return sum(self.weights.count_read_bytes(part, tokens, is_first=False) for part in routed)

    def _estimate_bytes(self, count: float) -> float:
        """Return the least seconds of so many bytes among all weights, which no cache holds if they are many."""
        bandwidth = self.calibration.best_bandwidth(self.weights.total_bytes)
        return count / bandwidth if bandwidth else 0.0


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of estimates of one tier; an end that one of them lacks is not known."""
    value, low, high = (divide(_add_up(estimates, end), len(estimates)) for end in ("value", "low", "high"))
    return Estimate(value, low, high, estimates[0].tier)


def compute_rate(amount: float, times: Sequence[Estimate | None]) -> Estimate | None:
    """Return an amount over the sum of times; None if one is not known.

    >>> compute_rate(8, [Estimate(2.0, 1.0, 4.0, "calibrated")] * 2)
    Estimate(value=2.0, low=1.0, high=4.0, tier='calibrated')
    """
    present = [time for time in times if time is not None]
    # The longest times have the lowest rate.
    value, high, low = (divide(amount, _add_up(present, end)) for end in ("value", "low", "high"))
    return None if high is None or len(present) < len(times) else Estimate(value, low, high, present[0].tier)


def _add_up(estimates: Sequence[Estimate], end: str) -> float | None:
    """Return the sum of the values, or of one of the ends, of estimates; None if one of them lacks it."""
    return add_up([getattr(estimate, end) for estimate in estimates])


def add_up(numbers: Sequence[float | None]) -> float | None:
    """Return the sum of numbers; None if one of them is not known."""
    present = [number for number in numbers if number is not None]
    return sum(present) if len(present) == len(numbers) else None


def divide(amount: float | None, by: float | None) -> float | None:
    """Return the quotient; None if one of the two is not known, and for a division by zero."""
    return None if amount is None or not by else amount / by
