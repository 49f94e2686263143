"""What is asked of a model on a device, and the report that answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from profilerkit.devices import DeviceInfo
from profilerkit.errors import InputError

from ..checkpoints.formats import WeightFormat, list_product_dtypes
from .arrivals import Arrivals, predict_arrivals
from .bursts import predict_burst
from .fitting import Fit, fit
from .followed import FactsSource
from .records import ModelFacts
from .report import LanguageModelReport
from .serving import average_later_token, predict_serving
from .speculation import OWN_HEADS, Speculation, make_drafter, read_parameters
from .step_cost import StepCost
from .steps import Piece

__all__ = ["Request", "add_drafter", "find_drafter", "find_peak_dtype", "make_report"]


class Request(NamedTuple):
    """What is asked of a model: tokens, the most of a pass, the memory that stays free, and requests in a second."""

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
        fits = [fit(cost, batch, prompt + new, most_tokens, reserve, speculation) for batch in batches]
    rows = []
    for index, batch in enumerate(batches):
        of_batch = fits[index] if fits else None
        row = predict_serving(cost, batch, prompt, new, speculation)
        burst = None if cost.facts.is_encoder_decoder else predict_burst(cost, batch, prompt, most_tokens)
        is_last = index == len(batches) - 1  # arrivals follow from what fits, whatever the batch: once is enough
        arrivals = None if rate is None or not is_last else _predict_arrivals(cost, request, of_batch, speculation)
        rows.append(replace(row, burst=burst, arrivals=arrivals))
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
    cost: StepCost, request: Request, fits: Fit | None, speculation: Speculation | None
) -> Arrivals | None:
    """Return what requests at the rate find with as many sequences as fit; None without a device or a figure of it."""
    shared = cost.shared_prefix
    prefill = cost.run_together([Piece(cost.layout.data, request.prompt - shared, shared, has_inputs=True)]).seconds
    if request.rate is None or prefill is None or fits is None or not fits.largest_batch:
        return None
    replicas = cost.layout.data

    def decode(sequences: int) -> float | None:
        return average_later_token(cost, sequences * replicas, request.prompt, request.new, speculation)

    most = max(fits.largest_batch // replicas, 1)
    return predict_arrivals(request.rate, prefill, request.new, decode, most, replicas)


def find_drafter(
    draft: Any, facts: ModelFacts, tokens: int, open_source: Callable[[Any], FactsSource]
) -> ModelFacts | None:
    """Return what drafts, as a model; None where that is not counted."""
    if draft is None:
        return None
    parameters = read_parameters(draft)
    if parameters is not None:
        return make_drafter(facts, parameters)
    if draft == OWN_HEADS:
        if facts.own_heads is None:
            raise InputError(
                f"draft='mtp' (--draft mtp): the configuration of {facts.name} names no layers that predict further "
                "tokens (num_nextn_predict_layers); give the number of parameters that draft a token, or a model"
            )
        return facts.own_heads
    source = open_source(draft)
    drafter = source.find_facts(source.choose_lengths(tokens - 1, 1))
    if drafter.is_encoder_decoder:
        raise InputError(f"draft: {drafter.name} is an encoder-decoder; give a model that has a decoder alone")
    return drafter


def add_drafter(speculation: Speculation | None, cost: StepCost, drafter: ModelFacts | None) -> Speculation | None:
    """Return a speculation with the cost of what drafts, on the same devices.

    Layers of the model's own have its format. Each drafts one token of a step; of more than are drafted the others are
    left out, and where there are fewer they take turns.
    """
    if speculation is None or drafter is None:
        return speculation
    is_own = drafter is cost.facts.own_heads
    weights = cost.weights if is_own else None
    peak = find_peak_dtype(drafter, cost.device, weights, cost.cache_format)
    of_drafter = replace(cost, facts=drafter, weights=weights, peak_dtype=peak, adapters=None, inputs=())
    count = min(cost.facts.own_head_count, speculation.draft_tokens) if is_own else 1
    return replace(speculation, drafter=of_drafter, drafters=count)


def _name_weights(cost: StepCost) -> str:
    """Return the format of the weights that was requested, or those that the checkpoint has beside the plain dtype."""
    if cost.weights is not None:
        return cost.weights.name
    return " + ".join(name for name in cost.facts.storage_formats if name != cost.facts.dtype) or cost.facts.dtype


def find_peak_dtype(
    facts: ModelFacts, device: DeviceInfo | None, weights: WeightFormat | None, cache: WeightFormat | None
) -> str:
    """Return the dtype whose peak bounds the products: the fastest that an engine may multiply in."""
    if device is None:
        return facts.dtype
    names = list(facts.storage_formats) if weights is None else [weights.name]
    names += [cache.name] if cache is not None else []
    dtypes = [facts.dtype, *(dtype for name in names for dtype in list_product_dtypes(name))]
    return max(dtypes, key=lambda dtype: device.peak(dtype) or 0.0)
