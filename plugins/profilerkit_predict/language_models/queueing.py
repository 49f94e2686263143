"""How long requests wait that arrive at a rate: a queue for the prompts, beside sequences that are decoded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from profilerkit.arguments.checks import inside

#: The check of a rate of requests.
RATE = inside(0, float("inf"), "the requests that arrive in a second, a number above 0").or_none()


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests that arrive at random at a mean rate, one after the other through the prefill of each replica.

    Prompts and steps that decode take turns. The times are bounds of that schedule, and not of all: passes that have
    several short prompts, or chunks of prompts beside sequences that decode, may serve more.

    Attributes:
        rate: Requests in a second, of all replicas.
        load: The share of the time that a replica spends on prompts, which its drafters read too.
        wait: The mean seconds that a prompt waits; None if more arrive than can be served.
        first_token: The mean seconds until the first token: wait and prefill; None as above.
        sequences: How many sequences are decoded at the same time, at least; None as above.
        per_token: Seconds of a later token between which prompts are run; None as above.
        most_requests: The most requests in a second that can be served, with no more sequences than fit.
    """

    rate: float
    load: float
    wait: float | None
    first_token: float | None
    sequences: int | None
    per_token: float | None
    most_requests: float


@dataclass(frozen=True, slots=True)
class Replica:
    """The time that one replica takes for its requests.

    A step of several stages of a pipeline runs as many groups of sequences, and takes the time of the largest group. It
    is full if all groups are equal.

    Attributes:
        prefill: Seconds of a prompt.
        later_tokens: How many tokens of a request are decoded: all but the first.
        decode: Returns the seconds of a later token of each of so many sequences. Of two full steps, the larger must
            not take more for each of its sequences.
        most_sequences: How many sequences fit.
        drafting: Seconds of the drafters that read a prompt after its first token.
        stages: The stages of the pipeline.
    """

    prefill: float
    later_tokens: int
    decode: Callable[[int], float]
    most_sequences: int
    drafting: float = 0.0
    stages: int = 1

    @property
    def service(self) -> float:
        """The seconds of a prompt and of its drafters."""
        return self.prefill + self.drafting

    @property
    def most_requests(self) -> float:
        """The most requests in a second: with the largest full step, or with as many sequences as fit."""
        sizes = (*self._full_steps[-1:], self.most_sequences)
        return max(map(self.count_requests, sizes))

    @property
    def _full_steps(self) -> range:
        """The sequences of each full step that fits."""
        return range(self.stages, self.most_sequences + 1, self.stages)

    def count_requests(self, sequences: int) -> float:
        """Return the most requests in a second with so many sequences.

        Each request takes its service, and of the steps that decode it the share of one sequence.
        """
        steps = self.later_tokens * self.decode(sequences) if self.later_tokens else 0.0
        return 1 / (self.service + steps / sequences)

    def find_fewest(self, rate: float) -> int | None:
        """Return the fewest sequences with which so many requests in a second are served; None if too few fit.

        A step that is not full may serve fewer requests than a smaller one that is. So the full steps are searched
        first, and then the numbers of sequences between the first that suffices and the one before it.
        """
        too_small = self.stages * bisect_left(self._full_steps, rate, key=self.count_requests)
        larger = range(too_small + 1, min(too_small + self.stages, self.most_sequences) + 1)
        return next((sequences for sequences in larger if self.count_requests(sequences) >= rate), None)


def predict_arrivals(rate: float, replica: Replica, replicas: int = 1) -> Arrivals:
    """Return the waiting times of requests at a rate: a queue with random arrivals and one service time for all.

    Replicas share the requests evenly. The mean wait is Pollaczek and Khinchine's for such a queue (M/D/1),
    ``load * service / (2 * (1 - load))``. The rest of the time decodes: ``b`` sequences suffice for the rate of a
    replica if ``rate * later_tokens * decode(b) <= b * (1 - load)``.
    """
    load = rate / replicas * replica.service
    most_requests = replicas * replica.most_requests
    sequences = replica.find_fewest(rate / replicas) if load < 1 else None
    if sequences is None:
        return Arrivals(rate, load, None, None, None, None, most_requests)
    wait = load * replica.service / (2 * (1 - load))
    per_token = replica.decode(sequences) / (1 - load) if replica.later_tokens else None
    return Arrivals(rate, load, wait, wait + replica.prefill, sequences * replicas, per_token, most_requests)
