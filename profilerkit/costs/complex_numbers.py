"""Arithmetic of complex numbers: each elementary function as the real operations of its formula.

With ``z = a + b i`` and ``w = c + d i``. Every number here is a sum of the constants in `convention`, so one line
changed there changes these too.

A complex multiply-accumulate is four real ones: ``re += a * c``, ``re -= b * d``, ``im += a * d``, ``im += b * c``.
That is a multiplication (6) and an addition (2), 8 FLOPs in all, as LAPACK counts (LAPACK Working Note 41, appendix C).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import convention as c

__all__ = ["FURTHER_OPERATIONS", "OPERATIONS", "ComplexFunction", "count"]


class ComplexFunction(NamedTuple):
    """A function of complex numbers: its formula as a text, and a function that counts its real operations."""

    formula: str
    operations: Callable[[], int]


def count(name: str) -> int:
    """Return the real operations of a constant of the convention, or of one of `FURTHER_OPERATIONS`."""
    return (FURTHER_OPERATIONS.get(name) or OPERATIONS[name]).operations()


_F = ComplexFunction
#: Each constant of the convention for complex numbers.
OPERATIONS: dict[str, ComplexFunction] = {
    "ADD": _F(
        "``(a + c) + (b + d) i``; so is an addition of a real number, which frameworks convert first.",
        lambda: 2 * c.ADD,
    ),
    "SUBTRACT": _F("``(a - c) + (b - d) i``.", lambda: 2 * c.SUBTRACT),
    "MULTIPLY": _F("``(a * c - b * d) + (a * d + b * c) i``.", lambda: 4 * c.MULTIPLY + c.SUBTRACT + c.ADD),
    "DIVIDE": _F(
        "``((a * c + b * d) + (b * c - a * d) i) / (c * c + d * d)``; so is a reciprocal.",
        lambda: 6 * c.MULTIPLY + 2 * c.ADD + c.SUBTRACT + 2 * c.DIVIDE,
    ),
    "NEGATE": _F("``-a - b i``.", lambda: 2 * c.NEGATE),
    "ABSOLUTE": _F("``sqrt(a * a + b * b)``.", lambda: 2 * c.MULTIPLY + c.ADD + c.SQRT),
    "ANGLE": _F("``atan2(b, a)``.", lambda: c.ANGLE),
    "COMPARE": _F("``a == c`` and ``b == d``: complex numbers have no order.", lambda: 2 * c.COMPARE),
    "SIGN": _F("``z / abs(z)``.", lambda: count("ABSOLUTE") + 2 * c.DIVIDE),
    "ROUND": _F("``round(a) + round(b) i``.", lambda: 2 * c.ROUND),
    "POWER": _F("``exp(w * log(z))``, the square included.", lambda: count("LOG") + count("MULTIPLY") + count("EXP")),
    "SQRT": _F(
        "``t + b / (2 * t) i`` with ``t = sqrt((abs(z) + a) / 2)``.",
        lambda: count("ABSOLUTE") + c.ADD + 2 * c.DIVIDE + c.SQRT + c.MULTIPLY,
    ),
    "RSQRT": _F("``1 / sqrt(z)``.", lambda: count("SQRT") + count("DIVIDE")),
    "EXP": _F("``exp(a) * cos(b) + exp(a) * sin(b) i``.", lambda: c.EXP + 2 * c.SINE + 2 * c.MULTIPLY),
    "LOG": _F("``log(abs(z)) + atan2(b, a) i``.", lambda: count("ABSOLUTE") + c.LOG + c.ANGLE),
    "TANH": _F(
        "``(sinh(2 * a) + sin(2 * b) i) / (cosh(2 * a) + cos(2 * b))``.",
        lambda: 2 * c.MULTIPLY + 4 * c.SINE + c.ADD + 2 * c.DIVIDE,
    ),
    "SIGMOID": _F("``1 / (1 + exp(-z))``.", lambda: count("NEGATE") + count("EXP") + count("ADD") + count("DIVIDE")),
    "ERF": _F(
        "As ``asinh(z) = log(z + sqrt(z * z + 1))``: the inverse functions are such logarithms.",
        lambda: count("SPECIAL"),
    ),
    "SINE": _F("``sin(a) * cosh(b) + cos(a) * sinh(b) i``.", lambda: 4 * c.SINE + 2 * c.MULTIPLY),
    "SPECIAL": _F(
        "As ``asinh(z) = log(z + sqrt(z * z + 1))``: the inverse functions are such logarithms.",
        lambda: count("MULTIPLY") + 2 * count("ADD") + count("SQRT") + count("LOG"),
    ),
    "ELEMENTARY_GRADIENT": _F("``dy * f(y)``: one kernel, a multiplication.", lambda: count("MULTIPLY")),
    "ELEMENTWISE": _F("One operation for each of both parts.", lambda: 2 * c.ELEMENTWISE),
    "FOURIER_POINT": _F(
        "As it is: the count of a fast Fourier transform is one of real operations on complex points already.",
        lambda: c.FOURIER_POINT,
    ),
}
#: The constants that formulas read besides the constants of the convention.
FURTHER_OPERATIONS: dict[str, ComplexFunction] = {
    "SIZE_POWER": _F(
        "``a * a + b * b``: the square of the size, in a norm or a variance.", lambda: 2 * c.MULTIPLY + c.ADD
    ),
    "SIZE_ADD": _F("Sizes are real numbers: one addition.", lambda: c.ADD),
    "SOLUTION": _F(
        "An operation of a decomposition or a solution: half of them multiply, and half of them add.",
        lambda: (count("MULTIPLY") + count("ADD")) // 2,
    ),
    "MACS": _F("The real multiply-accumulates of a complex one.", lambda: 4),
}
