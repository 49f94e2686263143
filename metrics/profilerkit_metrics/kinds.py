"""Metrics of one kind share how they are shown and compared: a subclass adds its name and its facts."""

from __future__ import annotations

from profilerkit import Comparative, Metric, Scale

__all__ = ["Bytes", "Count", "LayerRows", "Seconds", "Share"]


class Count(Metric):
    """A number of things, shown with an SI prefix; the fewer the better."""

    SCALE: Scale = Scale.SI
    COMPARATIVE: Comparative = Comparative.RECIPROCAL


class Bytes(Metric):
    """A number of bytes, shown with an IEC prefix; the fewer the better."""

    UNIT: str = "B"
    SCALE: Scale = Scale.IEC
    COMPARATIVE: Comparative = Comparative.RECIPROCAL


class Seconds(Metric):
    """A duration; the shorter the better."""

    UNIT: str = "s"
    SCALE: Scale = Scale.TIME
    COMPARATIVE: Comparative = Comparative.RECIPROCAL


class Share(Metric):
    """A share of what is possible, from 0 to 1; the more the better."""

    COMPARATIVE: Comparative = Comparative.DIV


class LayerRows(Metric):
    """A table with a row for each layer."""

    def show(self) -> str:
        """Return the number of layers; the table is the value."""
        if self.value is None:
            return ""
        return "1 layer" if len(self.value) == 1 else f"{len(self.value)} layers"
