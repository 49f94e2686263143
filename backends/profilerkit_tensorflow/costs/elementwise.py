"""Element-wise operators that are no activations: one operation for each output element, or as many as listed."""

from __future__ import annotations

from collections.abc import Callable

from .registry import Cost, OpCall, UnknownShapeError, register_elementwise, register_op_cost

_ARITHMETIC = """
    Abs Angle Atan2 Ceil ComplexAbs DivNoNan Floor FloorDiv FloorMod Inv Maximum Minimum Mod MulNoNan Neg NextAfter Pow
    Reciprocal Rint Round Rsqrt Sign Sqrt Square TruncateDiv TruncateMod Xdivy Xlog1py Xlogy
"""
_FUNCTIONS = """
    Acos Acosh Asin Asinh Atan Atanh Betainc BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e
    BesselK1 BesselK1e BesselY0 BesselY1 Cos Cosh Dawsn Digamma Erf Erfc Erfinv Exp Expint Expm1 FresnelCos FresnelSin
    Igamma IgammaGradA Igammac Lgamma Log Log1p Ndtri Polygamma RandomGammaGrad Sin Sinh Spence Tan Zeta
"""

register_elementwise(1, *_ARITHMETIC.split(), *_FUNCTIONS.split())
register_elementwise(2, "SquaredDifference")  # subtract, square
register_elementwise(3, "Cross")  # two products and their difference

register_elementwise(2, "SqrtGrad")  # 0.5 * dy / y
register_elementwise(3, "RsqrtGrad")  # -0.5 * dy * y ** 3
register_elementwise(3, "ReciprocalGrad", "InvGrad")  # -dy * y * y

register_elementwise(1, "BiasAdd", "BiasAddV1")


def _is_constant(call: OpCall, index: int, number: int) -> bool:
    """Say whether an input is that number, known before the model runs; bigger constants are not looked at."""
    try:
        single = call.inputs[index].numel == 1
    except UnknownShapeError:
        return False
    value = call.value(index) if single else None
    return value is not None and bool((value == number).all())


def _unless_neutral(neutral: int, operands: tuple[int, ...]) -> Callable[[OpCall], Cost]:
    def formula(call: OpCall) -> Cost:
        """One operation for each output element, and none where an operand is known to leave the other as it is.

        TensorFlow writes ``silu`` as ``x * sigmoid(1.0 * x)``, and takes such products out before it runs a graph.
        """
        if not call.has_floats or any(_is_constant(call, operand, neutral) for operand in operands):
            return Cost(0, 0)
        return Cost(0, call.outputs[0].numel)

    return formula


for _names, _neutral, _operands in (
    (("Add", "AddV2"), 0, (0, 1)),
    (("Sub",), 0, (1,)),
    (("Mul",), 1, (0, 1)),
    (("Div", "RealDiv"), 1, (1,)),
):
    for _name in _names:
        register_op_cost(_name, _unless_neutral(_neutral, _operands))


@register_op_cost("AddN")
@register_op_cost("AccumulateNV2")
def add_all(call: OpCall) -> Cost:
    """``n - 1`` additions for each element of n summands."""
    return Cost(0, (len(call.inputs) - 1) * call.outputs[0].numel if call.has_floats else 0)


@register_op_cost("TridiagonalMatMul")
def tridiagonal_matmul(call: OpCall) -> Cost:
    """Three products and two additions for each output element."""
    return Cost(0, 5 * call.outputs[0].numel)
