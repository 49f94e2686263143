"""What stands out in a report, in sentences: each names the layer and the figures that it is read from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..trace.cost_parts import Part
from .columns import Column, share_text

if TYPE_CHECKING:
    from ..results.report import Report
    from ..trace.records import MemoryTimeline

__all__ = ["list_advice"]

#: A part stands out if it has so much of one thing ...
_MUCH = 0.2
#: ... and less than this part of that share of another.
_LITTLE = 0.1
#: What a part has much of, and what it has little of beside it.
_PAIRS = (("forward_seconds", "macs"), ("params", "macs"), ("macs", "forward_seconds"))


def list_advice(report: Report, model: Part) -> Iterator[str]:
    """Yield what stands out: parts that cost much of one thing and little of another, and where memory is highest.

    Args:
        report: The report.
        model: Its layers as `profilerkit.trace.cost_parts.divide` divides them.
    """
    for much, little in _PAIRS:
        for path, part in _list_closed(model, model.label):
            share, other = (_compute_share(part, model, column) for column in (much, little))
            if share is not None and other is not None and share >= _MUCH and other < _LITTLE * share:
                yield f"{path} has {_write(share, much)} and {_write(other, little)}."
    if report.memory is not None and report.operators is not None:
        yield from _describe_peak(report.memory, report)


def _list_closed(part: Part, path: str) -> Iterator[tuple[str, Part]]:
    """Yield the layers of a part that are divided no further, with their paths."""
    for inner in part.inside:
        whole = f"{path}.{inner.label}" if path else inner.label
        if inner.inside:
            yield from _list_closed(inner, whole)
        elif inner.kind == "layers":
            yield whole, inner


def _compute_share(part: Part, model: Part, column: str) -> float | None:
    """Return what a part has of a column; None where the column or any bound of it is not known."""
    whole = model.sum(column)
    if not whole or any(f"{column}_low" in row for row in model.rows):
        return None
    return (part.sum(column) or 0) / whole


def _write(share: float, column: str) -> str:
    return f"{share_text(share)} of the {Column.of(column).in_a_sentence}"


def _describe_peak(memory: MemoryTimeline, report: Report) -> Iterator[str]:
    """Yield after which operator the metric that is the peak of memory is reached, and what weights have of it."""
    index, peak = memory.peak_index, memory.peak_bytes()
    records = [one for one in report.statuses.values() if one.base_unit == "B" and one.value == peak]
    if index is None or memory.missing or not records:
        return
    row = (report.operators or ())[index]
    where = f" in {row['layer']}" if row["layer"] else ""
    share = share_text(memory.weight_bytes / peak)
    yield f"{records[0].friendly_name}: highest after {row['operator']}{where}; weights are {share} of it."
