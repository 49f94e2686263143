"""What a run of the benchmarks is told by its command line."""

from __future__ import annotations

import sys
from dataclasses import dataclass

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """How the figures are measured.

    Attributes:
        peers: The interpreter that has the other tools.
        quick: Fewer models and rounds: to see that all of it runs.
    """

    peers: str = sys.executable
    quick: bool = False
