"""Metrics of one kind share how they are shown and compared: a subclass adds its name and its facts."""

from __future__ import annotations

from collections.abc import Mapping

from profilerkit import Comparative, Metric, Scale
from profilerkit.count_text import format_count

__all__ = ["Bytes", "Count", "LayerRows", "Seconds", "Share", "write_shares"]


class Count(Metric):
    """A number of things, shown with an SI prefix; the fewer the better."""

    GROWS: bool = True
    SCALE: Scale = Scale.SI
    COMPARATIVE: Comparative = Comparative.RECIPROCAL


class Bytes(Metric):
    """A number of bytes, shown with an IEC prefix; the fewer the better."""

    GROWS: bool = True
    UNIT: str = "B"
    SCALE: Scale = Scale.IEC
    COMPARATIVE: Comparative = Comparative.RECIPROCAL


class Seconds(Metric):
    """A duration; the shorter the better."""

    UNIT: str = "s"
    SCALE: Scale = Scale.TIME
    COMPARATIVE: Comparative = Comparative.RECIPROCAL


class Share(Metric):
    """A share of the possible maximum, from 0 to 1; the more the better."""

    GROWS: bool = True
    COMPARATIVE: Comparative = Comparative.DIV


class LayerRows(Metric):
    """A table with a row for each layer."""

    GROWS: bool = True

    def show(self) -> str:
        """Return the number of layers; the table is the value."""
        if self.value is None:
            return ""
        return format_count(len(self.value), "layer")


def write_shares(sizes: Mapping[str, int]) -> str:
    """Write the shares of the three largest parts of a whole, and of all others together, so that a reader can add up.

    The part "other" of a metric belongs to the others. Empty if there is nothing to divide.

    >>> write_shares({"weights": 50, "other": 40, "gradients": 5, "inputs": 4, "optimizer_state": 1})
    'weights 50 %, gradients 5 %, inputs 4 %, the rest 41 %'
    """
    whole = sum(sizes.values())
    named = sorted((name for name in sizes if name != "other" and sizes[name]), key=lambda name: -sizes[name])[:3]
    shown = [(name.replace("_", " "), sizes[name]) for name in named]
    rest = whole - sum(size for _, size in shown)
    return ", ".join(f"{name} {100 * size / whole:.0f} %" for name, size in [*shown, ("the rest", rest)] if size)
