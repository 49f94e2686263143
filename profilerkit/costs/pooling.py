"""Pooling, resampling and looking up: the inputs of each output element; the gradients, which add up at the inputs.

An input element that is read several times gets a sum in the gradient: an addition for each read, with a product before
it if neighbours are weighted. The gradient of an element that is read once is only moved, which costs nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import product

from .cost import Cost
from .numbers import constants as c


def pool(outputs: int, window: int, average: bool) -> Cost:
    """An addition (average) or comparison (maximum) for each element of each window; the division is not counted."""
    return Cost(0, outputs * window * (c.ADD if average else c.COMPARE))


def adaptive_windows(lengths: Iterable[tuple[int, int]]) -> int:
    """Return the elements of all windows together, of ``(input length, output length)`` in each dimension."""
    return math.prod(sum(_list_window_lengths(length, windows)) for length, windows in lengths)


def _list_window_lengths(length: int, windows: int) -> list[int]:
    """Return the elements of each window along one dimension.

    Windows overlap if the length is no multiple of their number: window i of n over a length covers
    ``floor(i * length / n)`` to ``ceil((i + 1) * length / n)``.

    >>> _list_window_lengths(5, 2)  # [0, 3) and [2, 5)
    [3, 3]
    """
    starts = [index * length // windows for index in range(windows)]
    ends = [((index + 1) * length + windows - 1) // windows for index in range(windows)]
    return [end - start for start, end in zip(starts, ends, strict=True)]


def pool_gradient(added: int) -> Cost:
    """An addition for each element of the gradient (maximum) or of each of its windows (average)."""
    return Cost(0, added * c.ADD)


def interpolate(neighbours: int) -> int:
    """Return the operations of a weighted sum of neighbours: as many products, and one addition fewer."""
    return neighbours * c.MULTIPLY + (neighbours - 1) * c.ADD


def resample(outputs: int, neighbours: int) -> Cost:
    """A weighted sum of the neighbours for each output element; the nearest alone is moved, which costs nothing.

    Linear interpolation has 2 neighbours in each dimension, cubic interpolation 4.
    """
    return Cost(0, outputs * interpolate(neighbours) if neighbours > 1 else 0)


def resample_gradient(gradients: int, neighbours: int) -> Cost:
    """A product and an addition for each neighbour of each gradient; the nearest adds up."""
    return Cost(0, gradients * (neighbours * (c.MULTIPLY + c.ADD) if neighbours > 1 else c.ADD))


def resample_areas(planes: int, *lengths: tuple[int, int]) -> Cost:
    """A weighted sum of the elements under each output element, of ``(input length, output length)`` in each dimension.

    Elements under the edge of an output element are under its neighbour too, with the rest of their weight.
    """
    windows = [Counter(_list_window_lengths(length, resized)).items() for length, resized in lengths]
    cost = Cost(0, 0)
    for sizes in product(*windows):  # a kind of window for each dimension: its elements, and how many are like it
        elements, outputs = (math.prod(numbers) for numbers in zip(*sizes, strict=True))
        cost = cost.plus(resample(planes * outputs, elements))
    return cost


def smooth_reach(reach: int, length: int, resized: int) -> int:
    """Return the neighbours of an antialiased resampling along a dimension: they reach further the more it shrinks.

    There are no more of them than there are elements.
    """
    return min(length, math.ceil(reach * max(1.0, length / resized)))


def smooth_resample(along_width: int, width: int, outputs: int, height: int) -> Cost:
    """A weighted sum of ``width`` neighbours for each element in between, then one of ``height`` for each output."""
    return Cost(0, along_width * interpolate(width) + outputs * interpolate(height))


def smooth_resample_gradient(gradients: int, height: int, along_height: int, width: int) -> Cost:
    """A product and an addition for each neighbour, along the height of each gradient, then along the width."""
    return Cost(0, (height * gradients + width * along_height) * (c.MULTIPLY + c.ADD))


def grid_sample_gradient(gradients: int, neighbours: int, dimensions: int, by_input: bool, by_grid: bool) -> Cost:
    """By the input a product and an addition for each neighbour; by the grid two products and an addition.

    The latter for each neighbour and each dimension of the grid. The nearest has no weight: it adds up, and its place
    does not depend on the grid.
    """
    if neighbours == 1:
        return Cost(0, gradients * c.ADD if by_input else 0)
    operations = c.MULTIPLY + c.ADD if by_input else 0
    if by_grid:
        operations += dimensions * (2 * c.MULTIPLY + c.ADD)
    return Cost(0, gradients * neighbours * operations)


def affine_grid(elements: int, coordinates: int) -> Cost:
    """Each point of the grid, with a 1 added, by a ``(d, d + 1)`` matrix: d * (d + 1) multiply-accumulates a point."""
    return Cost.of_macs(elements * coordinates)


def projective_transform(pixels: int) -> Cost:
    """``(a x + b y + c) / k`` and ``(d x + e y + f) / k`` of ``k = g x + h y + 1`` for each pixel."""
    return Cost(0, pixels * (3 * (2 * c.MULTIPLY + 2 * c.ADD) + 2 * c.DIVIDE))


def embedding_bag(looked_up: int, weighted: bool = False, maximum: bool = False) -> Cost:
    """An addition (or comparison) for each element of each row that is looked up, and a product if it is weighted."""
    return Cost(0, looked_up * ((c.COMPARE if maximum else c.ADD) + weighted * c.MULTIPLY))


def embedding_gradient(added: int, scaled: bool = False, weighted: bool = False) -> Cost:
    """An addition for each element that was looked up, a division if rows are scaled by how often they come.

    One product more if the row was weighted.
    """
    return Cost(0, added * (c.ADD + scaled * c.DIVIDE + weighted * c.MULTIPLY))


def bag_weights_gradient(looked_up: int) -> Cost:
    """The product of each looked-up row with its bag's gradient, and the sum of the product."""
    return Cost(0, looked_up * (c.MULTIPLY + c.ADD))
