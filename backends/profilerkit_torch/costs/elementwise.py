"""Element-wise operators and reductions that torch tags as such: which elementary function each of them is.

An operator that is not named here is `convention.ELEMENTWISE`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from profilerkit.costs import constants, elementwise, reduction

from .families import register_existing, register_per_element
from .registry import Cost, Shape, register_op_cost

#: Operators by their constant of the convention; operators in place and over lists have the same constant.
_FUNCTIONS = {
    "ADD": "add sum nansum mean nanmean",
    "SUBTRACT": "sub rsub",
    "MULTIPLY": "mul prod",
    "DIVIDE": "div true_divide reciprocal",
    "NEGATE": "neg",
    "ABSOLUTE": "abs",
    "COMPARE": "relu threshold maximum minimum fmax fmin max min amax amin clamp_min clamp_max heaviside",
    "ANGLE": "angle",
    "SIGN": "sign sgn",
    "ROUND": "round floor ceil trunc frac fmod remainder floor_divide",
    "POWER": "pow square float_power",
    "SQRT": "sqrt",
    "RSQRT": "rsqrt",
    "EXP": "exp exp2 expm1",
    "LOG": "log log1p log2 log10",
    "TANH": "tanh",
    "SIGMOID": "sigmoid",
    "ERF": "erf erfc",
    "SINE": "sin cos sinh cosh",
    "ELEMENTARY_GRADIENT": "sigmoid_backward tanh_backward threshold_backward",
    "SPECIAL": """
        acos acosh asin asinh atan atan2 atanh tan cbrt digamma lgamma mvlgamma polygamma i0 igamma
        igammac erfinv erf_inv erfcx ndtri hypot logaddexp logaddexp2 xlogy sinc nextafter copysign zeta
        spherical_bessel_j0 bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1
    """,
}
_CONSTANTS = {name: constant for constant, names in _FUNCTIONS.items() for name in names.split()}


@cache
def _find_constant(name: str) -> str:
    """Return the name of the constant for an operator: ``aten::exp_`` and ``prims::exp`` are ``EXP``."""
    plain = name.partition("::")[2]
    for form in (plain, plain.rstrip("_"), plain.removeprefix("special_")):
        if form in _CONSTANTS:
            return _CONSTANTS[form]
    return "SPECIAL" if plain.startswith("special_") else "ELEMENTWISE"


def count_operations(name: str) -> int:
    """Return the operations for each element of an operator that torch tags as element-wise, or as a reduction."""
    return int(getattr(constants, _find_constant(name)))


# Operators over lists -------------------------------------------------------------------------------------------------

#: Operators on lists of tensors: each element has the cost of the operator of the same name.
_LISTS = """
    add sub mul div pow maximum minimum clamp_min clamp_max abs neg exp expm1 log log2 log10 log1p sqrt rsqrt reciprocal
    sin cos tan sinh cosh tanh asin acos atan sigmoid erf erfc lgamma ceil floor round trunc frac sign max
"""
#: Operators on lists with several steps for each element: their operations for each element.
_LISTS_OF_SEVERAL: dict[str, Callable[[], int]] = {
    "addcmul": elementwise.multiply_and_add.operations,
    "addcdiv": partial(elementwise.multiply_and_add.operations, divides=True),
    "lerp": elementwise.interpolate.operations,
    "norm": reduction.norm.operations,
    "powsum": reduction.norm.operations,
}


def _price_lists(count: Callable[[], int], *operands: Any, alpha: float = 1, out: Any, **_: Any) -> Cost:
    """Like the operator of the same name, for each element of each tensor of the first list.

    ``count`` returns its operations for an element: at each call, because numbers may be complex.
    """
    tensors = next(operand for operand in operands if isinstance(operand, tuple))
    operations = count() + (alpha != 1) * constants.MULTIPLY
    return Cost(0, operations * sum(shape.numel for shape in tensors))


_counts: dict[str, Callable[[], int]] = {name: partial(count_operations, f"aten::{name}") for name in _LISTS.split()}
for _name, _count in (_counts | _LISTS_OF_SEVERAL).items():
    register_existing(partial(_price_lists, _count), f"_foreach_{_name}")

# Single operators -----------------------------------------------------------------------------------------------------


register_per_element(
    {
        "addcmul": elementwise.multiply_and_add,
        "addcdiv": partial(elementwise.multiply_and_add, divides=True),
        "lerp": elementwise.interpolate,
        "polar": elementwise.polar,
        "linalg_cross": elementwise.cross,
        # Random numbers are free, but not ``number * std + mean``.
        "aten::normal.Tensor_float aten::normal.float_Tensor aten::normal.Tensor_Tensor": elementwise.scale_and_shift,
    },
    argument=None,
)

#: Elementary functions that torch does not tag.
_UNTAGGED = """
    aten::floor_divide aten::threshold prims::bessel_i0 prims::bessel_i0e prims::bessel_i1 prims::bessel_i1e
    prims::bessel_j0 prims::bessel_j1 prims::cbrt prims::erf_inv prims::erfcx prims::ndtri prims::spherical_bessel_j0
    prims::zeta
"""


def _price_elements(name: str, elements: int) -> Cost:
    return Cost(0, elements * count_operations(name))


register_per_element({name: partial(_price_elements, name) for name in _UNTAGGED.split()}, argument=None)


@register_op_cost("aten::_add_relu")
def add_and_relu(x: Shape, y: Any, alpha: float = 1, *, out: Shape) -> Cost:
    """``max(x + alpha * y, 0)``; of a number y the product is free."""
    scaled = out.numel if alpha != 1 and isinstance(y, Shape) else 0
    return Cost(0, out.numel * (constants.ADD + constants.COMPARE) + scaled * constants.MULTIPLY)
