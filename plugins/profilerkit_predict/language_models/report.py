"""The report of a language model on a device: plain data, and how it is made.

Its tables are in `report_tables`, its notes in `notes`, its JSON in `report_json`, its figures in `figures`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from profilerkit.arguments.checks import PATH, at_least
from profilerkit.devices import DeviceInfo
from profilerkit.process.encoding import printable
from profilerkit.process.files import write_text

from .bursts import predict_burst
from .fitting import DeviceMemory, Fit
from .model_cache import CacheBytes
from .notes import general_notes, report_notes
from .queueing import Arrivals, Replica, predict_arrivals
from .records import GeneratedTokens, ModelFacts
from .report_json import write_report
from .report_tables import list_tables
from .serving import Serving, average_later_token, predict_serving
from .speculation import NOTHING_DRAFTED, Speculation
from .step_cost import StepCost
from .steps import Piece
from .text_table import draw_table, wrap_lines

if TYPE_CHECKING:
    from ..prediction.result import Prediction
    from .comparison import LanguageModelComparison


@dataclass(frozen=True)
class LanguageModelReport:
    """The memory and work of serving a language model, and the predictions for a device.

    Attributes:
        name: The name of the model.
        facts: The facts of the model; counts of its own code, "as written".
        cost: The cost of a step, a function of batch, new tokens and cached tokens; "engine".
        prompt: Tokens of each prompt.
        new: Tokens that are generated for each.
        weights: The format of the matrices.
        serving: The predictions for each batch size, the smallest first.
        fits: Whether and how it fits the device, for each batch size; empty without a device.
        measured: A real generation; None if none was requested.
        speculation: The tokens that are drafted; None for none.
        rate: Requests that arrive in a second; None if all prompts of a batch arrive at once.
        cache_after: Returns the bytes of the cache after so many tokens of so many sequences, by a pass of the model.
    """

    name: str
    facts: ModelFacts
    cost: StepCost
    prompt: int
    new: int
    weights: str
    serving: tuple[Serving, ...]
    fits: tuple[Fit, ...] = ()
    measured: GeneratedTokens | None = None
    speculation: Speculation | None = None
    rate: float | None = None
    cache_after: Callable[[int, int], CacheBytes] | None = field(default=None, compare=False, repr=False)

    @property
    def device(self) -> DeviceInfo | None:
        """The device that the predictions are for."""
        return self.cost.device

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
        if self.speculation is not None and self.cost.calibration is not None:
            return "no estimates of later tokens: the calibration has no drafted ones"
        return self.cost.reason_without_estimates

    def as_written(self) -> tuple[Prediction, Prediction] | None:
        """Return the predicted times of both traced passes as the model's own code runs them, on the device.

        The passes have one sequence, the traced prompt and the step after it, operator by operator: ``measure=True``
        runs the same. No serving prediction follows from them. None without a device or its figures.
        """
        from profilerkit.devices.products import UnknownPeakError

        from ..prediction.predicting import predict_trace

        traces = self.facts.traced.traces if self.facts.traced is not None else None
        if self.device is None or traces is None:
            return None
        try:
            first, second = (predict_trace(trace, self.device) for trace in traces)
        except UnknownPeakError:
            return None
        return first, second

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

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold, in base units: counts, bytes, seconds."""
        return write_report(self)

    def to_text(self) -> str:
        """Return the report as text: its tables and notes."""
        notes = (*general_notes([self]), *report_notes(self))
        return "\n\n".join([*map(draw_table, list_tables(self)), wrap_lines(f"- {note}" for note in notes)])

    def to_html(self) -> str:
        """Return the report as one page of HTML that needs nothing else, with its figures."""
        from .page import render_page

        return render_page((self,))

    def save(self, path: str | PathLike[str]) -> None:
        """Write all of it to a file: a page if its name ends in ``.html``, text if in ``.txt``, otherwise JSON."""
        save(self, path)

    def plot(self, kind: str = "cache_memory") -> Any:
        """Return a figure of matplotlib: "cache_memory", "step_terms" or "tokens_per_second".

        Raises `ArgumentError` for another kind, and `ImportError` if matplotlib is missing.
        """
        from .figures import draw_language_models

        return draw_language_models((self,), kind)

    def __str__(self) -> str:
        return printable(self.to_text())


