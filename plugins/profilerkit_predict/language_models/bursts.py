"""When prompts that arrive at once have their first tokens: the passes that run them, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .step_cost import StepCost
from .steps import Piece


@dataclass(frozen=True, slots=True)
class Burst:
    """The first tokens of prompts that arrive at once and are run in order, at most so many tokens in a pass.

    Attributes:
        batch: The prompts.
        passes: How many passes they take; if there are several replicas, the passes of the one with the most prompts.
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
    Replicas share the prompts; if some have one more than the others, each kind of replica has times of its own.
    """
    replicas = cost.layout.data
    prompts, with_one_more = divmod(batch, replicas)
    most_passes, ends = 0, []
    for number, size in ((with_one_more, prompts + 1), (replicas - with_one_more, prompts)):
        if not number * size:
            continue
        passes = list(_list_passes(size, prompt, cost.shared_prefix, most_tokens, replicas))
        most_passes = max(most_passes, len(passes))
        clock = 0.0
        for pieces, prompts_ended in passes:
            seconds = cost.run_together(pieces).seconds
            if seconds is None:
                return None
            clock += seconds
            ends += [clock] * (prompts_ended * number)
    return Burst(batch, most_passes, min(ends), sum(ends) / len(ends), max(ends))


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
