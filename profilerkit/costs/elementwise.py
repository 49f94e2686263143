"""Element-wise operators: elementary functions of the convention, and functions composed of several of these."""

from __future__ import annotations

from . import convention
from .cost import Cost, PerElement, per_element
from .numbers import constants as c


def elementary(name: str) -> PerElement[[]]:
    """Return the formula of one elementary function, by its name in `convention`: ``elementary("EXP")``.

    Raises `KeyError` for a name that is not in the convention.
    """
    vars(convention)[name]

    def operations() -> int:
        return int(getattr(c, name))

    operations.__name__ = name.lower()
    operations.__doc__ = f"One elementary function: `convention.{name}`."
    return PerElement(operations)


@per_element
def multiply_and_add(divides: bool = False) -> int:
    """``x + value * a * b`` (addcmul), or ``x + value * a / b`` (addcdiv)."""
    return c.ADD + c.MULTIPLY + (c.DIVIDE if divides else c.MULTIPLY)


@per_element
def interpolate() -> int:
    """``start + weight * (end - start)``."""
    return c.SUBTRACT + c.MULTIPLY + c.ADD


@per_element
def polar() -> int:
    """``size * cos(angle)`` and ``size * sin(angle)``."""
    return 2 * c.SINE + 2 * c.MULTIPLY


@per_element
def squared_difference() -> int:
    """``(x - y) ** 2``."""
    return c.SUBTRACT + c.POWER


@per_element
def cross() -> int:
    """``a * b - c * d``, for each output element."""
    return 2 * c.MULTIPLY + c.SUBTRACT


@per_element
def scale_and_shift() -> int:
    """``x * scale + shift``; so do random numbers ``number * std + mean``."""
    return c.MULTIPLY + c.ADD


@per_element
def tridiagonal_product() -> int:
    """``a * x + b * y + c * z``: a row of a tridiagonal matrix with a vector."""
    return 3 * c.MULTIPLY + 2 * c.ADD


@per_element
def sqrt_gradient() -> int:
    """``0.5 * dy / y``."""
    return c.MULTIPLY + c.DIVIDE


@per_element
def rsqrt_gradient() -> int:
    """``-0.5 * dy * y ** 3``."""
    return 2 * c.MULTIPLY + c.POWER


@per_element
def reciprocal_gradient() -> int:
    """``-dy * y * y``."""
    return c.NEGATE + 2 * c.MULTIPLY


def add_summands(summands: int, elements: int) -> Cost:
    """``n - 1`` additions for each element of n summands."""
    return Cost(0, (summands - 1) * elements * c.ADD)


def adjust_contrast(elements: int) -> Cost:
    """``(x - mean(x)) * factor + mean(x)``: the sum, a difference, a product and an addition for each element."""
    return Cost(0, elements * (c.ADD + c.SUBTRACT + c.MULTIPLY + c.ADD))
