"""The operators of LiteRT's schema, and the formula of each operator.

Images are channels last. Operators on integers alone count their multiply-accumulates, and nothing else.
"""

from __future__ import annotations

from ai_edge_litert.schema_py_generated import ReduceWindowFunction

from profilerkit.backend_kit.operator_calls import UnknownCostError
from profilerkit.costs import (
    Cost,
    Shape,
    activation,
    convolution,
    detection,
    elementwise,
    fourier,
    matmul,
    normalization,
    pooling,
    quantization,
    reduction,
)

from .registry import OPERATORS, LiteRTCall

# Element by element ---------------------------------------------------------------------------------------------------

#: Operators, by the constant of the convention that each of them is.
_FUNCTIONS = {
    "DIVIDE": "STABLEHLO_DIVIDE",
    "MULTIPLY": "STABLEHLO_MULTIPLY",
    "ADD": "STABLEHLO_ADD",
    "SUBTRACT": "STABLEHLO_SUBTRACT",
    "NEGATE": "NEG STABLEHLO_NEGATE",
    "ABSOLUTE": "ABS COMPLEX_ABS STABLEHLO_ABS",
    "ANGLE": "ATAN2",
    "COMPARE": "MAXIMUM MINIMUM STABLEHLO_MAXIMUM STABLEHLO_MINIMUM",
    "SIGN": "SIGN",
    "ROUND": "CEIL FLOOR FLOOR_DIV FLOOR_MOD ROUND STABLEHLO_FLOOR STABLEHLO_REMAINDER",
    "POWER": "POW SQUARE STABLEHLO_POWER",
    "SQRT": "SQRT",
    "RSQRT": "RSQRT STABLEHLO_RSQRT",
    "EXP": "EXP STABLEHLO_EXPONENTIAL",
    "LOG": "LOG STABLEHLO_LOG",
    "TANH": "TANH STABLEHLO_TANH",
    "SIGMOID": "LOGISTIC STABLEHLO_LOGISTIC",
    "SINE": "COS SIN STABLEHLO_COSINE",
    "SPECIAL": "STABLEHLO_CBRT",
}
for _constant, _names in _FUNCTIONS.items():
    OPERATORS.register_elementwise(elementwise.elementary(_constant), *_names.split())
