"""Values as people read them: titles and units of columns, counts, shares, and the two ends of a value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..piping.outcome import Completeness
from ..piping.quantity import PREFIXES, Scale, scale_value
from ..piping.titles import split_words
from ..results.report import Report, StatusRecord
from ..times.measurement import Measurement
from ..trace.bounds import Bounds, Sign
from ..trace.columns import read_bounds

__all__ = [
    "KINDS",
    "Column",
    "choose_mark",
    "find_peak_record",
    "find_peak_sign",
    "share_text",
    "split_value",
    "write_achieved",
    "write_compared_value",
    "write_count",
    "write_in_full",
    "write_interval",
    "write_row_value",
    "write_shapes",
    "write_signed_count",
]

_WORDS = {"params": "parameters", "seconds": "time"}
_SUFFIXES = (
    ("_share", "%", Scale.NONE),
    ("flops_per_second", "FLOP/s", Scale.SI),
    ("seconds", "s", Scale.TIME),
    ("macs", "MACs", Scale.SI),
    ("flops", "FLOPs", Scale.SI),
    ("bytes", "B", Scale.IEC),
    ("bytes_read", "B", Scale.IEC),
    ("bytes_written", "B", Scale.IEC),
)
#: The name of a partial value by the sign before it.
KINDS = {Sign.LOWER: "lower bound", Sign.UPPER: "upper bound", Sign.BETWEEN: "estimate", Sign.EXACT: "partial"}


class Column(NamedTuple):
    """A column's title, base unit and scale.

    >>> Column.of("own_forward_seconds")
    Column(title='Own forward time', unit='s', scale=<Scale.TIME: 'time'>)
    >>> Column.of("params_share").show(0.25)
    '25.0 %'
    """

    title: str
    unit: str
    scale: Scale

    @classmethod
    def of(cls, name: str) -> Column:
        """Return the title, unit and scale that follow from a column's name; by default a count without unit."""
        unit, scale = next(((unit, scale) for end, unit, scale in _SUFFIXES if name.endswith(end)), ("", Scale.SI))
        words = split_words(name.removesuffix("_share").replace("flops_per_second", "FLOP/s"))
        title = " ".join(_WORDS.get(word, word) for word in words)
        title = f"share of {title}" if name.endswith("_share") else title
        return cls(f"{title[:1].upper()}{title[1:]}", unit, scale)

    @property
    def in_a_sentence(self) -> str:
        """The title inside a sentence: "own forward time", "MACs"."""
        return self.title if self.title[1:2].isupper() else f"{self.title[:1].lower()}{self.title[1:]}"

    def show(self, value: Any) -> str:
        """Return a value with its unit, as people read it; nothing for None."""
        if value is None:
            return ""
        return share_text(value) if self.unit == "%" else str(scale_value(value, self.unit, self.scale))


def share_text(share: float) -> str:
    """Return a share of a whole as text, with one digit behind the point.

    >>> share_text(0.4738), share_text(0.00007), share_text(-0.00007), share_text(0)
    ('47.4 %', '<0.1 %', '>-0.1 %', '0.0 %')
    """
    if not math.isfinite(share):
        return "-"
    if 0 < abs(share) < 0.0005:  # a time may be below zero after the overhead of measuring is subtracted
        return "<0.1 %" if share > 0 else ">-0.1 %"
    return f"{100 * share:.1f} %"


def write_count(value: float | None) -> str:
    """Return a count with its prefix; "-" for none.

    >>> write_count(51_900), write_count(0)
    ('51.9 k', '-')
    """
    return str(scale_value(value, scale=Scale.SI)) if value else "-"


def write_signed_count(sign: Sign, value: float | None) -> str:
    """Return a count with the sign before it; "-" for none, and "≥ 0" if nothing of it could be counted.

    >>> write_signed_count(Sign.LOWER, 51_900), write_signed_count(Sign.LOWER, 0), write_signed_count(Sign.EXACT, 0)
    ('≥ 51.9 k', '≥ 0', '-')
    """
    return f"{sign}0" if sign and not value else f"{sign}{write_count(value)}"


