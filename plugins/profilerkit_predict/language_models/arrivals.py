"""When requests that arrive at a rate have their first token, and how many can be served."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from profilerkit.arguments.checks import inside

__all__ = ["RATE", "Arrivals", "predict_arrivals"]

#: The check of a rate of requests.
RATE = inside(0, float("inf"), "the requests that arrive in a second, a number above 0").or_none()


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests that arrive at random at a mean rate, one after the other through the prefill of each replica.

    Prompts and steps that decode take turns. The times are bounds of that schedule, and not of all: passes that have
    several short prompts, or chunks of prompts beside sequences that decode, may serve more.

    Attributes:
        rate: Requests in a second, of all replicas.
        load: The share of the time that a replica spends on prompts.
        wait: The mean seconds that a prompt waits; None if more arrive than can be served.
        first_token: The mean seconds until the first token: wait and prefill; None as above.
        sequences: How many sequences are decoded at the same time, at least; None as above.
        per_token: Seconds of a later token between which prompts are run; None as above.
        most_requests: The most requests in a second that can be served, with as many sequences as fit.
    """

    rate: float
    load: float
    wait: float | None
    first_token: float | None
    sequences: int | None
    per_token: float | None
    most_requests: float


def predict_arrivals(
    rate: float, prefill: float, new: int, decode: Callable[[int], float | None], most_sequences: int, replicas: int
) -> Arrivals | None:
    """Return what requests at a rate find: a queue with arrivals at random and one time of service for all.

    The mean wait is that of Pollaczek and Khinchine for such a queue (M/D/1), ``load * prefill / (2 * (1 - load))``.
    The rest of the time decodes: with ``b`` sequences each of which gets ``new - 1`` later tokens, as many requests end
    as arrive if ``rate * (new - 1) * decode(b) = b * (1 - load)``.

    Args:
        rate: Requests in a second.
        prefill: Seconds of the prefill of one prompt.
        new: Tokens that each request gets.
        decode: Returns the seconds of a later token of each of so many sequences of a replica; None if not known.
        most_sequences: How many sequences fit in the memory of a replica.
        replicas: Replicas, which share the requests evenly.
    """
    replica_rate = rate / replicas
    later = new - 1
    load = replica_rate * prefill
    if later and decode(1) is None:
        return None

    def find_decode_seconds(sequences: int) -> float:
        """Return the seconds of all later tokens of each of so many sequences."""
        return later * (decode(sequences) or 0.0) if later else 0.0

    def keeps_up(sequences: int) -> bool:
        return replica_rate * find_decode_seconds(sequences) <= sequences * (1 - load)

    most_requests = replicas / (prefill + find_decode_seconds(most_sequences) / most_sequences)
    if load >= 1 or not keeps_up(most_sequences):
        return Arrivals(rate, load, None, None, None, None, most_requests)
    sequences = 1 + bisect_left(range(1, most_sequences + 1), True, key=keeps_up)  # the fewest that keep up
    wait = load * prefill / (2 * (1 - load))
    per_token = (decode(sequences) or 0.0) / (1 - load) if later else None
    return Arrivals(rate, load, wait, wait + prefill, sequences * replicas, per_token, most_requests)
