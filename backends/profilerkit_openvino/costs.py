"""Which formula of `profilerkit.costs` gives the cost of which operator of OpenVINO's sets, by the operator's name.

Operators that move, make, choose or compare data are known zeros. Operators without a formula here are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from profilerkit.backend_kit.operator_calls import (
    OperatorCall,
    Shapes,
    UnknownCostError,
    UnknownShapeError,
    read_equation,
)
from profilerkit.backend_kit.operator_costs import OperatorCosts
from profilerkit.costs import (
    CallForm,
    Cost,
    CostRegistry,
    activation,
    attention,
    convolution,
    detection,
    elementwise,
    fourier,
    linear_algebra,
    matmul,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
)
from profilerkit.costs.numbers import is_float

from .nodes import RECURRENT

__all__ = ["COSTS", "OPERATORS", "Call", "Cost", "Shapes", "UnknownShapeError", "register_op_cost"]

COSTS = CostRegistry("OpenVINO", called_with={"operator": CallForm(("call",))})
OPERATORS = OperatorCosts(COSTS, example="Convolution")
register_op_cost = OPERATORS.register
_register = OPERATORS.register_all


@dataclass(frozen=True)
class Call(OperatorCall):
    """One call of an operator: the argument of formulas.

    Attributes:
        attributes: The attributes of the node by name, as OpenVINO has them.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)


# Moved, made, chosen, compared ----------------------------------------------------------------------------------------
_FREE = """
    Assign BatchToSpace BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr BitwiseRightShift BitwiseXor Broadcast
    Bucketize Concat Constant Convert ConvertLike ConvertPromoteTypes DepthToSpace Equal ExtractImagePatches Eye Gather
    GatherElements GatherND GatherTree Greater GreaterEqual Identity IsFinite IsInf IsNaN Less LessEqual LogicalAnd
    LogicalNot LogicalOr LogicalXor Multinomial NonZero NotEqual OneHot Pad Parameter RandomUniform Range ReadValue
    ReduceLogicalAnd ReduceLogicalOr ReorgYolo Reshape Result Reverse ReverseSequence Roll ScatterUpdate SearchSorted
    Select ShapeOf ShuffleChannels Slice SliceScatter SpaceToBatch SpaceToDepth SparseFillEmptyRows Split Squeeze
    StridedSlice StringTensorPack StringTensorUnpack Tile TopK Transpose Unique Unsqueeze VariadicSplit Xor
"""
OPERATORS.register_free(*_FREE.split())

# Element by element ---------------------------------------------------------------------------------------------------
#: Operators, by the constant of the convention that each of them is.
_FUNCTIONS = {
    "ABSOLUTE": "Abs",
    "COMPARE": "Maximum Minimum",
    "ERF": "Erf",
    "EXP": "Exp",
    "LOG": "Log",
    "NEGATE": "Negative",
    "POWER": "Power",
    "ROUND": "Ceiling Floor FloorMod Mod Round",
    "SIGN": "Sign",
    "SINE": "Cos Cosh Sin Sinh",
    "SPECIAL": "Acos Acosh Asin Asinh Atan Atanh ErfInv Tan",
    "SQRT": "Sqrt",
}
for _constant, _names in _FUNCTIONS.items():
    OPERATORS.register_elementwise(elementwise.elementary(_constant), *_names.split())
for _formula, _names in (
    (activation.clamp, "Clamp"),
    (activation.elu, "Elu Selu"),
    (activation.hard_sigmoid, "HSigmoid HardSigmoid"),
    (activation.hard_swish, "HSwish"),
    (activation.leaky_relu, "PRelu"),
    (activation.mish, "Mish"),
    (activation.relu, "Relu"),
    (activation.sigmoid, "Sigmoid"),
    (activation.softmax, "Softmax"),
    (activation.softplus, "SoftPlus"),
    (activation.softsign, "SoftSign"),
    (activation.tanh, "Tanh"),
    (elementwise.squared_difference, "SquaredDifference"),
    (normalization.normalize, "GroupNormalization"),
    (normalization.normalize_with_known_statistics, "BatchNormInference"),
    (quantization.fake_quantize, "FakeQuantize"),
):
    OPERATORS.register_elementwise(_formula, *_names.split())
