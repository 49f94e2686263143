"""Going to quantized integers and back. Work on integers themselves costs nothing, but for products."""

from __future__ import annotations

from .cost import per_element
from .numbers import constants as c


@per_element
def quantize(finds_range: bool = False) -> int:
    """``clamp(round(x / scale) + zero_point)``: scale, round and two comparisons; the zero point is an integer.

    Two comparisons more if the range of the values is found first.
    """
    return c.DIVIDE + c.ROUND + 2 * c.COMPARE + finds_range * find_range.operations()


@per_element
def dequantize() -> int:
    """``(x - zero_point) * scale``."""
    return c.SUBTRACT + c.MULTIPLY


@per_element
def find_range() -> int:
    """``min(x)`` and ``max(x)``."""
    return 2 * c.COMPARE


@per_element
def fake_quantize(finds_range: bool = False) -> int:
    """There and back."""
    return quantize.operations(finds_range) + dequantize.operations()


@per_element
def fake_quantize_gradient(by_bounds: bool = False) -> int:
    """Pass the gradient of inputs inside the range; the other gradients are summed for the gradient of each bound."""
    return c.ELEMENTARY_GRADIENT + by_bounds * 2 * c.ADD


@per_element
def learned_quantization_gradient() -> int:
    """Quantize again (with the shift by a learned zero point), pass or not, and the sums for scale and zero point.

    The scale's gradient is the sum of ``dy * (q - x / scale)``, the zero point's is the sum of ``-scale * dy``.
    """
    again = c.DIVIDE + c.ADD + c.ROUND + 2 * c.COMPARE
    return again + c.ELEMENTARY_GRADIENT + (c.SUBTRACT + c.MULTIPLY + c.ADD) + (c.MULTIPLY + c.ADD)


@per_element
def dequantize_and_add() -> int:
    """Going back to floats, and an addition, for each element of each row that a packed bag looks up."""
    return dequantize.operations() + c.ADD
