"""Element-wise primitives: which elementary function of the convention each of them is."""

from __future__ import annotations

from profilerkit.costs import activation, elementwise

from .registry import OPERATORS, Cost, PrimitiveCall, register_elementwise, register_op_cost

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
    register_elementwise(elementwise.elementary(_constant), *_names.split())

# ``jnp.max`` writes ``max(x, -inf)`` after the maximum, and transformations add zeros.
OPERATORS.register_unless_neutral("ADD", 0, (0, 1), "add", "add_any")
OPERATORS.register_unless_neutral("SUBTRACT", 0, (1,), "sub")
OPERATORS.register_unless_neutral("MULTIPLY", 1, (0, 1), "mul")


def _register_extreme(name: str, neutral: float) -> None:
    compare = elementwise.elementary("COMPARE")

    @register_op_cost(name)
    def extreme(call: PrimitiveCall) -> Cost:
        """A comparison for each element; none where an operand is known to be the infinity that never wins."""
        neutral_operand: int = neutral  # type: ignore[assignment]  # an infinity is no int, and compared like one
        if not call.has_floats or any(call.is_constant(operand, neutral_operand) for operand in (0, 1)):
            return Cost(0, 0)
        return compare(call.outputs[0].numel)


_register_extreme("max", float("-inf"))
_register_extreme("min", float("inf"))


@register_op_cost("div")
def divide(call: PrimitiveCall) -> Cost:
    """A division for each element; none by 1, and none where it ends a mean: the convention does not count that one."""
    if not call.has_floats or call.divides_sum or call.is_constant(1, 1):
        return Cost(0, 0)
    return elementwise.elementary("DIVIDE")(call.outputs[0].numel)


@register_op_cost("integer_pow")
def integer_power(call: PrimitiveCall) -> Cost:
    """A power for each element; to the power of -1 it is a division, to that of 1 nothing."""
    if not call.has_floats or call.params["y"] == 1:
        return Cost(0, 0)
    return elementwise.elementary("DIVIDE" if call.params["y"] == -1 else "POWER")(call.outputs[0].numel)


@register_op_cost("one_minus_square")
def one_minus_square(call: PrimitiveCall) -> Cost:
    """``(1 + x) * (1 - x)``, as JAX 0.12 writes it for the gradient of a hyperbolic tangent: an operation for each."""
    if not call.has_floats:
        return Cost(0, 0)
    elements = call.outputs[0].numel
    steps = [elementwise.elementary(constant)(elements) for constant in ("ADD", "SUBTRACT", "MULTIPLY")]
    return steps[0].plus(steps[1]).plus(steps[2])


@register_op_cost("polynomial")
def polynomial(call: PrimitiveCall) -> Cost:
    """Horner's rule: a product and a sum for each coefficient but the last."""
    if not call.has_floats:
        return Cost(0, 0)
    elements = (len(call.inputs) - 2) * call.outputs[0].numel
    return elementwise.elementary("MULTIPLY")(elements).plus(elementwise.elementary("ADD")(elements))


@register_op_cost("clamp")
def clamp(call: PrimitiveCall) -> Cost:
    """A comparison for each bound."""
    return activation.clamp(call.outputs[0].numel)
