"""The two ends of a count: the numbers between which it lies if not everything that decides it is known.

Work without a formula makes a count a lower bound. A branch that is counted by its dearer side makes it an upper bound.
A count may have both ends. A loop that is counted once may also run never or more often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .records import ModelTrace

__all__ = [
    "UNKNOWN_ENDS",
    "WORK",
    "Bounds",
    "Branch",
    "Choice",
    "PeakSpread",
    "Sign",
    "WorkSpread",
    "compute_spread",
    "find_bounds",
    "list_layer_bounds",
    "read_bounds",
    "without",
]

#: The columns of work that a branch tells, in order.
WORK = ("macs", "flops")
#: Returns whether the layer of a path is counted: it is a certain layer, or inside of it.
_IsInside: TypeAlias = Callable[[str], bool]


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


class WorkSpread(NamedTuple):
    """How much less and how much more work than counted there may be; None if unknown."""

    below: int | None
    above: int | None


def compute_spread(choices: Iterable[Choice], column: str, is_inside: _IsInside) -> WorkSpread:
    """Return how much less and how much more work than counted the layers may do whose path ``is_inside``.

    ``column`` is one of `WORK`. Choices are independent of each other, so that their ends add up.
    """
    below = above = 0
    for choice in choices:
        sides = [_measure_side(branch, column, is_inside) for branch in choice.branches]
        is_open = choice.decides_more and any(side.most for side in sides)
        if is_open or not all(side.has_ends for side in sides):
            return WorkSpread(None, None)
        counted = sides[choice.counted].counted
        below += counted - min(side.least for side in sides)
        above += max(side.most for side in sides) - counted
    return WorkSpread(below, above)


class _Side(NamedTuple):
    """The work of a branch as it is counted, at least and at most, and whether the last two are known."""

    counted: int
    least: int
    most: int
    has_ends: bool


def _measure_side(branch: Branch, column: str, is_inside: _IsInside) -> _Side:
    """Return the work of a branch inside some layers, with the choices inside it."""
    index = WORK.index(column)
    counted = sum(work[index] for path, work in branch.work.items() if is_inside(path))
    below, above = compute_spread(branch.choices, column, is_inside)
    has_ends = below is not None and above is not None
    return _Side(counted, counted - (below or 0), counted + (above or 0), has_ends)


def without(choices: Iterable[Choice], gone: set[str]) -> tuple[Choice, ...]:
    """Return the choices without the work of layers that are left out."""
    return tuple(
        Choice(
            tuple(
                Branch(
                    {path: work for path, work in branch.work.items() if path not in gone},
                    without(branch.choices, gone),
                )
                for branch in choice.branches
            ),
            choice.counted,
            choice.reason,
            choice.decides_more,
        )
        for choice in choices
    )


def find_bounds(trace: ModelTrace, column: str, path: str = "") -> Bounds:
    """Return the two ends of a column for a layer with the layers inside it; the path "" is the model.

    The upper end is unknown if an operator inside has no formula, or runs an unknown number of times.
    """
    if column not in WORK:
        raise ValueError(f"column={column!r}: bounds are known of {' and '.join(map(repr, WORK))}")
    is_inside = _make_inside_test(path)
    counted = sum(getattr(op, column) for op in trace.operators if is_inside(op.layer))
    return _bound_count(trace, column, counted, is_inside, _make_gap_test(trace))


def read_bounds(row: Mapping[str, Any], column: str) -> Bounds:
    """Return the two ends of a column of a layer's row; both are the number itself if the row has no ends.

    >>> read_bounds({"macs": 4, "macs_low": 4, "macs_high": None}, "macs"), read_bounds({"macs": 4}, "macs")
    (Bounds(low=4, high=None), Bounds(low=4, high=4))
    """
    value = row.get(column)
    return Bounds(row.get(f"{column}_low", value), row.get(f"{column}_high", value))


def list_layer_bounds(trace: ModelTrace, totals: dict[str, dict[str, int]]) -> dict[str, dict[str, float | None]]:
    """Return the columns ``macs_low``, ``own_macs_high`` and so on by path; ``totals`` are the counts of each layer."""
    has_gap = _make_gap_test(trace)
    rows: dict[str, dict[str, float | None]] = {}
    for path, counted in totals.items():
        row = rows[path] = {}
        for part, is_inside in (("", _make_inside_test(path)), ("own_", path.__eq__)):
            for column in WORK:
                bounds = _bound_count(trace, column, counted[f"{part}{column}"], is_inside, has_gap)
                row |= {f"{part}{column}_low": bounds.low, f"{part}{column}_high": bounds.high}
    return rows


def _bound_count(
    trace: ModelTrace, column: str, counted: int, is_inside: _IsInside, has_gap: Callable[[_IsInside], bool]
) -> Bounds:
    """Return the two ends of a count of some layers; a gap in these layers makes the upper end unknown."""
    below, above = compute_spread(trace.choices, column, is_inside)
    low = None if below is None else counted - below
    return Bounds(low, None if above is None or has_gap(is_inside) else counted + above)


def _make_gap_test(trace: ModelTrace) -> Callable[[_IsInside], bool]:
    """Return a function that says whether something in some layers is not counted.

    It returns True for all layers if there is uncounted work whose layer no operator's record tells.
    """
    incomplete = [op for op in trace.operators if op.missing]
    if trace.uncounted.keys() - {op.missing for op in incomplete}:
        return lambda is_inside: True
    layers = {op.layer for op in incomplete}
    return lambda is_inside: any(map(is_inside, layers))


def _make_inside_test(path: str) -> _IsInside:
    """Return a function that says whether a layer has this path, or is inside the layer with this path."""
    if not path:
        return lambda layer: True
    within = f"{path}."
    return lambda layer: layer == path or layer.startswith(within)
