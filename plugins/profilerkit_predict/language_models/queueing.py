"""When requests have their first tokens: prompts that arrive at once, and requests that arrive at a rate."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from profilerkit.arguments.checks import inside

from .step_cost import StepCost
from .steps import Piece


@dataclass(frozen=True, slots=True)
class Burst:
    """The first tokens of prompts that arrive at once and are run in order, at most so many tokens in a pass.

    Attributes:
        batch: The prompts.
        passes: How many passes they take; if there are several replicas, the passes of one.
        first: Seconds until the first prompt has its first token.
        mean: The mean of these seconds over all prompts.
        last: Seconds until the last prompt has its first token.
    """

    batch: int
    passes: int
    first: float
    mean: float
    last: float


class _Pass(NamedTuple):
    """The pieces of one pass, equal pieces joined, and how many prompts of a replica end in it."""

    pieces: list[Piece]
    prompts_ended: int


def predict_burst(cost: StepCost, batch: int, prompt: int, most_tokens: int) -> Burst | None:
    """Return when prompts that arrive at once have their first tokens; None if a figure of the device is not known.

    A pass takes the next tokens of all prompts in their order: the rest of one and the start of the next together.
    """
    replicas = cost.layout.data
    passes = list(_list_passes(-(-batch // replicas), prompt, cost.shared_prefix, most_tokens, replicas))
    clock, ends = 0.0, []
    for pieces, prompts_ended in passes:
        seconds = cost.run_together(pieces).seconds
        if seconds is None:
            return None
        clock += seconds
        ends += [clock] * prompts_ended
    return Burst(batch, len(passes), ends[0], sum(ends) / len(ends), ends[-1])


def _list_passes(prompts: int, prompt: int, shared: int, most_tokens: int, replicas: int) -> Iterator[_Pass]:
    """Yield the passes of so many prompts, which are alike; ``shared`` tokens of each are in the cache already.

    The tokens of all prompts, one prompt behind the other, are cut into passes as long as the replica's share of
    ``most_tokens``. Of three prompts of five tokens, with four tokens in a pass:

    >>> for pieces, prompts_ended in _list_passes(3, 5, 0, 4, 1):
    ...     print([piece.new_tokens for piece in pieces], prompts_ended)
    [4] 0
    [1, 3] 1
    [2, 2] 1
    [3] 1
    """
    length = prompt - shared
    in_pass, total = max(most_tokens // replicas, 1), prompts * length
    for start in range(0, total, in_pass):
        end = min(start + in_pass, total)
        pieces = _cut_pieces(start, end, length, shared, replicas)
        yield _Pass(pieces, prompts_ended=end // length - start // length)


def _cut_pieces(start: int, end: int, length: int, shared: int, replicas: int) -> list[Piece]:
    """Return the pieces between two tokens: the rest of a prompt, whole prompts, the start of the next prompt."""
    pieces = []
    done = start % length
    if done:
        rest = min(length - done, end - start)
        pieces.append(Piece(replicas, rest, shared + done))
        start += rest
    whole, begun = divmod(end - start, length)
    if whole:
        pieces.append(Piece(whole * replicas, length, shared, has_inputs=True))
    if begun:
        pieces.append(Piece(replicas, begun, shared, has_inputs=True))
    return pieces


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
    rate: float,
    prefill: float,
    new: int,
    decode: Callable[[int], float | None],
    most_sequences: int,
    replicas: int,
    drafting: float = 0.0,
) -> Arrivals | None:
    """Return the waiting times of requests at a rate: a queue with random arrivals and one service time for all.

    The mean wait is Pollaczek and Khinchine's for such a queue (M/D/1), ``load * service / (2 * (1 - load))``.
    The rest of the time decodes: with ``b`` sequences each of which gets ``new - 1`` later tokens, as many requests end
    as arrive if ``rate * (new - 1) * decode(b) = b * (1 - load)``.

    The service is ``prefill``, the seconds of a prompt, and ``drafting``, those of the drafters that read it after its
    first token. ``decode`` returns the seconds of a later token of each of so many sequences of a replica, or None if
    they are not known; ``most_sequences`` fit in a replica. Replicas share requests evenly.
    """
    replica_rate, service = rate / replicas, prefill + drafting
    later = new - 1
    load = replica_rate * service
    if later and decode(1) is None:
        return None

    def find_decode_seconds(sequences: int) -> float:
        """Return the seconds of all later tokens of each of so many sequences."""
        return later * (decode(sequences) or 0.0) if later else 0.0

    def keeps_up(sequences: int) -> bool:
        return replica_rate * find_decode_seconds(sequences) <= sequences * (1 - load)

    most_requests = replicas / (service + find_decode_seconds(most_sequences) / most_sequences)
    if load >= 1 or not keeps_up(most_sequences):
        return Arrivals(rate, load, None, None, None, None, most_requests)
    sequences = 1 + bisect_left(range(1, most_sequences + 1), True, key=keeps_up)  # the fewest that keep up
    wait = load * service / (2 * (1 - load))
    per_token = (decode(sequences) or 0.0) / (1 - load) if later else None
    return Arrivals(rate, load, wait, wait + prefill, sequences * replicas, per_token, most_requests)
