"""Operators of object detection."""

from __future__ import annotations

from .cost import Cost
from .numbers import constants as c
from .pooling import interpolate


def non_maximum_suppression(boxes: int) -> Cost:
    """The overlap of each pair of boxes, and the area of each box.

    A pair takes four comparisons for the corners, two differences and two comparisons for the sides, their product, an
    addition and a subtraction for the union, and the ratio. All pairs are counted; a run leaves out the pairs of boxes
    that are dropped early.
    """
    pair = 4 * c.COMPARE + 2 * c.SUBTRACT + 2 * c.COMPARE + c.MULTIPLY + c.ADD + c.SUBTRACT + c.DIVIDE
    area = 2 * c.SUBTRACT + c.MULTIPLY
    return Cost(0, boxes * (boxes - 1) // 2 * pair + boxes * area)


def roi_align(outputs: int, points: int) -> Cost:
    """``points`` of four neighbours each, and their mean, for each output element (He and others, Mask R-CNN, 2017)."""
    return Cost(0, outputs * points * (interpolate(4) + c.ADD))
