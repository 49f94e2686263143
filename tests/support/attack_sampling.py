"""How much of an attack is run: a sample that is the same each time, or with ``make attack`` all of it."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["WHOLE", "sample"]

T = TypeVar("T")

#: Whether all of it is to be run.
WHOLE = os.environ.get("PROFILERKIT_ATTACK") == "whole"


def sample(cases: Sequence[T], count: int, seed: int = 0) -> list[T]:
    """Return ``count`` of the cases, in their order and the same ones each time; with ``make attack`` all of them."""
    if WHOLE or count >= len(cases):
        return list(cases)
    return [cases[index] for index in sorted(random.Random(seed).sample(range(len(cases)), count))]
