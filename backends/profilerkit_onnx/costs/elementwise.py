"""Element-wise operators that are no activations: which elementary function, or which formula, each of them is."""

from __future__ import annotations

from profilerkit.costs import elementwise

from .registry import Cost, NodeCall, UnknownShapeError, register_elementwise, register_op_cost, register_op_costs

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
    "SINE": "Cos Sin",
    "SPECIAL": "Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan",
}
for _constant, _names in _FUNCTIONS.items():
    register_elementwise(elementwise.elementary(_constant), *_names.split())


def _is_constant(call: NodeCall, index: int, number: int) -> bool:
    """Say whether an input is that number, known before the model runs; bigger constants are not looked at."""
    try:
        single = call.inputs[index].numel == 1
    except UnknownShapeError:
        return False
    value = call.value(index) if single else None
    return value is not None and bool((value == number).all())


def _register_unless_neutral(constant: str, neutral: int, operands: tuple[int, ...], name: str) -> None:
    function = elementwise.elementary(constant)

    @register_op_cost(name)
    def formula(call: NodeCall) -> Cost:
        """One operation for each output element, and none where an operand is known to leave the other as it is.

        Exporters write ``add(x, y, alpha=1)`` with such a product, and every runtime takes it out.
        """
        if not call.has_floats or any(_is_constant(call, operand, neutral) for operand in operands):
            return Cost(0, 0)
        return function(call.outputs[0].numel)


_register_unless_neutral("ADD", 0, (0, 1), "Add")
_register_unless_neutral("SUBTRACT", 0, (1,), "Sub")
_register_unless_neutral("MULTIPLY", 1, (0, 1), "Mul")
_register_unless_neutral("DIVIDE", 1, (1,), "Div")


@register_op_costs("Sum", "Mean")
def add_all(call: NodeCall) -> Cost:
    """``n - 1`` additions for each element of n summands; the one division of a mean is not counted."""
    return elementwise.sum_of(len(call.inputs), call.outputs[0].numel)


@register_op_costs("Max", "Min")
def extreme_of_all(call: NodeCall) -> Cost:
    """``n - 1`` comparisons for each element of n tensors."""
    return elementwise.elementary("COMPARE")((len(call.inputs) - 1) * call.outputs[0].numel)
