"""Estimated times of steps by a calibration of the device; by a data sheet there are bounds alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from profilerkit.trace.dtypes import element_bytes

from ...prediction.calibration import Calibration, Corrected
from ..facts.records import ModelFacts
from ..facts.step_shapes import AttentionShape, ProductShape, StepShapes, TrafficShape
from ..facts.work import Law, count_macs
from .step import Step
from .weights import EngineWeights


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

    def list_missing(self) -> Iterator[str]:
        """Yield in words which products of the model the calibration has not; nothing if it has all of them."""
        facts = self.weights.facts
        others = [name for name in facts.storage_formats if name != facts.dtype]
        if self.weights.format is not None:
            is_stored_so = self.weights.total_bytes == sum(part.bytes for part in facts.weights)
            others = [] if is_stored_so else [self.weights.format.name]
        if others:
            yield f"no estimates for {', '.join(others)}: the calibration has products of the model's own dtype alone"
        if facts.work.latent is not None:
            yield "no estimates for latent attention: the shapes of its absorbed products are not derived"
        if facts.traced is None:
            yield "no estimates: no code of the model was followed"
        elif facts.traced.shapes is None or facts.is_encoder_decoder:
            yield "no estimates: some work follows no law of tokens and pairs"
        else:
            missing = ", ".join(sorted(self._list_missing_dtypes(facts.traced.shapes)))
            if missing:
                yield f"no estimates: the calibration has no products in {missing}; make it with --dtype"

    def _list_missing_dtypes(self, shapes: StepShapes) -> set[str]:
        dtypes = {shape.dtype for shape in shapes.products} | {shape.dtype for shape in shapes.attention}
        return {dtype for dtype in dtypes if self.calibration.table("product", dtype) is None}

    def estimate(self, step: Step, batch: int, new_tokens: int, cached: int) -> Corrected:
        """Return the seconds of a step whose counts and bound are known, in an interval."""
        bound, tokens, shapes = step.seconds or 0.0, batch * new_tokens, _get_shapes(self.weights.facts)
        plain = experts = 0.0
        for product, count in shapes.products.items():
            seconds = count * self._estimate_product(product, tokens if product.law is Law.TOKEN else batch)
            if product.is_experts:
                experts += seconds
            else:
                plain += seconds
        attention = sum(
            count * self._estimate_attention(layer, batch, new_tokens, cached)
            for layer, count in shapes.attention.items()
        )
        others = sum(count * self._estimate_other(shape, tokens) for shape, count in shapes.traffic.items())
        total = plain + others
        total += max(experts, self._estimate_bytes(self._count_expert_bytes(tokens)))
        total += max(attention, self._estimate_bytes(step.cache_read_bytes))
        return self.calibration.correction("forward").correct(max(total, bound), bound)

    def _estimate_product(self, shape: ProductShape, tokens: int) -> float:
        """Return the seconds of a product; the weights of experts are read as far as tokens are sent to them."""
        rows = shape.rows * tokens
        work = 2.0 * rows * shape.columns * shape.depth
        seconds = self._look_up("product", shape.dtype, (1, rows, shape.columns, shape.depth), work)
        if shape.is_experts:
            return seconds
        return max(seconds, self._estimate_bytes(shape.columns * shape.depth * element_bytes(shape.dtype)))

    def _estimate_attention(self, shape: AttentionShape, batch: int, new_tokens: int, cached: int) -> float:
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
        routed = [part for part in self.weights.facts.weights if part.routing is not None]
        return sum(self.weights.count_read_bytes(part, tokens, is_first=False) for part in routed)

    def _estimate_bytes(self, count: float) -> float:
        """Return the least seconds of so many bytes among all weights, which no cache holds if they are many."""
        bandwidth = self.calibration.best_bandwidth(self.weights.total_bytes)
        return count / bandwidth if bandwidth else 0.0


def _get_shapes(facts: ModelFacts) -> StepShapes:
    """Return the shapes of a step; empty if they are not known."""
    return (facts.traced and facts.traced.shapes) or StepShapes()