def write_interval(record: StatusRecord) -> str:
    """Return the two ends behind a value that is neither of them: " [0.4 G, 2 G]", with "?" for one not known."""
    if record.sign is not Sign.BETWEEN:
        return ""
    ends = record.ends
    if ends is None or ends == Bounds():
        return ""
    low, high = (
        "?" if end is None else str(scale_value(end, record.base_unit, record.scale)) for end in (ends.low, ends.high)
    )
    return f" [{low}, {high}]"


def split_value(record: StatusRecord) -> tuple[str, str]:
    """Return the text of a value without its unit, and the unit; a bare count keeps its prefix: "51.9 k"."""
    if record.value is None:
        return "-", ""
    text, unit = record.shown, record.unit
    if unit in ("", *PREFIXES) or f" {unit}" not in text:
        unit = ""
    elif record.text_parts is None:
        text = text.replace(f" {unit}", "", 1)
    else:  # the text of a measurement has its unit more than once
        text = record.text_parts.without_unit
    return f"{record.sign}{text}{write_interval(record)}", unit


def write_compared_value(record: StatusRecord | None) -> str:
    """Return a value of a comparison; a measurement without its interval, because the ratio beside it has one."""
    if record is None:
        return "not measured"
    if record.value is None:
        return record.completeness.value
    measured = record.text_parts
    text = record.shown if measured is None else measured.without_interval
    return f"{record.sign}{text}{write_interval(record)}"


def choose_mark(record: StatusRecord | None) -> str:
    """Return the mark of a value in its report: "failed", "partial" or "noisy"; empty for one that is well known."""
    if record is None:
        return ""
    if record.completeness is not Completeness.COMPLETE:
        return "failed" if record.completeness is Completeness.FAILED else "partial"
    value = record.value
    if not isinstance(value, Measurement):
        return ""
    is_rough = value.is_range and len(value.samples) > 1  # one sample tells nothing of its noise
    return "noisy" if value.is_noisy or is_rough else ""


def write_in_full(record: StatusRecord) -> str:
    """Return a count in full, with separators; an empty text if its short form is exact, or if it is no count.

    11,689,512 is shortened to "11.69 M". "1.056 k" is exactly 1,056.
    """
    if type(record.value) is not int or record.scale is not Scale.SI:
        return ""
    digits = str(abs(record.value)).rstrip("0")
    return "" if len(digits) <= 4 else f"{record.value:,}"  # four digits are shown


def write_row_value(row: Mapping[str, Any], column: str) -> tuple[Sign, float | None]:
    """Return the sign before a count of a layer, and the number behind it.

    Of a layer that only a branch runs which is not counted this is its upper end.
    """
    value = row.get(column)
    if value is None or f"{column}_low" not in row:
        return Sign.EXACT, value
    bounds = read_bounds(row, column)
    if not value and bounds.high:
        return Sign.UPPER, bounds.high
    return bounds.sign(value), value


def write_shapes(shapes: Iterable[Sequence[int]] | None) -> str:
    """Return the shapes of tensors: "[1, 8], [1]"; an empty text for none."""
    return ", ".join(str(list(shape)) for shape in shapes or ())


def write_achieved(row: Mapping[str, Any]) -> str:
    """Return the FLOP/s that a layer achieves, with the sign of its FLOPs; nothing if they are not known."""
    rate = row.get("achieved_flops_per_second")
    return "" if rate is None else f"{write_row_value(row, 'flops')[0]}{Column.of('flops_per_second').show(rate)}"


def find_peak_record(report: Report) -> StatusRecord | None:
    """Return the metric whose value is the most bytes alive at once, with the weights or without; None without one."""
    memory = report.memory
    peaks = () if memory is None else (memory.peak_bytes(), memory.peak_bytes(include_weights=False))
    sizes = [record for record in report.statuses.values() if record.base_unit == "B"]
    return next((record for peak in peaks for record in sizes if record.value == peak), None)


def find_peak_sign(report: Report) -> Sign:
    """Return the sign before the most bytes alive at once: that of its metric, or of the bytes without a size."""
    record = find_peak_record(report)
    if record is not None:
        return record.sign
    return Sign.LOWER if report.memory is not None and report.memory.missing else Sign.EXACT