OPERATORS.register_elementwise(lambda elements: activation.softmax(elements, log=True), "LogSoftmax")
OPERATORS.register_unless_neutral("ADD", "Add", neutral=0, operands=(0, 1))
OPERATORS.register_unless_neutral("SUBTRACT", "Subtract", neutral=0, operands=(1,))
OPERATORS.register_unless_neutral("MULTIPLY", "Multiply", neutral=1, operands=(0, 1))
OPERATORS.register_unless_neutral("DIVIDE", "Divide", neutral=1, operands=(1,))


@_register("Gelu")
def gelu(call: Call) -> Cost:
    """By erf, or approximately by tanh."""
    return activation.gelu(call.outputs[0].numel, approximate=call.attributes.get("approximation_mode") == "TANH")


@_register("Swish")
def swish(call: Call) -> Cost:
    """``x * sigmoid(beta * x)``; the product with a beta of 1, the default, is none."""
    elements = call.outputs[0].numel
    cost = activation.silu(elements)
    is_scaled = call.has_input(1) and not call.is_constant(1, 1)
    return cost.plus(elementwise.elementary("MULTIPLY")(elements)) if is_scaled else cost


# Reductions and normalization -----------------------------------------------------------------------------------------
for _formula, _names in (
    (reduction.total, "ReduceSum ReduceMean CumSum"),
    (reduction.extreme, "ReduceMax ReduceMin SegmentMax"),
    (reduction.multiply, "ReduceProd"),
    (reduction.norm, "ReduceL2"),
):
    OPERATORS.register_reduction(_formula, *_names.split())


@_register("ReduceL1")
def reduce_l1(call: Call) -> Cost:
    """``sum(abs(x))``."""
    return elementwise.elementary("ABSOLUTE")(call.inputs[0].numel).plus(reduction.total(call.inputs[0].numel))


@_register("NormalizeL2", "GRN")
def normalize_by_norm(call: Call) -> Cost:
    """``x / norm(x)``."""
    elements = call.inputs[0].numel
    return reduction.norm(elements).plus(elementwise.elementary("DIVIDE")(elements))


@_register("MVN")
def normalize_mean_and_variance(call: Call) -> Cost:
    """Without scale and shift; without the variance a mean and a difference."""
    elements = call.inputs[0].numel
    if call.attributes.get("normalize_variance", True):
        return normalization.normalize(elements, scale=False, shift=False)
    return reduction.total(elements).plus(elementwise.elementary("SUBTRACT")(elements))


@_register("LRN")
def local_response(call: Call) -> Cost:
    """A window of ``size`` elements along each of the axes."""
    axes = np.size(call.read(1)) if call.has_input(1) else 1
    return normalization.local_response(call.inputs[0].numel, call.attributes["size"] ** axes)


# Products -------------------------------------------------------------------------------------------------------------
#: Convolutions, with the number of weight dimensions that count filters; one filter has the other dimensions.
_CONVOLUTIONS = {
    "BinaryConvolution": 1,  # of (out, in, *kernel)
    "Convolution": 1,
    "GroupConvolution": 2,  # of (groups, out / groups, in / groups, *kernel)
    "ConvolutionBackpropData": 1,  # of (in, out, *kernel)
    "GroupConvolutionBackpropData": 2,  # of (groups, in / groups, out / groups, *kernel)
}


@_register(*_CONVOLUTIONS)
def convolve(call: Call) -> Cost:
    """Each output element meets one filter; of a transposed convolution, each input element."""
    is_transposed = call.type.endswith("BackpropData")
    filtered = call.inputs[0] if is_transposed else call.outputs[0]
    return convolution.convolution(filtered.numel, prod(call.inputs[1][_CONVOLUTIONS[call.type] :]))


@_register("DeformableConvolution")
def convolve_deformed(call: Call) -> Cost:
    """A convolution of elements that are first taken between neighbours, for each output position and kernel place."""
    x, weight, out = call.inputs[0], call.inputs[2], call.outputs[0]
    sampled = out[0] * x[1] * prod(weight[2:]) * prod(out[2:])
    return convolution.deformable_convolution(out.numel, prod(weight[1:]), sampled, call.has_input(3))


