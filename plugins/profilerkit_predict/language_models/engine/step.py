"""A step of a language model: its use of each resource."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


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
