"""A report or comparison as JSON, as `Report.save` writes it: values in base units, measurements with their samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..comparison import Comparison
    from ..report import Report

__all__ = ["render"]


def render(result: Report | Comparison) -> str:
    """Return all that a report or comparison holds; `profilerkit.load` reads it."""
    from ..saved import to_json

    return to_json(result)
