"""The data of the report of a language model; its tables, notes, figures and JSON are made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from profilerkit.arguments.checks import at_least
from profilerkit.devices import DeviceInfo
from profilerkit.devices.products import UnknownPeakError

from ...prediction.predicting import predict_trace
from ...prediction.result import Prediction
from ..engine.fitting import Fit
from ..engine.queueing import Arrivals
from ..engine.serving import Serving
from ..engine.speculation import NOTHING_DRAFTED, Speculation
from ..engine.step_cost import StepCost
from ..facts.model_cache import CacheBytes
from ..facts.records import GeneratedTokens, ModelFacts


@dataclass(frozen=True)
class ReportData:
    """The data of a `LanguageModelReport`, which describes the fields."""

    cost: StepCost
    prompt: int
    new: int
    serving: tuple[Serving, ...]
    fits: tuple[Fit, ...] = ()
    measured: GeneratedTokens | None = None
    speculation: Speculation = NOTHING_DRAFTED
    rate: float | None = None
    arrivals: Arrivals | None = None
    cache_after: Callable[[int, int], CacheBytes] | None = field(default=None, compare=False, repr=False)

    @property
    def facts(self) -> ModelFacts:
        """The facts of the model; counts of its own code, "as written"."""
        return self.cost.facts

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.facts.name

    @property
    def device(self) -> DeviceInfo | None:
        """The device that the predictions are for."""
        return self.cost.device

    @property
    def weights(self) -> str:
        """The requested format of the weights, or the formats of the checkpoint besides the plain dtype."""
        if self.cost.weights is not None:
            return self.cost.weights.name
        return " + ".join(name for name in self.facts.storage_formats if name != self.facts.dtype) or self.facts.dtype

    @property
    def title(self) -> str:
        """The model with the weights' format and the device."""
        names = [self.name, self.weights]
        if self.device is not None:
            names.append(self.device.name)
        return ", ".join(names)

    @property
    def reason_without_estimates(self) -> str:
        """Why there are bounds and no estimates, in words; empty if there are estimates."""
        if self.speculation.draft_tokens and self.cost.calibration is not None:
            return "no estimates of later tokens: the calibration has no drafted ones"
        return self.cost.reason_without_estimates

    def as_written(self) -> tuple[Prediction, Prediction] | None:
        """Return the predicted times of both traced passes as the model's own code runs them, on the device.

        The passes have one sequence, the traced prompt and the step after it, operator by operator: ``measure=True``
        runs the same. No serving prediction follows from them. None without a device or its figures.
        """
        traces = self.facts.traced.traces if self.facts.traced is not None else None
        if self.device is None or traces is None:
            return None
        try:
            first, second = (predict_trace(trace, self.device) for trace in traces)
        except UnknownPeakError:
            return None
        return first, second

    def predict_measured(self) -> tuple[Prediction, Prediction] | None:
        """Return the same if the measured generation has the traced inputs: one sequence, and the same prompt."""
        if self.measured is None or self.facts.traced is None:
            return None
        first = self.facts.traced.prefill
        is_same = (self.measured.batch, self.measured.prompt) == (first.batch, first.new_tokens)
        return self.as_written() if is_same else None

    def kv_bytes_per_token(self, context: int) -> int:
        """Return the bytes that the next token of one sequence adds to the model's own cache after so many."""
        return self.kv_bytes(context).bytes_per_token

    def kv_bytes(self, context: int, batch: int = 1) -> CacheBytes:
        """Return the bytes of the cache that the model itself returns after so many tokens of so many sequences."""
        if self.cache_after is None:
            raise ValueError(
                "a report that was copied or loaded has no model; call profilerkit.kv_bytes(model, ...), or "
                "report.cost.cache_bytes(context, batch) for the bytes of an engine"
            )
        return self.cache_after(at_least(1)("context", context), at_least(1)("batch", batch))
