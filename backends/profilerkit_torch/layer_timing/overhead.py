"""What measuring adds to the time of a call, and when it is taken out."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Elapsed", "Overhead"]


@dataclass(slots=True)
class Overhead:
    """Seconds that measuring adds: to a call itself, to the one around it, and for a node's hook."""

    inside: float = 0.0
    outside: float = 0.0
    hook: float = 0.0

    def lower_to(self, other: Overhead) -> None:
        """Take each figure of another calibration that is smaller."""
        self.inside = min(self.inside, other.inside)
        self.outside = min(self.outside, other.outside)
        self.hook = min(self.hook, other.hook)


@dataclass(eq=False, slots=True)
class Elapsed:
    """Seconds of a call in one direction, and how often measuring added to them."""

    overhead: Overhead
    seconds: float = 0.0
    inside: int = 0
    outside: int = 0
    hooks: int = 0

    @property
    def extra_seconds(self) -> float:
        """Seconds that measuring added, by its calibration."""
        by = self.overhead
        return self.inside * by.inside + self.outside * by.outside + self.hooks * by.hook

    @property
    def is_doubtful(self) -> bool:
        """Whether measuring cannot have added as much as its calibration says: nothing would be left."""
        return 0 < self.seconds <= self.extra_seconds

    @property
    def taken_out(self) -> float:
        """Seconds of measuring that are taken out: none if they would be all."""
        return self.extra_seconds if self.seconds > self.extra_seconds else 0.0

    @property
    def own_seconds(self) -> float:
        """Seconds without those of measuring."""
        return self.seconds - self.taken_out
