"""How long prompts wait for each other: prompts that arrive at once, and requests that arrive at a rate."""

from __future__ import annotations

from dataclasses import dataclass

from profilerkit.arguments.checks import inside

from .speculation import Speculation
from .step_cost import StepCost

#: The check of a rate of requests.
RATE = inside(0, float("inf"), "the requests that arrive in a second, a number above 0").or_none()
#: Of how many prompts that arrive at once the times are computed.
_MOST_SIZES = 256


@dataclass(frozen=True, slots=True)
class Burst:
    """The first tokens of prompts that arrive at once and are run in order, however they are cut into passes.

    The n-th of them has its first token no earlier than the prefill of n prompts in one pass takes.

    Attributes:
        first: Seconds until the first prompt has its first token.
        mean: The mean of these seconds over all prompts.
        last: Seconds until the last prompt has its first token.
    """

    first: float
    mean: float
    last: float


def predict_burst(cost: StepCost, batch: int, prompt: int) -> Burst | None:
    """Return when prompts that arrive at once have their first tokens; None if a figure of the device is not known."""
    own_tokens, shared = prompt - cost.shared_prefix, cost.shared_prefix
    # Of many prompts, one takes no less than the last one before it that is looked at: the mean stays a bound.
    sizes = sorted({1 + index * (batch - 1) // _MOST_SIZES for index in range(_MOST_SIZES + 1)})
    ends = [cost(size, own_tokens, shared, encodes_inputs=True).seconds for size in sizes]
    seconds = [end for end in ends if end is not None]
    if len(seconds) < len(sizes):
        return None
    numbers = [after - size for size, after in zip(sizes, [*sizes[1:], batch + 1], strict=True)]
    return Burst(
        seconds[0], sum(number * end for number, end in zip(numbers, seconds, strict=True)) / batch, seconds[-1]
    )


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests that arrive at random at a mean rate, one after the other through the prefill of each replica.

    The times are bounds of that schedule, and not of all: passes that have several short prompts, or chunks of prompts
    beside sequences that decode, may serve more.

    Attributes:
        rate: Requests in a second, of all replicas.
        load: The share of the time that a replica spends on prompts, which its drafters read too.
        wait: The mean seconds that a prompt waits; None if more arrive than can be served.
        first_token: The mean seconds until the first token: wait and prefill; None as above.
    """

    rate: float
    load: float
    wait: float | None
    first_token: float | None


def predict_arrivals(rate: float, prefill: float, drafting: float = 0.0, replicas: int = 1) -> Arrivals:
    """Return the waiting times of requests at a rate: a queue with random arrivals and one service time for all.

    The service is the prefill of a prompt and the reading of its drafters; replicas share the requests evenly. The mean
    wait is Pollaczek and Khinchine's for such a queue (M/D/1), ``load * service / (2 * (1 - load))``.

    >>> predict_arrivals(5, prefill=0.1)
    Arrivals(rate=5, load=0.5, wait=0.05, first_token=0.15000000000000002)
    """
    service = prefill + drafting
    load = rate / replicas * service
    if load >= 1:
        return Arrivals(rate, load, None, None)
    wait = load * service / (2 * (1 - load))
    return Arrivals(rate, load, wait, wait + prefill)


def predict_requests(cost: StepCost, rate: float, prompt: int, new: int, speculation: Speculation) -> Arrivals | None:
    """Return the waits of requests at a rate on a device; None if a figure of it is not known."""
    shared, replicas = cost.shared_prefix, cost.layout.data
    prefill = cost(replicas, prompt - shared, shared, encodes_inputs=True).seconds
    draft = speculation.draft_prompts(replicas, prompt - shared, shared) if new > 1 else None
    drafting = 0.0 if draft is None else draft.seconds
    return None if prefill is None or drafting is None else predict_arrivals(rate, prefill, drafting, replicas)
