"""A report or comparison as JSON: values in base units, measurements with their samples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..report import Comparison, Report

__all__ = ["render"]


def render(result: Report | Comparison) -> str:
    """Return all that a report or comparison holds, indented."""
    return json.dumps(result.to_dict(), indent=2)
