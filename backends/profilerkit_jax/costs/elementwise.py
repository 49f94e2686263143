"""Element-wise primitives: which elementary function of the convention each of them is."""

from __future__ import annotations

from profilerkit.costs import activation, elementwise
from profilerkit.costs import constants as c

from .registry import OPERATORS, Cost, PrimitiveCall, register_op_cost

#: Primitives, by the constant of the convention that each of them is.
_FUNCTIONS = {
    "NEGATE": "neg",
    "ABSOLUTE": "abs",
    "SIGN": "sign",
    "ROUND": "ceil floor rem round",
    "POWER": "pow square",
    "SQRT": "sqrt",
    "RSQRT": "rsqrt",
    "EXP": "exp exp2 expm1",
    "LOG": "log log1p log2",
    "TANH": "tanh",
    "SIGMOID": "logistic",
    "ERF": "erf erfc",
    "SINE": "cos cosh sin sinh",
    "SPECIAL": """
        acos acosh asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt digamma erf_inv igamma igamma_grad_a igammac
        lgamma nextafter polygamma random_gamma_grad regularized_incomplete_beta tan zeta
    """,
}
for _constant, _names in _FUNCTIONS.items():
    OPERATORS.register_elementwise(elementwise.elementary(_constant), *_names.split())

# Transformations add zeros, and ``jnp.max`` writes ``max(x, -inf)`` after the maximum.
OPERATORS.register_unless_neutral("ADD", "add", "add_any", neutral=0, operands=(0, 1))
OPERATORS.register_unless_neutral("SUBTRACT", "sub", neutral=0, operands=(1,))
OPERATORS.register_unless_neutral("MULTIPLY", "mul", neutral=1, operands=(0, 1))
OPERATORS.register_unless_neutral("COMPARE", "max", neutral=float("-inf"), operands=(0, 1))
OPERATORS.register_unless_neutral("COMPARE", "min", neutral=float("inf"), operands=(0, 1))


@register_op_cost("div")
def divide(call: PrimitiveCall) -> Cost:
    """A division for each element; none by 1, and none at the end of a mean, which the convention does not count."""
    if call.divides_sum or call.is_constant(1, 1):
        return Cost(0, 0)
    return elementwise.elementary("DIVIDE")(call.outputs[0].numel)


@register_op_cost("integer_pow")
def integer_power(call: PrimitiveCall) -> Cost:
    """A power for each element; the power of -1 is a division, the powers of 0 and 1 nothing."""
    if call.params["y"] in (0, 1):
        return Cost(0, 0)
    return elementwise.elementary("DIVIDE" if call.params["y"] == -1 else "POWER")(call.outputs[0].numel)


@register_op_cost("one_minus_square")
def one_minus_square(call: PrimitiveCall) -> Cost:
    """``(1 + x) * (1 - x)`` for each element, as JAX 0.12 writes it for the gradient of a hyperbolic tangent."""
    return Cost(0, call.outputs[0].numel * (c.ADD + c.SUBTRACT + c.MULTIPLY))


@register_op_cost("polynomial")
def polynomial(call: PrimitiveCall) -> Cost:
    """Horner's rule, ``result * x + coefficient``, for each coefficient behind the first.

    The inputs are x and the coefficients, the coefficient of the highest power first.
    """
    coefficients = len(call.inputs) - 1
    return elementwise.scale_and_shift((coefficients - 1) * call.outputs[0].numel)


@register_op_cost("clamp")
def clamp(call: PrimitiveCall) -> Cost:
    """A comparison for each bound."""
    return activation.clamp(call.outputs[0].numel)
