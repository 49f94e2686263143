"""What one must know to compare the times of models: how they were taken, and what is known of their ratios."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..times.measurement import Measurement
from ..times.ratio import Ratio
from .grids import list_records

if TYPE_CHECKING:
    from ..results.comparison import Comparison

__all__ = ["describe_ratios"]


class _Timed(NamedTuple):
    """Another model of a comparison, with its time and the ratio of that to the reference's."""

    name: str
    time: Measurement
    ratio: Ratio


def describe_ratios(comparison: Comparison) -> Iterator[str]:
    """Yield how the times of a comparison were taken, what the brackets hold, and which ratios are not known well.

    All of it is read from the first time that the reference has more than one sample of.
    """
    records = [one for one in list_records(comparison.reference, Measurement) if len(one.value.samples) > 1]
    if not records:
        return
    record, reference = records[0], records[0].value
    others: list[_Timed] = []
    for report in comparison.others:
        time = report.statuses[record.key].value if record.key in report.statuses else None
        if isinstance(time, Measurement):
            others.append(_Timed(report.name, time, Ratio.of(reference, time)))
    if not others:
        return
    are_paired = all(reference.is_paired_with(other.time) for other in others)
    how = "measured in turn" if are_paired else "measured one after the other"
    interval = f"{100 * reference.confidence:.4g} % confidence interval"
    if all(other.ratio.is_range for other in others):
        interval = "smallest and largest value"
    yield f"Times are medians, {how}; brackets hold the {interval} of the ratio."
    if any(not (other.ratio.is_range or other.ratio.is_real) for other in others):
        yield "≈ marks a ratio whose interval holds 1: no real difference was found."
    if are_paired and any(_read_process(reference) != _read_process(other.time) for other in others):
        yield (
            "Each model was measured in a process of its own. Processes differ by some per cent even of equal models, "
            "and the interval does not show that."
        )
    for other in others:
        note = _describe_noise(other.ratio)
        if note:
            named = f" of {other.name}" if len(others) > 1 else ""
            yield f"{record.friendly_name}{named}: {note}"


def _describe_noise(ratio: Ratio) -> str:
    """Return why a ratio is not known well; empty for one that is."""
    if ratio.warning:
        return ratio.warning
    return (
        f"too few samples for an interval of the ratio: brackets hold its {ratio.interval_name}"
        if ratio.is_range
        else ""
    )


def _read_process(time: Measurement) -> str:
    return "" if time.conditions is None else time.conditions.process
