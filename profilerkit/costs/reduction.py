"""Reductions: the cost of each input element."""

from __future__ import annotations

from .cost import Cost, per_element
from .numbers import constants as c


@per_element
def total() -> int:
    """``sum(x)``, ``mean(x)``, ``cumsum(x)`` and sums over places that indices name: an addition."""
    return c.ADD


@per_element
def extreme(ends: int = 1) -> int:
    """``max(x)``, also a cumulative one: a comparison; for both ends ``min(x), max(x)``, two."""
    return ends * c.COMPARE


@per_element
def multiply() -> int:
    """``prod(x)``, ``cumprod(x)``: a multiplication."""
    return c.MULTIPLY


@per_element
def variance() -> int:
    """``mean((x - mean(x)) ** 2)``: the mean, a difference, a square and an addition; so does the deviation."""
    return c.ADD + c.SUBTRACT + c.SIZE_POWER + c.SIZE_ADD


@per_element
def norm() -> int:
    """``sum(abs(x) ** p) ** (1 / p)``: a power and an addition; so does the sum of squares.

    Of complex numbers p is taken for 2.
    """
    return c.SIZE_POWER + c.SIZE_ADD


@per_element
def distance() -> int:
    """``norm(x - y)``."""
    return c.SUBTRACT + norm.operations()


@per_element
def log_sum_exp() -> int:
    """``log(sum(exp(x - max(x)))) + max(x)``: maximum, difference, exponential, addition; cumulative as well."""
    return c.COMPARE + c.SUBTRACT + c.EXP + c.ADD


@per_element
def all_close() -> int:
    """``abs(x - y) <= tolerance``."""
    return c.SUBTRACT + c.ABSOLUTE + c.COMPARE


def scatter(elements: int, accumulates: bool = True) -> Cost:
    """An addition, product or comparison for each scattered element; nothing if it replaces the element there."""
    return Cost(0, elements * c.ADD * accumulates)


def all_reduce(elements: int, summands: int = 2) -> Cost:
    """``n - 1`` additions for each element that a device of a group adds up; around a ring one, rounded up."""
    return Cost(0, elements * (summands - 1) * c.ADD)
