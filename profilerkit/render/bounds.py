"""How the two ends of a value are shown: "≥ 1.2 G", "≤ 1.2 G", "~ 1.2 G [0.4 G, 2 G]"; and a count in full.

One place for every form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..piping.comparative import Comparative
from ..piping.outcome import Completeness
from ..piping.quantity import Scale, format_number, scale_value
from ..trace.bounds import Bounds, Sign

if TYPE_CHECKING:
    from ..results.report import StatusRecord

__all__ = ["KINDS", "TURNED", "in_words", "sign_of_enhancement", "write_in_full", "write_interval", "write_row_value"]

#: What a value is called by the sign before it.
KINDS = {
    Sign.LOWER: "lower bound",
    Sign.UPPER: "upper bound",
    Sign.BETWEEN: "estimate",
    Sign.EXACT: "lower bound",
}
#: The sign of a bound on a number, and that of the same bound on its inverse.
TURNED = {Sign.LOWER: Sign.UPPER, Sign.UPPER: Sign.LOWER, Sign.BETWEEN: Sign.BETWEEN, Sign.EXACT: Sign.EXACT}
_SENTENCES = {
    "lower bound": ("is a lower bound; not counted", "are lower bounds; not counted"),
    "upper bound": ("is an upper bound", "are upper bounds"),
    "estimate": ("lies between two ends", "lie between two ends"),
}


def in_words(kind: str, number: int) -> str:
    """Return the words for a number of values of a kind, before the reason; of another state the state itself."""
    return _SENTENCES[kind][number > 1] if kind in _SENTENCES else kind


def write_interval(record: StatusRecord) -> str:
    """Return the two ends behind a value that is neither of them: " [0.4 G, 2 G]", with "?" for one not known."""
    ends = record.ends
    if record.sign is not Sign.BETWEEN or ends is None or ends == Bounds():
        return ""
    low, high = (
        "?" if end is None else str(scale_value(end, record.base_unit, record.scale)) for end in (ends.low, ends.high)
    )
    return f" [{low}, {high}]"


def write_in_full(record: StatusRecord) -> str:
    """Return a count in full, with separators; nothing for one that is not rounded, and for what is no count.

    A count of 11,689,512 is shown as "11.69 M", one of 1,056 as "1.056 k", which is all of it.
    """
    if type(record.value) is not int or record.scale is not Scale.SI:
        return ""
    number = scale_value(record.value, scale=Scale.SI)
    is_whole = round(float(format_number(number.number)) * number.factor) == record.value
    return "" if is_whole else f"{record.value:,}"


def write_row_value(row: Mapping[str, Any], column: str) -> tuple[Sign, float | None]:
    """Return the sign before a count of a layer, and the number behind it.

    Of a layer that only a branch runs which is not counted this is its upper end.
    """
    value = row.get(column)
    if value is None or f"{column}_low" not in row:
        return Sign.EXACT, value
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    if not value:
        return (Sign.UPPER, high) if high else (Sign.EXACT, value)
    return Bounds(low, high).sign(value), value


def sign_of_enhancement(reference: StatusRecord, other: StatusRecord) -> Sign:
    """Return on which side of the truth an enhancement lies where one of its two values is partial."""
    if all(record.completeness is not Completeness.PARTIAL for record in (reference, other)):
        return Sign.EXACT
    grows_with_reference = reference.comparative is Comparative.RECIPROCAL
    signs = {
        reference.sign if grows_with_reference else TURNED[reference.sign],
        TURNED[other.sign] if grows_with_reference else other.sign,
    } - {Sign.EXACT}
    return signs.pop() if len(signs) == 1 else Sign.BETWEEN
