"""When prompts that wait for each other have their first token: all of a batch at once, or requests at a rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError

from .step_cost import Piece, StepCost

__all__ = ["Arrivals", "Burst", "predict_arrivals", "predict_burst", "read_rate"]


@dataclass(frozen=True, slots=True)
class Burst:
    """The first tokens of prompts that arrive at once and are run in order, at most so many tokens in a pass.

    Attributes:
        batch: The prompts.
        passes: How many passes they take; those of one replica where there are several.
        first: Seconds until the first of them has its first token.
        mean: The mean over all of them.
        last: Seconds until the last of them has it.
    """

    batch: int
    passes: int
    first: float
    mean: float
    last: float


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


def read_rate(rate: Any) -> float | None:
    """Return a rate of requests; None for none. Raises `ArgumentError` for what is no number above 0."""
    if rate is None:
        return None
    if not isinstance(rate, (int, float)) or isinstance(rate, bool) or not 0 < rate < float("inf"):
        raise ArgumentError(f"rate={shown(rate)}: give the requests that arrive in a second, a number above 0")
    return float(rate)


def predict_burst(cost: StepCost, batch: int, prompt: int, most_tokens: int) -> Burst | None:
    """Return when prompts that arrive at once have their first tokens; None if a figure of the device is not known.

    A pass takes the next tokens of all prompts in their order: the rest of one and the start of the next together.
    """
    replicas = cost.layout.data
    prompts = -(-batch // replicas)
    clock, ends, passes = 0.0, [], 0
    for pieces, finished in _list_passes(prompts, prompt, cost.shared_prefix, most_tokens, replicas):
        seconds = cost.run_together(pieces).seconds
        if seconds is None:
            return None
        clock, passes = clock + seconds, passes + 1
        ends += [clock] * finished
    return Burst(batch, passes, ends[0], sum(ends) / len(ends), ends[-1])


def _list_passes(
    prompts: int, prompt: int, shared: int, most_tokens: int, replicas: int
) -> Iterator[tuple[list[Piece], int]]:
    """Yield what each pass runs, alike pieces as one, and how many prompts end in it.

    The prompts are run in order, and a pass that a prompt does not fill goes on with the next one: of three prompts of
    five tokens, with four tokens in a pass:

    >>> for pieces, finished in _list_passes(3, 5, 0, 4, 1):
    ...     print([piece.new_tokens for piece in pieces], finished)
    [4] 0
    [1, 3] 1
    [2, 2] 1
    [3] 1
    """
    most_tokens = max(most_tokens // replicas, 1)
    waiting, cached = prompts, shared
    while waiting:
        room, pieces, before = most_tokens, [], waiting
        if cached > shared:
            taken = min(room, prompt - cached)
            pieces.append(Piece(replicas, taken, cached))
            room, cached = room - taken, cached + taken
            if cached == prompt:
                waiting, cached = waiting - 1, shared
        whole = min(waiting, room // (prompt - shared)) if cached == shared else 0
        if whole:
            pieces.append(Piece(whole * replicas, prompt - shared, shared, has_inputs=True))
            room, waiting = room - whole * (prompt - shared), waiting - whole
        if room and waiting and cached == shared:
            pieces.append(Piece(replicas, room, shared, has_inputs=True))
            cached += room
        yield pieces, before - waiting


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
    replica_rate, later = rate / replicas, new - 1
    load = replica_rate * prefill

    def keeps_up(sequences: int) -> bool:
        return replica_rate * later * (decode(sequences) or 0.0) <= sequences * (1 - load)

    if later and decode(1) is None:
        return None
    per_sequence = later * (decode(most_sequences) or 0.0) / most_sequences if later else 0.0
    most_requests = replicas / (prefill + per_sequence)
    if load >= 1 or not keeps_up(most_sequences):
        return Arrivals(rate, load, None, None, None, None, most_requests)
    low, high = 0, most_sequences
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps_up(middle) else (middle, high)
    wait = load * prefill / (2 * (1 - load))
    per_token = (decode(high) or 0.0) / (1 - load) if later else None
    return Arrivals(rate, load, wait, wait + prefill, high * replicas, per_token, most_requests)