OPERATORS.register_unless_neutral("ADD", "ADD", neutral=0, operands=(0, 1))
OPERATORS.register_unless_neutral("SUBTRACT", "SUB", neutral=0, operands=(1,))
OPERATORS.register_unless_neutral("MULTIPLY", "MUL", neutral=1, operands=(0, 1))
OPERATORS.register_unless_neutral("DIVIDE", "DIV", neutral=1, operands=(1,))
OPERATORS.register_elementwise(elementwise.squared_difference, "SQUARED_DIFFERENCE")
OPERATORS.register_elementwise(activation.relu, "RELU")
OPERATORS.register_elementwise(activation.clamp, "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "STABLEHLO_CLAMP")
OPERATORS.register_elementwise(activation.leaky_relu, "LEAKY_RELU", "PRELU")
OPERATORS.register_elementwise(activation.elu, "ELU")
OPERATORS.register_elementwise(activation.hard_swish, "HARD_SWISH")
OPERATORS.register_elementwise(lambda elements: activation.softmax(elements, log=True), "LOG_SOFTMAX")
OPERATORS.register_elementwise(quantization.fake_quantize, "FAKE_QUANT")


@OPERATORS.register("ADD_N")
def add_all(call: LiteRTCall) -> Cost:
    """``n - 1`` additions for each element of n summands."""
    return elementwise.add_summands(len(call.inputs), call.outputs[0].numel)


@OPERATORS.register("GELU")
def gelu(call: LiteRTCall) -> Cost:
    """By erf, or approximately by tanh."""
    return activation.gelu(call.outputs[0].numel, approximate=bool(call.option("approximate", False)))


@OPERATORS.register("SOFTMAX")
def softmax(call: LiteRTCall) -> Cost:
    """``softmax(beta * x)``; the product with a beta of 1 is none."""
    elements = call.outputs[0].numel
    cost = activation.softmax(elements)
    return cost if call.option("beta", 1.0) == 1.0 else cost.plus(elementwise.elementary("MULTIPLY")(elements))


@OPERATORS.register("QUANTIZE")
def quantize(call: LiteRTCall) -> Cost:
    """``clamp(round(x / scale) + zero_point)``; from integers to others it is work on integers."""
    is_of_floats = call.input_dtypes[0].startswith("float")
    return quantization.quantize(call.inputs[0].numel) if is_of_floats else Cost(0, 0)


@OPERATORS.register("DEQUANTIZE")
def dequantize(call: LiteRTCall) -> Cost:
    """``(x - zero_point) * scale``; from float16 it is a cast."""
    is_of_integers = "int" in call.input_dtypes[0]
    return quantization.dequantize(call.inputs[0].numel) if is_of_integers else Cost(0, 0)


# Products -------------------------------------------------------------------------------------------------------------


@OPERATORS.register_all("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D", "STABLEHLO_CONVOLUTION")
def convolve(call: LiteRTCall) -> Cost:
    """Each output element meets one filter: all of the weight but its output channels."""
    out, weight = call.outputs[0].numel, call.inputs[1]
    one_filter = weight.numel // max(weight[_find_channels(call)], 1)
    if call.type == "DEPTHWISE_CONV_2D":
        one_filter //= weight[0]
    return convolution.convolution(out, one_filter, out if call.has_input(2) else 0)


def _find_channels(call: LiteRTCall) -> int:
    """Return which dimension of a weight has the channels of the output."""
    if call.type == "STABLEHLO_CONVOLUTION":
        return int(call.option("kernelOutputFeatureDimension", 0))
    return 0 if call.type == "CONV_2D" else -1


@OPERATORS.register_all("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE")
def convolve_transposed(call: LiteRTCall) -> Cost:
    """Each input element meets one filter; the first input is the shape of the output, the third the image."""
    weight, biased = call.inputs[1], call.outputs[0].numel if call.has_input(3) else 0
    return convolution.convolution(call.inputs[2].numel, weight.numel // max(weight[-1], 1), biased)


@OPERATORS.register("FULLY_CONNECTED")
def connect(call: LiteRTCall) -> Cost:
    """Weights ``(units, features)``, and a bias if there is one."""
    out = call.outputs[0].numel
    return matmul.product(out * call.inputs[1][-1], out if call.has_input(2) else 0)


@OPERATORS.register("BATCH_MATMUL")
def multiply(call: LiteRTCall) -> Cost:
    """Each output element sums over the last dimension of the first factor, or of its transpose."""
    return matmul.product(call.outputs[0].numel * call.inputs[0][-2 if call.option("adjX", False) else -1])


@OPERATORS.register("STABLEHLO_DOT_GENERAL")
def contract(call: LiteRTCall) -> Cost:
    """Each output element sums over the contracted dimensions of the first factor."""
    axes = call.option("lhsContractingDimensions")
    return matmul.product(
        call.outputs[0].numel * Shape(call.inputs[0][axis] for axis in (() if axes is None else axes)).numel
    )


@OPERATORS.register("SVDF")
def filter_by_rank(call: LiteRTCall) -> Cost:
    """A product with the weights of features, one over time for each filter, and the sum of the filters of a unit."""
    batch, (filters, features), memory = call.inputs[0][0], call.inputs[1], call.inputs[2][1]
    units = call.outputs[0].numel
    added = batch * filters - units + (units if call.has_input(3) else 0)
    return matmul.product(batch * filters * (features + memory), added)


# Windows and images ---------------------------------------------------------------------------------------------------


@OPERATORS.register_all("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool(call: LiteRTCall) -> Cost:
    """One comparison or addition for each element of the window."""
    window = call.option("filterHeight") * call.option("filterWidth")
    return pooling.pool(call.outputs[0].numel, window, average=call.type.startswith("AVERAGE"))


@OPERATORS.register("L2_POOL_2D")
def pool_squares(call: LiteRTCall) -> Cost:
    """A power and an addition for each element of the window."""
    return reduction.norm(call.outputs[0].numel * call.option("filterHeight") * call.option("filterWidth"))


@OPERATORS.register("REDUCE_WINDOW")
def reduce_windows(call: LiteRTCall) -> Cost:
    """An operation for each element of the window, whose shape is the third input; truth values cost nothing."""
    window, function = int(call.read(2).prod()), call.option("reduceFunction", ReduceWindowFunction.UNSUPPORTED)
    if function in (ReduceWindowFunction.ALL, ReduceWindowFunction.ANY):
        return Cost(0, 0)
    if function in (ReduceWindowFunction.ADD, ReduceWindowFunction.MUL):
        return pooling.pool(call.outputs[0].numel, window, average=True)
    if function in (ReduceWindowFunction.MINIMUM, ReduceWindowFunction.MAXIMUM):
        return pooling.pool(call.outputs[0].numel, window, average=False)
    raise UnknownCostError


@OPERATORS.register("RESIZE_BILINEAR")
def resize(call: LiteRTCall) -> Cost:
    """A weighted sum of two neighbours along each dimension that changes its size."""
    source, out = call.inputs[0], call.outputs[0]
    return pooling.resample(out.numel, 2 ** sum(before != after for before, after in zip(source, out, strict=True)))


@OPERATORS.register_all("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def suppress(call: LiteRTCall) -> Cost:
    """The overlaps of all boxes."""
    return detection.non_maximum_suppression(call.inputs[0][0])


@OPERATORS.register("LOCAL_RESPONSE_NORMALIZATION")
def normalize_locally(call: LiteRTCall) -> Cost:
    """A window of ``radius`` channels on either side."""
    return normalization.local_response(call.inputs[0].numel, 2 * call.option("radius", 0) + 1)


@OPERATORS.register("L2_NORMALIZATION")
def normalize(call: LiteRTCall) -> Cost:
    """``x / norm(x)``."""
    elements = call.inputs[0].numel
    return reduction.norm(elements).plus(elementwise.elementary("DIVIDE")(elements))


@OPERATORS.register("RFFT2D")
def transform(call: LiteRTCall) -> Cost:
    """Transforms of real images of a length that the second input tells."""
    length = int(call.read(1).prod())
    return fourier.transform(Shape(call.inputs[0][:-2]).numel * length, length, real=True)


# Reductions -----------------------------------------------------------------------------------------------------------

OPERATORS.register_reduction(reduction.total, "CUMSUM", "MEAN", "SEGMENT_SUM", "SUM", "UNSORTED_SEGMENT_SUM")
OPERATORS.register_reduction(reduction.multiply, "REDUCE_PROD", "UNSORTED_SEGMENT_PROD")
OPERATORS.register_reduction(
    reduction.extreme, "REDUCE_MAX", "REDUCE_MIN", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN"
)


@OPERATORS.register("SCATTER_ND")
def scatter(call: LiteRTCall) -> Cost:
    """An addition for each of the updates."""
    return reduction.scatter(call.inputs[1].numel)


@OPERATORS.register("EMBEDDING_LOOKUP_SPARSE")
def look_up_weighted(call: LiteRTCall) -> Cost:
    """Rows that are added up with weights; a mean and a root mean square also divide each sum, which is not counted."""
    return pooling.embedding_bag(call.inputs[0].numel * Shape(call.inputs[4][1:]).numel, weighted=True)


# Without arithmetic ---------------------------------------------------------------------------------------------------

#: Copies, casts, rearrangements and look-ups.
_MOVED = """
    BATCH_TO_SPACE_ND BITCAST BROADCAST_TO CAST CONCATENATION DENSIFY DEPTH_TO_SPACE DILATE DYNAMIC_UPDATE_SLICE
    EMBEDDING_LOOKUP EXPAND_DIMS GATHER GATHER_ND HASHTABLE_LOOKUP IMAG MATRIX_DIAG MATRIX_SET_DIAG MIRROR_PAD PACK PAD
    PADV2 REAL RESHAPE RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2 SLICE SPACE_TO_BATCH_ND SPACE_TO_DEPTH
    SPARSE_TO_DENSE SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TILE TRANSPOSE UNPACK
    STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONCATENATE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE
    STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_GATHER STABLEHLO_PAD STABLEHLO_RESHAPE STABLEHLO_SLICE STABLEHLO_TRANSPOSE
"""
#: New tensors, tables and variables.
_MADE = """
    ASSIGN_VARIABLE BROADCAST_ARGS FILL HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE MULTINOMIAL ONE_HOT
    RANDOM_STANDARD_NORMAL RANDOM_UNIFORM RANGE RANK READ_VARIABLE SHAPE VAR_HANDLE ZEROS_LIKE STABLEHLO_IOTA
    STABLEHLO_RNG_BIT_GENERATOR
"""
#: Choices, comparisons, truth values and work on integers.
_CHOSEN = """
    ARG_MAX ARG_MIN BITWISE_XOR BUCKETIZE EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_NOT LOGICAL_OR
    NOT_EQUAL REDUCE_ALL REDUCE_ANY RIGHT_SHIFT SELECT SELECT_V2 SKIP_GRAM TOPK_V2 UNIQUE WHERE STABLEHLO_AND
    STABLEHLO_COMPARE STABLEHLO_OR STABLEHLO_SELECT STABLEHLO_SHIFT_LEFT STABLEHLO_SORT
"""
for _names in (_MOVED, _MADE, _CHOSEN):
    OPERATORS.register_free(*_names.split())
