"""Single numbers that are known before a function runs: XLA computes them while it compiles, so they cost nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .values import Value

__all__ = ["fold"]


def _divide(x: Any, y: Any) -> Any:
    """Return a quotient; a quotient of integers is rounded towards zero, while Python rounds down."""
    if np.asarray(x).dtype.kind not in "iu":
        return x / y
    quotient = abs(int(x)) // abs(int(y))
    have_same_sign = (x < 0) == (y < 0)
    return quotient if have_same_sign else -quotient


#: Primitives over single numbers.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "ceil": np.ceil,
    "div": _divide,
    "eq": np.equal,
    "floor": np.floor,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "sub": np.subtract,
    "clamp": lambda low, x, high: np.clip(x, low, high),
    "select_n": lambda which, *cases: cases[int(which)],
}
#: Primitives that give the same number in another shape or dtype: they may give it for any number of elements.
_SAME = ("broadcast_in_dim", "convert_element_type", "copy", "reshape", "squeeze", "stop_gradient", "transpose")


def fold(name: str, equation: Any, inputs: Sequence[Value]) -> Any:
    """Return the number that all elements of the only output equal, if the inputs tell it; otherwise None."""
    if not inputs or any(value.scalar is None for value in inputs) or len(equation.outvars) != 1:
        return None
    if name in _SAME:
        return _convert(inputs[0].scalar, equation.outvars[0].aval)
    function = _FUNCTIONS.get(name)
    if function is None or any(value.shape.numel != 1 for value in inputs):
        return None
    with np.errstate(all="ignore"):
        try:
            return _convert(function(*(value.scalar for value in inputs)), equation.outvars[0].aval)
        except (ArithmeticError, IndexError, TypeError, ValueError):
            return None


def _convert(number: Any, aval: Any) -> Any:
    """Return a number in the dtype of an output; None for a dtype that numpy lacks."""
    dtype = getattr(aval, "dtype", None)
    if not isinstance(dtype, np.dtype):
        return None
    array = np.asarray(number)
    with np.errstate(all="ignore"):
        try:
            if array.dtype.kind in "fV" and dtype.kind in "iu":  # V: a narrow float of ml_dtypes
                return np.asarray(_nearest(float(array), np.iinfo(dtype)), dtype)[()]
            return array.astype(dtype)[()]
        except (TypeError, ValueError):
            return None


def _nearest(number: float, limits: Any) -> int:
    """Return XLA's integer for a float: cut, kept to the range of the dtype, and 0 if the float is no number."""
    if math.isnan(number):
        return 0
    return int(min(max(number, limits.min), limits.max))
