"""What measuring adds to the time of a call, and when it is taken out."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Elapsed", "Overhead"]


@dataclass(slots=True)
class Overhead:
    """Seconds that measuring adds for each noted call, and for each hook of a node.

    A stand-in for what calls a layer reads the clock at ``|``; what it does beside that falls to two layers::

        the layer around it    .....................................
        stand-in                      ....|.................|....
        the layer itself                     ..............

    Attributes:
        inside: Between the two moments: it is added to the layer itself.
        outside: Before the first and after the second: it is added to the layer around it.
        hook: For a hook of a node, which is added to the layer of the node.
    """

    inside: float = 0.0
    outside: float = 0.0
    hook: float = 0.0

    def lower_to(self, other: Overhead) -> None:
        """Take each figure of another calibration that is smaller: a disturbance only makes them larger."""
        self.inside = min(self.inside, other.inside)
        self.outside = min(self.outside, other.outside)
        self.hook = min(self.hook, other.hook)


@dataclass(eq=False, slots=True)
class Elapsed:
    """Seconds of a call in one direction, and how often measuring added to them.

    Attributes:
        overhead: What measuring adds each time.
        seconds: The seconds as they were measured.
        calls: How often the call itself was noted in this direction; in the backward pass a checkpoint makes it again.
        inner_calls: How many calls that it made were noted.
        hooks: How many hooks of its nodes have run.
    """

    overhead: Overhead
    seconds: float = 0.0
    calls: int = 0
    inner_calls: int = 0
    hooks: int = 0

    @property
    def extra_seconds(self) -> float:
        """Seconds that measuring added, by its calibration."""
        by = self.overhead
        return self.calls * by.inside + self.inner_calls * by.outside + self.hooks * by.hook

    @property
    def is_doubtful(self) -> bool:
        """Whether measuring cannot have added as much as its calibration says: nothing would be left."""
        return 0 < self.seconds <= self.extra_seconds

    @property
    def taken_out(self) -> float:
        """Seconds of measuring that are taken out: none if they would be all."""
        return self.extra_seconds if self.extra_seconds < self.seconds else 0.0

    @property
    def own_seconds(self) -> float:
        """Seconds without those of measuring."""
        return self.seconds - self.taken_out
