"""Element-wise operators that are no activations: the elementary function or the formula of each operator."""

from __future__ import annotations

from profilerkit.costs import elementwise

from .registry import OPERATORS, Cost, NodeCall

#: Operators, by the constant of the convention that each of them is.
_FUNCTIONS = {
    "DIVIDE": "Reciprocal",
    "NEGATE": "Neg",
    "ABSOLUTE": "Abs",
    "SIGN": "Sign",
    "ROUND": "Ceil Floor Mod Round",
    "POWER": "Pow",
    "SQRT": "Sqrt",
    "EXP": "Exp",
    "LOG": "Log",
    "ERF": "Erf",
    "SINE": "Cos Cosh Sin Sinh",
    "SPECIAL": "Acos Acosh Asin Asinh Atan Atanh Tan",
}
for _constant, _names in _FUNCTIONS.items():
    OPERATORS.register_elementwise(elementwise.elementary(_constant), *_names.split())

# Exporters write ``add(x, y, alpha=1)`` with such a product, and every runtime removes it.
OPERATORS.register_unless_neutral("ADD", "Add", neutral=0, operands=(0, 1))
OPERATORS.register_unless_neutral("SUBTRACT", "Sub", neutral=0, operands=(1,))
OPERATORS.register_unless_neutral("MULTIPLY", "Mul", neutral=1, operands=(0, 1))
OPERATORS.register_unless_neutral("DIVIDE", "Div", neutral=1, operands=(1,))


@OPERATORS.register_all("Sum", "Mean")
def add_all(call: NodeCall) -> Cost:
    """``n - 1`` additions for each element of n summands; the one division of a mean is not counted."""
    return elementwise.add_summands(len(call.inputs), call.outputs[0].numel)


@OPERATORS.register_all("Max", "Min")
def extreme_of_all(call: NodeCall) -> Cost:
    """``n - 1`` comparisons for each element of n tensors."""
    return elementwise.elementary("COMPARE")((len(call.inputs) - 1) * call.outputs[0].numel)
