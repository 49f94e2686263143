"""Formulas of object detection, and what each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from profilerkit.costs import detection

from .case import Case, case


def cases() -> Iterator[Case]:
    # four boxes: six pairs of 6 comparisons, 3 differences, 1 product, 1 sum, 1 ratio; four areas
    yield case(
        lambda: detection.non_maximum_suppression(4), COMPARE=36, SUBTRACT=18 + 8, MULTIPLY=6 + 4, ADD=6, DIVIDE=6
    )
    yield case(lambda: detection.roi_align(3, 4), MULTIPLY=48, ADD=12 * 4)
