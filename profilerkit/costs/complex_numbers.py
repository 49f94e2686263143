"""Arithmetic of complex numbers: each elementary function as the real operations of its formula.

With ``z = a + b i`` and ``w = c + d i``. Every number here is a sum of the constants in `convention`, so one line
changed there changes these too. `OPERATIONS` has the function of each constant.

A complex multiply-accumulate is four real ones: ``re += a * c``, ``re -= b * d``, ``im += a * d``, ``im += b * c``.
That is a multiplication (6) and an addition (2), 8 FLOPs in all, as LAPACK counts (LAPACK Working Note 41, appendix C).
"""

from __future__ import annotations

from collections.abc import Callable

from . import convention as c

__all__ = ["FURTHER_OPERATIONS", "OPERATIONS"]


def add() -> int:
    """``(a + c) + (b + d) i``; so is an addition of a real number, which frameworks convert first."""
    return 2 * c.ADD


def subtract() -> int:
    """``(a - c) + (b - d) i``."""
    return 2 * c.SUBTRACT


def multiply() -> int:
    """``(a * c - b * d) + (a * d + b * c) i``."""
    return 4 * c.MULTIPLY + c.SUBTRACT + c.ADD


def divide() -> int:
    """``((a * c + b * d) + (b * c - a * d) i) / (c * c + d * d)``; so is a reciprocal."""
    return 6 * c.MULTIPLY + 2 * c.ADD + c.SUBTRACT + 2 * c.DIVIDE


def negate() -> int:
    """``-a - b i``."""
    return 2 * c.NEGATE


def size() -> int:
    """``sqrt(a * a + b * b)``."""
    return 2 * c.MULTIPLY + c.ADD + c.SQRT


def angle() -> int:
    """``atan2(b, a)``."""
    return c.ANGLE


def compare() -> int:
    """``a == c`` and ``b == d``: complex numbers have no order."""
    return 2 * c.COMPARE


def sign() -> int:
    """``z / abs(z)``."""
    return size() + 2 * c.DIVIDE


def round_parts() -> int:
    """``round(a) + round(b) i``."""
    return 2 * c.ROUND


def power() -> int:
    """``exp(w * log(z))``, the square included."""
    return logarithm() + multiply() + exponential()


def square_root() -> int:
    """``t + b / (2 * t) i`` with ``t = sqrt((abs(z) + a) / 2)``."""
    return size() + c.ADD + 2 * c.DIVIDE + c.SQRT + c.MULTIPLY


def inverse_square_root() -> int:
    """``1 / sqrt(z)``."""
    return square_root() + divide()


def exponential() -> int:
    """``exp(a) * cos(b) + exp(a) * sin(b) i``."""
    return c.EXP + 2 * c.SINE + 2 * c.MULTIPLY


def logarithm() -> int:
    """``log(abs(z)) + atan2(b, a) i``."""
    return size() + c.LOG + c.ANGLE


def tanh() -> int:
    """``(sinh(2 * a) + sin(2 * b) i) / (cosh(2 * a) + cos(2 * b))``."""
    return 2 * c.MULTIPLY + 4 * c.SINE + c.ADD + 2 * c.DIVIDE


def sigmoid() -> int:
    """``1 / (1 + exp(-z))``."""
    return negate() + exponential() + add() + divide()


def sine() -> int:
    """``sin(a) * cosh(b) + cos(a) * sinh(b) i``."""
    return 4 * c.SINE + 2 * c.MULTIPLY


def special() -> int:
    """As ``asinh(z) = log(z + sqrt(z * z + 1))``: the inverse functions are such logarithms."""
    return multiply() + add() + square_root() + add() + logarithm()


def elementary_gradient() -> int:
    """``dy * f(y)``: one kernel, a multiplication."""
    return multiply()


def elementwise() -> int:
    """One operation for each of both parts."""
    return 2 * c.ELEMENTWISE


def fourier_point() -> int:
    """As it is: the count of a fast Fourier transform is one of real operations on complex points already."""
    return c.FOURIER_POINT


def size_power() -> int:
    """``a * a + b * b``: the square of the size, in a norm or a variance."""
    return 2 * c.MULTIPLY + c.ADD


def size_add() -> int:
    """Sizes are real numbers: one addition."""
    return c.ADD


def multiply_accumulates() -> int:
    """The real multiply-accumulates of a complex one."""
    return 4


def solution() -> int:
    """An operation of a matrix decomposition or a linear solve: half of these are products, half are sums."""
    return (multiply() + add()) // 2


#: What each constant of the convention is of complex numbers.
OPERATIONS: dict[str, Callable[[], int]] = {
    "ADD": add,
    "SUBTRACT": subtract,
    "MULTIPLY": multiply,
    "DIVIDE": divide,
    "NEGATE": negate,
    "ABSOLUTE": size,
    "ANGLE": angle,
    "COMPARE": compare,
    "SIGN": sign,
    "ROUND": round_parts,
    "POWER": power,
    "SQRT": square_root,
    "RSQRT": inverse_square_root,
    "EXP": exponential,
    "LOG": logarithm,
    "TANH": tanh,
    "SIGMOID": sigmoid,
    "ERF": special,
    "SINE": sine,
    "SPECIAL": special,
    "ELEMENTARY_GRADIENT": elementary_gradient,
    "ELEMENTWISE": elementwise,
    "FOURIER_POINT": fourier_point,
}
#: What formulas name beside the constants of the convention.
FURTHER_OPERATIONS: dict[str, Callable[[], int]] = {
    "SIZE_POWER": size_power,
    "SIZE_ADD": size_add,
    "SOLUTION": solution,
    "MACS": multiply_accumulates,
}
