"""Titles and units of the columns of a layer table, derived from their names."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..piping.quantity import Scale, scale_value
from ..piping.titles import split_words

__all__ = ["Column", "share_text", "write_count"]

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

    >>> share_text(0.4738), share_text(0.00007), share_text(0)
    ('47.4 %', '<0.1 %', '0.0 %')
    """
    if not math.isfinite(share):
        return "-"
    return "<0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def write_count(value: float | None) -> str:
    """Return a count with its prefix; "-" for none.

    >>> write_count(51_900), write_count(0)
    ('51.9 k', '-')
    """
    return str(scale_value(value, scale=Scale.SI)) if value else "-"
