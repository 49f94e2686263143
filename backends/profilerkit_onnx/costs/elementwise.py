"""Operators without floating-point arithmetic, and elementary functions and quantization, element by element.

Comparisons that return truth values cost nothing here, as in the other backends.
"""

from __future__ import annotations

from profilerkit.costs import elementwise, quantization

from .registry import OPERATORS, Cost, NodeCall, register_op_cost

# Without arithmetic ---------------------------------------------------------------------------------------------------
#: Copies, casts and rearrangements.
_MOVED = """
    BitCast Cast CastLike CenterCropPad Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND
    Identity MaxUnpool Pad Reshape ReverseSequence Scatter Slice SpaceToDepth Split Squeeze TensorScatter Tile Transpose
    Trilu Unsqueeze com.microsoft.nchwc::ReorderInput com.microsoft.nchwc::ReorderOutput
"""
#: New tensors.
_MADE = """
    Constant ConstantOfShape EyeLike OneHot Range Shape Size
    Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike
"""
#: Choices, comparisons and truth values, and the indices of the largest and smallest elements.
_CHOSEN = """
    And ArgMax ArgMin Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual NonZero Not Or TopK Unique Where Xor
"""
#: Sequences and optional values.
_CONTAINERS = """
    ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty
    SequenceErase SequenceInsert SequenceLength SplitToSequence
"""
#: Texts and images in files.
_TEXTS = "ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit"
#: Work on bits.
_BITS = "BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor"
#: Look-ups of ai.onnx.ml, and a comparison.
_OF_TABLES = """
    ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer LabelEncoder OneHotEncoder
    ZipMap
"""
#: Work on integers alone, whose scales are folded into tables and shifts: it costs nothing, as in the other backends.
_OF_INTEGERS = """
    QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean
    QLinearSigmoid QLinearSoftmax QLinearWhere
"""
for _names in (_MOVED, _MADE, _CHOSEN, _CONTAINERS, _TEXTS, _BITS):
    OPERATORS.register_free(*_names.split())
OPERATORS.register_free(*(f"ai.onnx.ml::{name}" for name in _OF_TABLES.split()))
OPERATORS.register_free(*(f"com.microsoft::{name}" for name in _OF_INTEGERS.split()))

# Elementary functions -------------------------------------------------------------------------------------------------
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


@register_op_cost("com.microsoft::BiasAdd")
def add_bias_and_skip(call: NodeCall) -> Cost:
    """``x + bias + skip``."""
    return elementwise.add_summands(3, call.outputs[0].numel)


@OPERATORS.register_all("Max", "Min")
def extreme_of_all(call: NodeCall) -> Cost:
    """``n - 1`` comparisons for each element of n tensors."""
    return elementwise.elementary("COMPARE")((len(call.inputs) - 1) * call.outputs[0].numel)


# To quantized integers and back ---------------------------------------------------------------------------------------
_BACK = ("DequantizeLinear", "com.microsoft::DequantizeLinear", "com.microsoft::GatherBlockQuantized")
OPERATORS.register_elementwise(quantization.dequantize, *_BACK)


@OPERATORS.register_all("QuantizeLinear", "DynamicQuantizeLinear", "com.microsoft::QuantizeLinear")
def quantize(call: NodeCall) -> Cost:
    """``clamp(round(x / scale) + zero_point)``; a dynamic one finds the range of the values first."""
    return quantization.quantize(call.inputs[0].numel, finds_range=call.type == "DynamicQuantizeLinear")