@_register("MatMul")
def multiply_matrices(call: Call) -> Cost:
    """One multiply-accumulate for each output element and each element that is summed over."""
    first = call.inputs[0]
    summed = first[-2] if call.attributes.get("transpose_a") and len(first) > 1 else first[-1]
    return matmul.product(call.outputs[0].numel * summed)


@_register("Einsum")
def einsum(call: Call) -> Cost:
    """By `profilerkit.costs.matmul.contraction`."""
    return matmul.contraction(*read_equation(call.attributes["equation"], call.inputs, call.outputs[0]))


@_register("ScaledDotProductAttention")
def attend(call: Call) -> Cost:
    """Queries ``(..., length, width)``, keys and values likewise; a mask of booleans or of one number costs nothing."""
    query, key, value = call.inputs[0], call.inputs[1], call.inputs[2]
    has_mask = call.has_input(3) and is_float(call.input_dtypes[3]) and call.inputs[3].numel > 1
    scores = prod(call.outputs[0][:-1]) * key[-2]
    return attention.attention(scores, query[-1], value[-1], has_mask)


@_register("Inverse")
def invert(call: Call) -> Cost:
    """Each matrix of a batch."""
    return linear_algebra.inverse(prod(call.inputs[0][:-2]), call.inputs[0][-1])


# Recurrent layers -----------------------------------------------------------------------------------------------------
#: The functions of the layers that have formulas.
_USUAL_FUNCTIONS = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"]}


@_register(*RECURRENT)
def recur(call: Call) -> Cost:
    """Weights ``(directions, gates * units, features)`` and ``(directions, gates * units, units)``, and biases.

    A cell has no directions. Biases that are all zero stand for none.
    """
    inputs = RECURRENT[call.type]
    weights, recurrent_weights = call.inputs[inputs.weights], call.inputs[inputs.recurrent_weights]
    biases = call.value(inputs.biases)
    bias_elements = 0 if biases is not None and not np.any(biases) else call.inputs[inputs.biases].numel
    units = recurrent_weights.numel // recurrent_weights[-2]
    steps = _count_steps(call, inputs.lengths)
    is_cell = inputs.lengths is None
    cost = recurrent.layers(
        _name_kind(call), steps, weights.numel + recurrent_weights.numel, bias_elements, units, is_cell
    )
    if call.attributes.get("clip"):  # the argument of each activation is clamped
        cost = cost.plus(activation.clamp(steps * units * recurrent.ACTIVATIONS[_name_kind(call)]))
    if not call.has_input(inputs.peepholes):
        return cost
    return cost.plus(elementwise.scale_and_shift(steps * call.inputs[inputs.peepholes].numel))


def _name_kind(call: Call) -> str:
    """Return the kind of a recurrent layer for `recurrent.layers`; raise `UnknownCostError` for an unknown kind."""
    family = call.type.removesuffix("Sequence").removesuffix("Cell").lower()
    functions = [str(name) for name in call.attributes["activations"]]
    kind = f"rnn_{functions[0]}" if family == "rnn" else family
    if kind not in recurrent.GATES or functions != _USUAL_FUNCTIONS.get(kind, functions):
        raise UnknownCostError
    return kind


def _count_steps(call: Call, lengths_input: int | None) -> int:
    """Return the steps of all sequences, each up to its length; all of them if the lengths are not known.

    A cell takes one step of each sample.
    """
    x = call.inputs[0]
    if lengths_input is None:
        return int(x[0])
    lengths = call.value(lengths_input)
    if lengths is None:
        return int(x[0] * x[1])
    return int(np.broadcast_to(np.clip(lengths, 0, x[1]), x[:1]).sum())


# Pooling, resampling, detection, transforms ---------------------------------------------------------------------------
@_register("MaxPool", "AvgPool")
def pool(call: Call) -> Cost:
    """One comparison or addition for each element of the window."""
    return pooling.pool(call.outputs[0].numel, prod(call.attributes["kernel"]), average=call.type == "AvgPool")


