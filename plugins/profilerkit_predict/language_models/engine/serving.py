"""A language model on a device at one batch size: bounds of its times, and of its tokens per second."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import NamedTuple

from ...prediction.calibration import Corrected
from .queueing import Burst, predict_burst
from .speculation import NOTHING_DRAFTED, Speculation
from .step import Step
from .step_cost import StepCost

#: Of how many steps the estimated time of a later one is the mean.
SAMPLED = 9


@dataclass(frozen=True, slots=True)
class Serving:
    """The predictions for one batch size; all of the execution model "engine".

    Attributes:
        batch: Sequences.
        prefill: The step over the prompts, without their shared prefix.
        decode: The last step, with the longest cache; with speculation it checks drafted tokens too. If only one token
            is generated, it is the prefill.
        time_to_first_token: Seconds of the prefill; None if a figure of the device is not known.
        time_per_output_token: The mean seconds of a later token; None also if there is none.
        decode_tokens_per_second: Tokens of all sequences in a second of decoding.
        tokens_per_second: New tokens of all sequences over the whole time.
        cache_bytes: Bytes of the paged cache at the end.
        draft: The step that drafts one token for each sequence, with the longest cache; of several stages for each
            sequence that is in the last one. None if it is not counted.
        burst: The first tokens of the prompts, run in order; None if not known.
        first_token: Estimated seconds of the prefill, in an interval; None by a data sheet, and where
            `StepCost.reason_without_estimates` says why.
        per_token: The mean estimated seconds of a later token, over at most `SAMPLED` of them; None as above, and with
            speculation.
        rate: Estimated new tokens of all sequences over the whole time; None as above.
        uniform_time_per_output_token: The same as ``time_per_output_token`` if tokens choose experts at random; None
            for a model without experts.
    """

    batch: int
    prefill: Step
    decode: Step
    time_to_first_token: float | None
    time_per_output_token: float | None
    decode_tokens_per_second: float | None
    tokens_per_second: float | None
    cache_bytes: int
    draft: Step | None = None
    burst: Burst | None = None
    first_token: Corrected | None = None
    per_token: Corrected | None = None
    rate: Corrected | None = None
    uniform_time_per_output_token: float | None = None


def predict_serving(
    cost: StepCost, batch: int, prompt: int, new: int, speculation: Speculation = NOTHING_DRAFTED
) -> Serving:
    """Return the predictions for a batch of prompts, each of which gets so many new tokens.

    The prefill makes the first token, each later step one more: ``new - 1`` steps. With speculation a step also checks
    the drafted tokens; its time and the time of the drafter are divided by the tokens that it makes on average. The
    drafter reads the prompts too, after the first token.
    """
    shared, own_tokens = cost.shared_prefix, prompt - cost.shared_prefix
    prefill = cost(batch, own_tokens, shared, encodes_inputs=True)
    cycles = _list_cycles(cost, batch, prompt, new, speculation)
    later = _average_seconds(cycles, speculation)
    durations = [prefill.seconds, *[later] * len(cycles)]
    drafting = speculation.draft_prompts(batch, own_tokens, shared) if cycles else None
    if drafting is not None:
        durations.append(drafting.seconds)
    uniform = None
    if cost.facts.has_experts:
        chosen = replace(cost, has_uniform_routing=True), speculation.with_uniform_routing()
        uniform = _average_seconds(_list_cycles(chosen[0], batch, prompt, new, chosen[1]), chosen[1])
    first_token = cost.estimate(batch, own_tokens, shared)
    per_token = None if speculation.draft_tokens else _estimate_later(cost, batch, prompt, new)
    return Serving(
        batch=batch,
        prefill=prefill,
        decode=cycles[-1].check if cycles else prefill,
        time_to_first_token=prefill.seconds,
        time_per_output_token=later,
        decode_tokens_per_second=_divide(batch, [later]),
        tokens_per_second=_divide(batch * new, durations),
        cache_bytes=cost.cache_bytes(prompt + new - 1, batch),
        draft=cycles[-1].draft if cycles else None,
        burst=predict_burst(cost, batch, prompt),
        first_token=first_token,
        per_token=per_token,
        rate=_estimate_rate(batch * new, first_token, per_token, new - 1),
        uniform_time_per_output_token=uniform,
    )


class Cycle(NamedTuple):
    """A step after the first token, and the step that drafts a token for it; None if nothing is drafted."""

    check: Step
    draft: Step | None
    #: How many tokens are drafted.
    drafted: int


def make_cycle(cost: StepCost, batch: int, cached: int, speculation: Speculation) -> Cycle:
    """Return the step that makes the next tokens of so many sequences, after so many."""
    drafted = speculation.count_drafted(cached, cost.facts.sizes.longest_context)
    check = cost(batch, 1 + drafted, cached, 1 + drafted)
    return Cycle(check, speculation.draft(batch, cached) if drafted else None, drafted)


def _list_cycles(cost: StepCost, batch: int, prompt: int, new: int, speculation: Speculation) -> list[Cycle]:
    """Return the steps after the first token of each prompt."""
    return [make_cycle(cost, batch, prompt + index, speculation) for index in range(new - 1)]


def _average_seconds(cycles: Iterable[Cycle], speculation: Speculation) -> float | None:
    """Return the mean seconds of a token; None if one is not known, or for no step.

    Tokens are drafted one after the other, then all are checked.
    """
    durations = []
    for check, draft, drafted in cycles:
        drafting = 0.0 if draft is None else draft.seconds
        if check.seconds is None or drafting is None:
            return None
        durations.append((check.seconds + drafting * drafted) / speculation.count_tokens(drafted))
    return sum(durations) / len(durations) if durations else None


def _estimate_later(cost: StepCost, batch: int, prompt: int, new: int) -> Corrected | None:
    """Return the mean estimated seconds of a later token, over steps that are spread from the first to the last."""
    count = new - 1
    indices: Sequence[int] = range(count)
    if count > SAMPLED:
        indices = [round(index * (count - 1) / (SAMPLED - 1)) for index in range(SAMPLED)]
    estimates = [cost.estimate(batch, 1, prompt + index) for index in indices]
    present = [estimate for estimate in estimates if estimate is not None]
    return Corrected(*map(mean, zip(*present, strict=True))) if present else None


def _estimate_rate(tokens: int, first: Corrected | None, later: Corrected | None, steps: int) -> Corrected | None:
    """Return so many tokens over the first and all later steps; the longest times have the lowest rate."""
    if first is None or (later is None and steps):
        return None
    middle, low, high = (
        tokens / (of_first + steps * of_later) for of_first, of_later in zip(first, later or (0, 0, 0), strict=True)
    )
    return Corrected(middle, high, low)


def _divide(amount: float, durations: Sequence[float | None]) -> float | None:
    """Return an amount over the sum of durations; None if one of them is not known."""
    present = [seconds for seconds in durations if seconds is not None]
    return amount / sum(present) if len(present) == len(durations) and any(present) else None
