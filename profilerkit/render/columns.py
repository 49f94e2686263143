"""Titles and units of the columns of a layer table, derived from their names."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..piping.quantity import Scale, scale_value
from ..piping.titles import words_of

__all__ = ["Column"]

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
    '25 %'
    """

    title: str
    unit: str
    scale: Scale

    @classmethod
    def of(cls, name: str) -> Column:
        """Return the title, unit and scale that follow from a column's name; by default a count without unit."""
        unit, scale = next(((unit, scale) for end, unit, scale in _SUFFIXES if name.endswith(end)), ("", Scale.SI))
        words = words_of(name.removesuffix("_share").replace("flops_per_second", "FLOP/s"))
        title = " ".join(_WORDS.get(word, word) for word in words)
        title = f"share of {title}" if name.endswith("_share") else title
        return cls(f"{title[:1].upper()}{title[1:]}", unit, scale)

    def show(self, value: Any) -> str:
        """Return a value with its unit, as people read it; nothing for None."""
        if value is None:
            return ""
        return str(scale_value(100 * value if self.unit == "%" else value, self.unit, self.scale))
