"""Making the report of a language model: its predictions for each batch size, what fits, and the waits of requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from .bursts import predict_burst
from .fitting import DeviceMemory, Fit
from .queueing import Arrivals, Replica, predict_arrivals
from .report import LanguageModelReport
from .serving import average_later_token, predict_serving
from .speculation import NOTHING_DRAFTED, Speculation
from .step_cost import StepCost
from .steps import Piece


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

    def average(sequences: int) -> float | None:
        return average_later_token(cost, sequences * replicas, request.prompt, request.new, speculation)

    if request.new > 1 and average(1) is None:
        return None
    decode = cast("Callable[[int], float]", average)  # what is known of one sequence is known of all
    most = max(largest // replicas, 1)
    replica = Replica(prefill, request.new - 1, decode, most, drafting, cost.layout.pipeline)
    return predict_arrivals(request.rate, replica, replicas)


def _name_weights(cost: StepCost) -> str:
    """Return the requested format of the weights, or the formats of the checkpoint besides the plain dtype."""
    if cost.weights is not None:
        return cost.weights.name
    return " + ".join(name for name in cost.facts.storage_formats if name != cost.facts.dtype) or cost.facts.dtype
