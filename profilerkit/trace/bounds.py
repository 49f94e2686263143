"""The two ends of a count: the numbers between which it lies if not everything that decides it is known.

Work without a formula makes a count a lower bound. A branch that is counted by its dearer side makes it an upper bound.
A count may have both ends. A loop that is counted once may also run never or more often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "UNKNOWN_ENDS",
    "Bounds",
    "Branch",
    "Choice",
    "PeakSpread",
    "Sign",
]


class Sign(StrEnum):
    """On which side of the truth a value may lie; as a text, the sign in front of the value."""

    EXACT = ""
    #: The value is a lower bound.
    LOWER = "≥ "
    #: The value is an upper bound.
    UPPER = "≤ "
    #: The value is neither of its two ends, or these are not known.
    BETWEEN = "~ "


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which numbers a value lies, both included; None for an end that is not known.

    >>> f"{Bounds(2, None).sign(2)}2, {Bounds(0, 5).sign(5)}5, {Bounds(2, 5).sign(4)}4, {Bounds(5, 5).sign(5)}5"
    '≥ 2, ≤ 5, ~ 4, 5'
    """

    low: float | None = None
    high: float | None = None

    def sign(self, value: float) -> Sign:
        """Return which end a value is."""
        is_low, is_high = self.low == value, self.high == value
        if is_low:
            return Sign.EXACT if is_high else Sign.LOWER
        return Sign.UPPER if is_high else Sign.BETWEEN

    def verdict(self, allows: Callable[[float], bool], value: float) -> bool | None:
        """Return whether every value between the ends is within a limit; None if only some values are.

        ``allows`` is a comparison with one number. An end that is not known lies at infinity. The value itself counts.
        """
        ends = (-_BEYOND if self.low is None else self.low, value, _BEYOND if self.high is None else self.high)
        answers = {bool(allows(end)) for end in ends}
        return answers.pop() if len(answers) == 1 else None


_BEYOND = float("inf")
#: The ends of a value of which neither is known.
UNKNOWN_ENDS = Bounds()


@dataclass(frozen=True, slots=True)
class Branch:
    """One side of a choice: MACs and FLOPs by the path of the layer, and the choices inside it."""

    work: Mapping[str, tuple[int, int]]
    choices: tuple[Choice, ...] = ()

    @classmethod
    def of(cls, operators: Iterable[tuple[str, int, int]], choices: Iterable[Choice] = ()) -> Branch:
        """Return the branch with these operators: the path of the layer, the MACs and the FLOPs of each.

        >>> Branch.of([("a", 2, 5), ("a", 0, 1), ("b", 0, 0)]).work
        {'a': (2, 6)}
        """
        work: dict[str, tuple[int, int]] = {}
        for path, macs, flops in operators:
            before = work.get(path, (0, 0))
            work[path] = before[0] + macs, before[1] + flops
        return cls({path: done for path, done in work.items() if any(done)}, tuple(choices))


@dataclass(frozen=True, slots=True)
class Choice:
    """A place where the model takes one of several branches, and which one is not known before it runs.

    Attributes:
        branches: The branches.
        counted: The index of the branch that is counted.
        reason: A text: the unknown fact, and the branch that is counted.
        decides_more: Whether work outside the branches depends on the choice too, such as the gradients of a training
            step: then neither end is known.
    """

    branches: tuple[Branch, ...]
    counted: int
    reason: str
    decides_more: bool = False


@dataclass(frozen=True, slots=True)
class PeakSpread:
    """How much the peak of the bytes alive may differ from the counted peak, because a branch decides.

    Attributes:
        below: How many bytes less it may be; None if unknown.
        above: How many bytes more it may be; None if unknown.
        reasons: Texts: the unknown facts, and the branches that are counted; empty if they do not change the peak.
    """

    below: int | None = 0
    above: int | None = 0
    reasons: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the peak is the counted one whichever branch is taken."""
        return self.below == self.above == 0

    def around(self, peak: float, is_open: bool = False) -> Bounds:
        """Return the two ends of a number of bytes that follows from the peak; ``is_open`` leaves out the upper one."""
        high = None if is_open or self.above is None else peak + self.above
        return Bounds(None if self.below is None else peak - self.below, high)
