"""Element-wise operators that are no activations: the elementary function or formula of each."""

from __future__ import annotations

from profilerkit.costs import elementwise

from .registry import OPERATORS, Cost, OpCall, register_elementwise, register_op_cost, register_op_costs

#: Operators, by the constant of the convention that is their cost for each element.
_FUNCTIONS = {
    "ADD": "BiasAdd BiasAddV1",
    "MULTIPLY": "MulNoNan",
    "DIVIDE": "DivNoNan Inv Reciprocal Xdivy",
    "NEGATE": "Neg",
    "ABSOLUTE": "Abs ComplexAbs",
    "ANGLE": "Angle",
    "COMPARE": "Maximum Minimum",
    "SIGN": "Sign",
    "ROUND": "Ceil Floor FloorDiv FloorMod Mod Rint Round TruncateDiv TruncateMod",
    "POWER": "Pow Square",
    "SQRT": "Sqrt",
    "RSQRT": "Rsqrt",
    "EXP": "Exp Expm1",
    "LOG": "Log Log1p",
    "ERF": "Erf Erfc",
    "SINE": "Cos Cosh Sin Sinh",
    "SPECIAL": """
        Acos Acosh Asin Asinh Atan Atan2 Atanh Betainc BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1
        BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Dawsn Digamma Erfinv Expint FresnelCos FresnelSin
        Igamma IgammaGradA Igammac Lgamma Ndtri NextAfter Polygamma RandomGammaGrad Spence Tan Xlog1py Xlogy Zeta
    """,
}
for _constant, _names in _FUNCTIONS.items():
    register_elementwise(elementwise.elementary(_constant), *_names.split())
register_elementwise(elementwise.squared_difference, "SquaredDifference")
register_elementwise(elementwise.cross, "Cross")
register_elementwise(elementwise.sqrt_gradient, "SqrtGrad")
register_elementwise(elementwise.rsqrt_gradient, "RsqrtGrad")
register_elementwise(elementwise.reciprocal_gradient, "ReciprocalGrad", "InvGrad")

# TensorFlow writes ``silu`` as ``x * sigmoid(1.0 * x)``, and removes such products before it runs a graph.
OPERATORS.register_unless_neutral("ADD", "Add", "AddV2", neutral=0, operands=(0, 1))
OPERATORS.register_unless_neutral("SUBTRACT", "Sub", neutral=0, operands=(1,))
OPERATORS.register_unless_neutral("MULTIPLY", "Mul", neutral=1, operands=(0, 1))
OPERATORS.register_unless_neutral("DIVIDE", "Div", "RealDiv", neutral=1, operands=(1,))


@register_op_costs("AddN", "AccumulateNV2")
def add_all(call: OpCall) -> Cost:
    """``n - 1`` additions for each element of n summands."""
    return elementwise.add_summands(len(call.inputs), call.outputs[0].numel if call.has_floats else 0)


@register_op_cost("TridiagonalMatMul")
def tridiagonal_matmul(call: OpCall) -> Cost:
    """Three products and two additions for each output element."""
    return elementwise.tridiagonal_product(call.outputs[0].numel)