def save(result: LanguageModelReport | LanguageModelComparison, path: str | PathLike[str]) -> None:
    """Write a result to a file, in the form that the end of its name tells."""
    target = PATH("path", path)
    if str(target).endswith(".html"):
        text = result.to_html()
    else:
        text = result.to_text() if str(target).endswith(".txt") else json.dumps(result.to_dict(), indent=2)
    write_text(target, text)


class Request(NamedTuple):
    """The request for a model: tokens, the most tokens of a pass, the memory that stays free, requests per second."""

    prompt: int
    new: int
    prefill_tokens: int
    reserve: float
    rate: float | None


def make_report(
    cost: StepCost, request: Request, batches: tuple[int, ...], speculation: Speculation | None
) -> LanguageModelReport:
    """Return the report of a model on its devices, with a row for each batch size."""
    prompt, new, most_tokens, reserve, rate = request
    fits: list[Fit] = []
    if cost.device is not None and cost.device.memory is not None:
        memory = DeviceMemory(cost, most_tokens, reserve, speculation or NOTHING_DRAFTED)
        fits = [memory.fit(batch, prompt + new) for batch in batches]
    rows = [predict_serving(cost, batch, prompt, new, speculation) for batch in batches]
    if not cost.facts.is_encoder_decoder:
        rows = [replace(row, burst=predict_burst(cost, row.batch, prompt, most_tokens)) for row in rows]
    if rate is not None:  # arrivals depend on the largest batch that fits, not on a row: once is enough
        rows[-1] = replace(rows[-1], arrivals=_predict_arrivals(cost, request, fits[-1:], speculation))
    return LanguageModelReport(
        name=cost.facts.name,
        facts=cost.facts,
        cost=cost,
        prompt=prompt,
        new=new,
        weights=_name_weights(cost),
        serving=tuple(rows),
        fits=tuple(fits),
        speculation=speculation,
        rate=rate,
    )


class _UnknownSecondsError(Exception):
    """The figures of the device do not give the seconds of a step."""


def _predict_arrivals(
    cost: StepCost, request: Request, fits: Sequence[Fit], speculation: Speculation | None
) -> Arrivals | None:
    """Return the waits of requests at the rate with as many sequences as fit; None without a device or its figures."""
    shared, replicas = cost.shared_prefix, cost.layout.data
    prefill = cost.run_together([Piece(replicas, request.prompt - shared, shared, has_inputs=True)]).seconds
    largest = fits[0].largest_batch if fits else None
    if request.rate is None or prefill is None or not largest:
        return None
    drafting: float | None = 0.0
    if speculation is not None and request.new > 1:
        draft = speculation.draft_prompts(replicas, request.prompt - shared, shared)
        drafting = 0.0 if draft is None else draft.seconds
    if drafting is None:
        return None

    def decode(sequences: int) -> float:
        seconds = average_later_token(cost, sequences * replicas, request.prompt, request.new, speculation)
        if seconds is None:
            raise _UnknownSecondsError
        return seconds

    most = max(largest // replicas, 1)
    replica = Replica(prefill, request.new - 1, decode, most, drafting, cost.layout.pipeline)
    try:
        return predict_arrivals(request.rate, replica, replicas)
    except _UnknownSecondsError:
        return None


def _name_weights(cost: StepCost) -> str:
    """Return the requested format of the weights, or the formats of the checkpoint besides the plain dtype."""
    if cost.weights is not None:
        return cost.weights.name
    return " + ".join(name for name in cost.facts.storage_formats if name != cost.facts.dtype) or cost.facts.dtype
