"""Excerpts of a record: the operators of a branch or of a turn of a loop, recorded apart, then put back or dropped.

The peak of the record then lies between two ends, because it is not known which branches are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from profilerkit.trace.bounds import Branch, Choice, PeakSpread
from profilerkit.trace.records import OpRecord

from ..compat.modes import dispatch_modes

if TYPE_CHECKING:
    from .pass_record import PassRecord
    from .recorder import Recorder

__all__ = ["Excerpt", "Peaks", "Stretch", "find_peaks", "measure_spread", "record_apart", "record_call", "record_into"]


@dataclass(frozen=True)
class Excerpt:
    """The operators of a call, removed from the record.

    Attributes:
        base: The bytes alive at its beginning.
        stretches: Counted from the first of its operators.
        operator_macs: See `PassRecord.operator_macs`.
    """

    operators: list[OpRecord]
    live_bytes: list[int]
    base: int
    uncounted: Counter[str]
    unsized: Counter[str]
    choices: list[Choice]
    stretches: list[Stretch]
    operator_macs: int

    @property
    def macs(self) -> int:
        """The multiply-accumulates of its operators."""
        return sum(record.macs for record in self.operators)

    @property
    def flops(self) -> int:
        """The floating-point operations of its operators."""
        return sum(record.flops for record in self.operators)

    def find_peaks(self) -> Peaks:
        """Return the ends of the peak in it, above the bytes alive at its beginning."""
        low, high = find_peaks(self.live_bytes, self.base, self.stretches)
        return Peaks(low - self.base, high - self.base)

    def make_branch(self) -> Branch:
        """Return it as one side of a choice, with the choices inside it."""
        return Branch.of(((record.layer, record.macs, record.flops) for record in self.operators), self.choices)

    def put_back(self, record: PassRecord, base: int, peaks: Peaks, reason: str) -> None:
        """Add it to the record again, as if ``base`` bytes had been alive at its beginning.

        Its peak may be anywhere between these peaks above ``base``, for a reason.
        """
        start = len(record.operators)
        record.operators += self.operators
        record.live_bytes += [alive - self.base + base for alive in self.live_bytes]
        record.uncounted.update(self.uncounted)
        record.unsized.update(self.unsized)
        record.operator_macs += self.operator_macs
        whole = Peaks(base + peaks.low, base + peaks.high)
        record.stretches.append(Stretch(start, len(record.operators), whole, reason))


def record_apart(record: PassRecord, call: Callable[[], Any]) -> tuple[Excerpt, Any]:
    """Call a function; return the excerpt that it added to the record, removed from the record, and its result."""
    start, base = len(record.operators), record.live.total
    uncounted, unsized, all_macs = record.uncounted.copy(), record.unsized.copy(), record.operator_macs
    first_choice, first_stretch = len(record.choices), len(record.stretches)
    try:
        result = call()
    finally:  # after an error, nothing of it stays on the record
        excerpt = Excerpt(
            operators=record.operators[start:],
            live_bytes=record.live_bytes[start:],
            base=base,
            uncounted=record.uncounted - uncounted,
            unsized=record.unsized - unsized,
            choices=record.choices[first_choice:],
            stretches=[stretch.shift(-start) for stretch in record.stretches[first_stretch:]],
            operator_macs=record.operator_macs - all_macs,
        )
        del record.operators[start:], record.live_bytes[start:]
        del record.choices[first_choice:], record.stretches[first_stretch:]
        for counter, before in ((record.uncounted, uncounted), (record.unsized, unsized)):
            counter.clear()
            counter.update(before)
        record.operator_macs = all_macs
    return excerpt, result


def record_call(recorder: Recorder, function: Callable[..., Any], operands: Iterable[Any]) -> tuple[Excerpt, Any]:
    """Call a function with the recorder on; return its excerpt, removed from the record, and its result."""

    def call() -> Any:
        with record_into(recorder):
            return function(*operands)

    return record_apart(recorder, call)


def record_into(recorder: Recorder) -> AbstractContextManager[Any]:
    """Have a recorder record, where it does not already."""
    is_active = any(mode is recorder for mode in dispatch_modes.list())
    return nullcontext() if is_active else recorder


# Peaks ----------------------------------------------------------------------------------------------------------------


class Peaks(NamedTuple):
    """The least and the most bytes that a peak may have."""

    low: int
    high: int


@dataclass(frozen=True)
class Stretch:
    """A part of a timeline, [start, end), that depends on a branch: its peak lies between ``peaks``."""

    start: int
    end: int
    peaks: Peaks
    reason: str

    def shift(self, by: int) -> Stretch:
        """Return the stretch of a timeline to which values have been added in front, or from which some are taken."""
        return replace(self, start=self.start + by, end=self.end + by)


def find_peaks(live_bytes: Sequence[int], base: int, stretches: Sequence[Stretch]) -> Peaks:
    """Return the ends of the peak of a timeline that begins with ``base`` bytes; ``stretches`` do not overlap."""
    inside = {index for stretch in stretches for index in range(stretch.start, stretch.end)}
    outside = [alive for index, alive in enumerate(live_bytes) if index not in inside] if inside else live_bytes
    always = max((base, *outside))
    return Peaks(
        low=max((always, *(stretch.peaks.low for stretch in stretches))),
        high=max((always, *(stretch.peaks.high for stretch in stretches))),
    )


def measure_spread(live_bytes: Sequence[int], base: int, stretches: Sequence[Stretch]) -> PeakSpread:
    """Return how much the peak of a timeline may differ; ``stretches`` do not overlap.

    >>> measure_spread((5, 9, 9, 4), 2, [Stretch(1, 3, Peaks(3, 12), "a condition")])
    PeakSpread(below=4, above=3, reasons=('a condition',))
    """
    peak = max((base, *live_bytes))
    low, high = find_peaks(live_bytes, base, stretches)
    reasons = dict.fromkeys(stretch.reason for stretch in stretches if stretch.peaks.high > low)
    return PeakSpread(peak - low, high - peak, tuple(reasons))
