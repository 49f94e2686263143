"""A step of a language model: its sequences, and its use of each resource."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from profilerkit.arguments.checks import at_least
from profilerkit.errors import ArgumentError

_COUNT, _CACHED = at_least(1), at_least(0)


class Resource(StrEnum):
    """A resource that a step keeps busy. If two bind a step equally, the first of these is named."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class StepTerm:
    """One thing that takes time in a step, on one device.

    Attributes:
        name: Its name: "experts", "cache, read", "products", "all-reduce".
        resource: The resource that it keeps busy.
        amount: Multiply-accumulates of compute, otherwise bytes.
        seconds: At the peak, the bandwidth, or the rate of the link in one direction; None if the rate is not known.
    """

    name: str
    resource: Resource
    amount: float
    seconds: float | None

    def repeat(self, times: int) -> StepTerm:
        """Return the sum of this term over so many equal steps."""
        seconds = None if self.seconds is None else self.seconds * times
        return replace(self, amount=self.amount * times, seconds=seconds)


@dataclass(frozen=True, slots=True)
class Step:
    """The cost of one step: a prefill, a chunk of a prefill, or one token for each sequence.

    Attributes:
        execution: Whose execution the numbers describe: "engine" for a serving engine.
        macs: Multiply-accumulates of all sequences.
        weight_bytes: Bytes of weights that one replica reads. For experts, `StepCost.has_uniform_routing` says how many
            are read.
        cache_read_bytes: Bytes of the cache that are read, of all sequences.
        cache_write_bytes: Bytes of the cache that are written.
        terms: The terms that take time on the busiest device.
    """

    execution: str
    macs: int
    weight_bytes: int
    cache_read_bytes: int
    cache_write_bytes: int
    terms: tuple[StepTerm, ...] = ()

    def repeat(self, times: int) -> Step:
        """Return the sum of so many equal steps, one after the other."""
        names = ("macs", "weight_bytes", "cache_read_bytes", "cache_write_bytes")
        counts = {name: getattr(self, name) * times for name in names}
        return replace(self, **counts, terms=tuple(term.repeat(times) for term in self.terms))

    @property
    def bytes(self) -> int:
        """The bytes that must be moved: the weights of one replica, and the cache of all sequences."""
        return self.weight_bytes + self.cache_read_bytes + self.cache_write_bytes

    @property
    def compute_seconds(self) -> float | None:
        """The products of a device at the peak of the dtype; None if the device's peak is not known."""
        return self._sum_seconds(Resource.COMPUTE)

    @property
    def memory_seconds(self) -> float | None:
        """The bytes of a device at the bandwidth of its memory; None if that is not known."""
        return self._sum_seconds(Resource.MEMORY)

    @property
    def link_seconds(self) -> float:
        """The bytes that a device sends to others at the rate of its link; 0 for one device.

        0 for a link of unknown rate too: the seconds of a step are a lower bound in any case.
        """
        return self._sum_seconds(Resource.LINK) or 0.0

    def _sum_seconds(self, resource: Resource) -> float | None:
        """Return the seconds of all terms of one resource together; None if the seconds of a term are not known.

        None without any term too: every step computes and reads weights, so its terms were not listed.
        """
        seconds = [term.seconds for term in self.terms if term.resource is resource]
        durations = [value for value in seconds if value is not None]
        return sum(durations) if durations and len(durations) == len(seconds) else None

    @property
    def seconds(self) -> float | None:
        """The least that the step can take; None if the seconds of compute or memory are not known.

        The resources work at the same time, so the step takes at least as long as the slowest resource.
        """
        compute, memory = self.compute_seconds, self.memory_seconds
        return None if compute is None or memory is None else max(compute, memory, self.link_seconds)

    @property
    def bound_by(self) -> Resource | None:
        """The resource that takes longest; None if the seconds are not known."""
        if self.seconds is None:
            return None
        return max(Resource, key=lambda resource: self._sum_seconds(resource) or 0.0)


class Piece(NamedTuple):
    """Some sequences of a step that are alike.

    Attributes:
        sequences: How many there are.
        new_tokens: New tokens of each.
        cached: Tokens of each that are in the cache already.
        logits: Of how many tokens of each the head makes logits.
        has_inputs: Whether the images or the sound of each are encoded in this step.
    """

    sequences: int
    new_tokens: int = 1
    cached: int = 0
    logits: int = 1
    has_inputs: bool = False

    def require_valid(self) -> None:
        """Raise `ArgumentError` for numbers that no step has."""
        _COUNT("batch", self.sequences)
        _COUNT("new_tokens", self.new_tokens)
        _CACHED("cached", self.cached)
        if _COUNT("logits", self.logits) > self.new_tokens:
            raise ArgumentError(f"logits={self.logits}: a step of {self.new_tokens} new tokens has no more of them")

    @property
    def is_decode(self) -> bool:
        """Whether these sequences generate: all new tokens have logits; in a chunk of a prompt only the last has.

        A chunk of one token costs as much as a generated token.
        """
        return self.cached > 0 and self.new_tokens == self.logits


def count_sequences(pieces: Iterable[Piece]) -> int:
    """Return how many sequences a step has."""
    return sum(piece.sequences for piece in pieces)


def count_tokens(pieces: Iterable[Piece]) -> int:
    """Return how many new tokens all sequences of a step have."""
    return sum(piece.sequences * piece.new_tokens for piece in pieces)


def has_first(pieces: Iterable[Piece]) -> bool:
    """Return whether a step has the start of a prompt, for which alone an encoder is read."""
    return any(not piece.cached for piece in pieces)