@_register("AdaptiveAvgPool", "AdaptiveMaxPool")
def pool_adaptively(call: Call) -> Cost:
    """Windows as large as the sizes of input and output need."""
    x, out = call.inputs[0], call.outputs[0]
    elements = prod(x[:2]) * pooling.adaptive_windows(zip(x[2:], out[2:], strict=True))
    return pooling.pool(elements, 1, average=call.type == "AdaptiveAvgPool")


#: How many neighbours an interpolation has in each dimension.
_NEIGHBOURS = {"nearest": 1, "linear": 2, "linear_onnx": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


@_register("Interpolate")
def interpolate(call: Call) -> Cost:
    """A weighted sum of neighbours along each dimension that changes its size; the nearest alone is moved."""
    neighbours = _NEIGHBOURS.get(call.attributes["mode"])
    if neighbours is None or (call.attributes.get("antialias") and neighbours > 1):
        raise UnknownCostError
    resized = sum(before != after for before, after in zip(call.inputs[0], call.outputs[0], strict=True))
    return pooling.resample(call.outputs[0].numel, neighbours**resized)


@_register("GridSample")
def sample_grid(call: Call) -> Cost:
    """A weighted sum of the neighbours in both dimensions of the image."""
    return pooling.resample(call.outputs[0].numel, _NEIGHBOURS[call.attributes.get("mode", "bilinear")] ** 2)


@_register("ROIAlign")
def align_regions(call: Call) -> Cost:
    """``sampling_ratio ** 2`` points for each output element; adaptive ones depend on the boxes."""
    ratio = call.attributes["sampling_ratio"]
    if not ratio or call.attributes["mode"] != "avg":
        raise UnknownCostError
    return detection.roi_align(call.outputs[0].numel, ratio**2)


@_register("NonMaxSuppression")
def suppress(call: Call) -> Cost:
    """The overlaps of the boxes of each image, once for each class."""
    return detection.non_maximum_suppression(call.inputs[0][1]).times(prod(call.inputs[1][:2]))


#: Bags of embeddings, and the index of the input for the weights of the looked-up rows, if there are any.
_BAGS = {
    "EmbeddingBagOffsets": 4,
    "EmbeddingBagOffsetsSum": 4,
    "EmbeddingBagPacked": 2,
    "EmbeddingBagPackedSum": 2,
    "EmbeddingSegmentsSum": 5,
}


@_register(*_BAGS)
def add_bags(call: Call) -> Cost:
    """An addition for each looked-up element, and a product if there are weights."""
    return pooling.embedding_bag(call.inputs[1].numel * prod(call.inputs[0][1:]), call.has_input(_BAGS[call.type]))


@_register("ScatterElementsUpdate", "ScatterNDUpdate")
def scatter(call: Call) -> Cost:
    """An addition, product or comparison for each of the updates, unless they replace."""
    replaces = str(call.attributes.get("reduction", "none")).lower() == "none"
    return reduction.scatter(call.inputs[2].numel, accumulates=not replaces)


@_register("Col2Im")
def add_columns(call: Call) -> Cost:
    """Overlapping elements add up: an addition for each input element."""
    return reduction.scatter(call.inputs[0].numel)


@_register("DFT", "IDFT", "RDFT", "IRDFT")
def transform(call: Call) -> Cost:
    """A transform along each of the axes, of the lengths in the third input, or else of the tensor's lengths.

    The last dimension of complex tensors has the parts of the numbers.
    """
    axes = [int(axis) for axis in np.ravel(call.read(1))]
    if call.type == "RDFT":  # its output has half of the frequencies
        sizes = list(call.inputs[0])
        for axis, size in zip(axes, np.ravel(call.read(2)) if call.has_input(2) else (), strict=False):
            sizes[axis] = sizes[axis] if size == -1 else int(size)
    else:
        sizes = list(call.outputs[0] if call.type == "IRDFT" else call.outputs[0][:-1])
    is_real = call.type in ("RDFT", "IRDFT")
    costs = [fourier.transform(prod(sizes), sizes[axis], is_real) for axis in axes]
    return Cost(0, sum(cost.flops for cost in costs))


COSTS.mark_as_shipped()
