"""Integers, real numbers and complex numbers: how one formula counts each of them.

A formula reads ``constants.EXP`` when it is called. For an operator on real numbers this is the constant of
`convention`, for an operator on complex numbers the constant of `complex_numbers`. So a formula is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from enum import Enum

from . import complex_numbers, convention

__all__ = ["Numbers", "complex_is_counted", "constants", "is_float"]

#: Whether the formulas that this context calls are of an operator on complex numbers.
complex_is_counted: ContextVar[bool] = ContextVar("complex_is_counted", default=False)


def is_float(dtype: str) -> bool:
    """Return whether a dtype of that name is a floating-point or complex one; quantized integers are not."""
    return dtype.startswith(("float", "bfloat", "half", "double", "complex"))


class Numbers(Enum):
    """The kind of numbers that an operator works on.

    Integers:
        A multiply-accumulate of integers is one MAC and two FLOPs, like one of real numbers: so a quantized model has
        the counts of the original model. No other operation on integers is a FLOP.
    Real numbers:
        The formulas as they are.
    Complex numbers:
        A multiply-accumulate is four MACs and eight FLOPs; `complex_numbers` has the cost of each elementary function.
        An operator with one complex argument works on complex numbers: frameworks convert its other arguments first.
    """

    INTEGER = "integer"
    REAL = "real"
    COMPLEX = "complex"

    @classmethod
    def of(cls, arguments: Iterable[str], results: Iterable[str] = ()) -> Numbers:
        """Return the kind of an operator's numbers, by the dtype names of its arguments and results: ``"float32"``.

        An operator that makes complex numbers from real numbers is no operator on complex numbers.
        """
        reads_floats = False
        for name in arguments:
            if name.startswith("complex"):
                return cls.COMPLEX
            reads_floats = reads_floats or is_float(name)
        return cls.REAL if reads_floats or any(map(is_float, results)) else cls.INTEGER


#: What formulas read besides the constants of the convention, for real numbers: the power of ``abs(x)`` in a norm, the
#: sum of such powers, the MACs of a multiply-accumulate, and an operation of a decomposition.
_FURTHER: dict[str, Callable[[], int]] = {
    "SIZE_POWER": lambda: convention.POWER,
    "SIZE_ADD": lambda: convention.ADD,
    "MACS": lambda: 1,
    "SOLUTION": lambda: 1,
}


class _Constants:
    """The constants of the convention as attributes, for the numbers that are counted."""

    def __getattr__(self, name: str) -> int:
        if complex_is_counted.get():
            return complex_numbers.count(name)
        value: int = _FURTHER[name]() if name in _FURTHER else getattr(convention, name)
        return value


constants: _Constants = _Constants()
