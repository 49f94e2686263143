"""A language model on a device at one batch size: bounds of its times, and of its tokens per second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from .bursts import Burst
from .estimating import Estimate, add_up, average, compute_rate, divide
from .queueing import Arrivals
from .speculation import NOTHING_DRAFTED, Speculation
from .step_cost import StepCost
from .steps import Piece, Step


@dataclass(frozen=True, slots=True)
class Serving:
    """The predictions for one batch size; all of the execution model "engine".

    Attributes:
        batch: Sequences.
        prompt: Tokens of each prompt.
        new: Tokens that are generated for each.
        prefill: The step over the prompts, without their shared prefix.
        decode: The last step, with the longest cache; with speculation it checks drafted tokens too.
        time_to_first_token: Seconds of the prefill; None if a figure of the device is not known.
        time_per_output_token: The mean seconds of a later token; None also if there is none.
        decode_tokens_per_second: Tokens of all sequences in a second of decoding.
        tokens_per_second: New tokens of all sequences over the whole time.
        cache_bytes: Bytes of the paged cache at the end.
        draft: The step that drafts one token for each sequence, with the longest cache; of several stages for each
            sequence that is in the last one. None if it is not counted.
        burst: The first tokens of the prompts, run in order in passes of at most so many tokens; None if not known.
        arrivals: The waits of requests at a rate; None without a rate, or if a figure of the device is not known.
        first_token: Seconds of the prefill between two ends; None if not even the bound is known.
        per_token: The mean seconds of a later token between two ends, over at most `SAMPLED` of them.
        decode_rate: Tokens of all sequences in a second of decoding, between two ends.
        rate: New tokens of all sequences over the whole time, between two ends.
        uniform_time_per_output_token: The same as ``time_per_output_token`` if tokens choose experts at random; None
            for a model without experts.
    """

    batch: int
    prompt: int
    new: int
    prefill: Step
    decode: Step
    time_to_first_token: float | None
    time_per_output_token: float | None
    decode_tokens_per_second: float | None
    tokens_per_second: float | None
    cache_bytes: int
    draft: Step | None = None
    burst: Burst | None = None
    arrivals: Arrivals | None = None
    first_token: Estimate | None = None
    per_token: Estimate | None = None
    decode_rate: Estimate | None = None
    rate: Estimate | None = None
    uniform_time_per_output_token: float | None = None


#: Of how many steps the time of a later one is the mean, for estimates.
SAMPLED = 9


def predict_serving(
    cost: StepCost, batch: int, prompt: int, new: int, speculation: Speculation | None = None
) -> Serving:
    """Return the predictions for a batch of prompts, each of which gets so many new tokens.

    The prefill makes the first token, each later step one more: ``new - 1`` steps. With speculation a step also checks
    the drafted tokens; its time and the time of the drafter are divided by the tokens that it makes on average. The
    drafter reads the prompts too, after the first token.
    """
    decoding = _Decoding(cost, batch, prompt, new, speculation or NOTHING_DRAFTED)
    cycles = list(decoding.list_cycles())
    shared, own_tokens = cost.shared_prefix, prompt - cost.shared_prefix
    prefill = cost.run_together([Piece(batch, own_tokens, shared, has_inputs=True)])
    first_token = cost.estimate_step(prefill, batch, own_tokens, shared)
    later = decoding.average_seconds(cycles)
    per_token = decoding.estimate(later)
    bounds, estimates = [prefill.seconds, *[later] * len(cycles)], [first_token, *[per_token] * len(cycles)]
    drafting = decoding.speculation.draft_prompts(batch, own_tokens, shared) if cycles else None
    if drafting is not None:
        bounds.append(drafting.seconds)
        estimates.append(Estimate(None, drafting.seconds, None, cost.tier))
    return Serving(
        batch=batch,
        prompt=prompt,
        new=new,
        prefill=prefill,
        decode=cycles[-1].check if cycles else prefill,
        time_to_first_token=prefill.seconds,
        time_per_output_token=later,
        decode_tokens_per_second=divide(batch, later),
        tokens_per_second=divide(batch * new, add_up(bounds)),
        cache_bytes=cost.cache_bytes(prompt + new - 1, batch),
        draft=cycles[-1].draft if cycles else None,
        first_token=first_token,
        per_token=per_token,
        decode_rate=compute_rate(batch, [per_token]),
        rate=compute_rate(batch * new, estimates),
        uniform_time_per_output_token=decoding.average_uniform_seconds() if cost.facts.has_experts else None,
    )


def average_later_token(
    cost: StepCost, batch: int, prompt: int, new: int, speculation: Speculation | None
) -> float | None:
    """Return the mean seconds of a later token, over at most `SAMPLED` steps; None if it is not known."""
    decoding = _Decoding(cost, batch, prompt, new, speculation or NOTHING_DRAFTED)
    return decoding.average_seconds(decoding.list_cycles(_spread_indices(new - 1)))


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


class _Decoding(NamedTuple):
    """The steps of a batch of prompts after the first token of each; there are ``new - 1``."""

    cost: StepCost
    batch: int
    prompt: int
    new: int
    speculation: Speculation

    def list_cycles(self, indices: Iterable[int] | None = None) -> Iterator[Cycle]:
        """Yield the steps, or some of them by their indices."""
        for index in range(self.new - 1) if indices is None else indices:
            yield make_cycle(self.cost, self.batch, self.prompt + index, self.speculation)

    def average_seconds(self, cycles: Iterable[Cycle]) -> float | None:
        """Return the mean seconds of a token; None if one is not known, or for no step.

        Tokens are drafted one after the other, then all are checked.
        """
        durations = []
        for check, draft, drafted in cycles:
            drafting = 0.0 if draft is None else draft.seconds
            if check.seconds is None or drafting is None:
                return None
            durations.append((check.seconds + drafting * drafted) / self.speculation.count_tokens(drafted))
        return sum(durations) / len(durations) if durations else None

    def average_uniform_seconds(self) -> float | None:
        """Return the mean seconds of a token if tokens choose experts at random, those of the drafter too."""
        drafter = self.speculation.drafter and replace(self.speculation.drafter, has_uniform_routing=True)
        uniformly = self._replace(
            cost=replace(self.cost, has_uniform_routing=True), speculation=replace(self.speculation, drafter=drafter)
        )
        return uniformly.average_seconds(uniformly.list_cycles())

    def estimate(self, bound: float | None) -> Estimate | None:
        """Return the mean seconds of a token between two ends; by a data sheet, or with speculation, the bound."""
        if bound is None:
            return None
        if self.cost.calibration is None or self.speculation.draft_tokens:
            return Estimate(None, bound, None, self.cost.tier)
        estimates = (self.cost.estimate(self.batch, 1, self.prompt + index) for index in _spread_indices(self.new - 1))
        return average([estimate for estimate in estimates if estimate is not None])


def _spread_indices(count: int) -> list[int]:
    """Return at most `SAMPLED` indices below ``count``, spread evenly from the first to the last."""
    if count <= SAMPLED:
        return list(range(count))
    return [round(index * (count - 1) / (SAMPLED - 1)) for index in range(SAMPLED)]
