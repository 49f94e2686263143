"""Numbers of reports as short texts."""

from __future__ import annotations

from profilerkit.piping.quantity import Scale, scale_value

from .fitting import MOST_TRIED

__all__ = ["show_bytes", "show_count", "show_most", "show_rate", "show_seconds"]


def show_most(number: int | None) -> str:
    """Return how many fit: "181", "-" for none, and "≥ 1,048,576" where no more were tried."""
    return f"{'≥ ' if number == MOST_TRIED else ''}{number:,}" if number else "-"


def show_count(value: float) -> str:
    """Return a count with a decimal prefix: "8.03 G"."""
    return str(scale_value(value, "", Scale.SI))


def show_bytes(value: float | None) -> str:
    """Return bytes with a binary prefix: "14.96 GiB"; "-" for None."""
    return "-" if value is None else str(scale_value(value, "B", Scale.IEC))


def show_seconds(value: float | None) -> str:
    """Return seconds with a prefix: "30.01 ms"; "-" for None."""
    return "-" if value is None else str(scale_value(value, "s", Scale.TIME))


def show_rate(value: float | None) -> str:
    """Return how many there are in a second: "1,316", or "4.57" where there are few; "-" for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
