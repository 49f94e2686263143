"""The seeds that are run in CI, what each makes, and how that differs."""

from __future__ import annotations

from functools import cache

from attack_sampling import WHOLE, sample
from fuzz_chunk import TRAINED
from fuzz_compare import Difference, Truth, differences, find_truth
from fuzz_generator import program

SEEDS = range(10_000)


SAMPLED = sample(SEEDS, 30) if not WHOLE else []


@cache
def known(seed: int) -> tuple[str, Truth]:
    """Return a seed's program and its truth."""
    source = program(seed).source
    return source, find_truth(source, training=seed % TRAINED == 0)


@cache
def compare_seed(seed: int) -> tuple[tuple[Difference, ...], str]:
    """Return how a seed's program differs, and how it was counted."""
    found, method = differences(*known(seed))
    return tuple(found), method
