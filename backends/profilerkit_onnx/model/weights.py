"""The weights of a model: which constants are parameters, how many elements they stand for, which layer holds them.

ONNX keeps parameters, statistics, tables and the constants of shapes in one list. The kind of a constant follows from
the metadata of torch's exporter, if there is any, and from its use: the weight of a convolution is a parameter, the
mean of a batch norm and a shape are buffers. A floating-point constant with dimensions that is used anywhere else is a
parameter. A ``Constant`` node is one only if the file has its weights in such nodes, or if its name is a parameter's,
because otherwise these nodes hold results of the exporter. Single numbers, such as the bounds of a clip, are neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from onnx import ModelProto

from profilerkit.backend_kit.scoped_calls import PlacedWeight
from profilerkit.costs.numbers import is_float
from profilerkit.trace.records import WeightRecord

from .constants import Constant
from .exported_module import ExportedModule
from .nodes import read_attributes

__all__ = ["BUFFERS", "NARROW", "PARAMETERS", "list_weights"]

#: The inputs of operators that are parameters whatever their dtype, by their places.
PARAMETERS = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "ConvInteger": (1,),
    "DeformConv": (1, 3),
    "DequantizeLinear": (0,),
    "DynamicQuantizeLSTM": (1, 2, 3),
    "DynamicQuantizeMatMul": (1, 4),
    "GatherBlockQuantized": (0,),
    "Gemm": (0, 1, 2),
    "GRU": (1, 2, 3),
    "LSTM": (1, 2, 3, 7),
    "MatMul": (0, 1),
    "MatMulInteger": (0, 1),
    "MatMulBnb4": (1,),
    "MatMulIntegerToFloat": (0, 1, 6),
    "MatMulNBits": (1,),
    "PRelu": (1,),
    "QAttention": (1, 2),
    "QGemm": (0, 3, 6),
    "QLinearAdd": (0, 3),
    "QLinearConv": (3, 8),
    "QLinearMatMul": (0, 3),
    "QLinearMul": (0, 3),
    "QMoE": (2, 4, 5, 7, 8, 10),
    "RNN": (1, 2, 3),
}
#: The inputs of operators that are values which the model keeps, or scales, but no parameters.
BUFFERS = {
    "Attention": (3, 4, 5),
    "BatchNormalization": (3, 4),
    "Clip": (1, 2),
    "DequantizeLinear": (1, 2),
    "DynamicQuantizeLSTM": (8, 9, 10, 11),
    "DynamicQuantizeMatMul": (2, 3),
    "GatherBlockQuantized": (2, 3),
    "GroupQueryAttention": (7, 8, 12, 13),
    "GRU": (4, 5),
    "LSTM": (4, 5, 6),
    "MatMulBnb4": (2,),
    "MultiHeadAttention": (4, 5),
    "MatMulIntegerToFloat": (2, 3, 4, 5),
    "MatMulNBits": (2, 3),
    "NonMaxSuppression": (3, 4),
    "OneHot": (1, 2),
    "Pad": (2,),
    "QAttention": (3, 4, 6, 7),
    "QGemm": (1, 2, 4, 5, 7, 8),
    "QLinearAdd": (1, 2, 4, 5, 6, 7),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearReduceMean"), (1, 2, 3, 4)),
    **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax"), (1, 2, 3, 4)),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QLinearMul": (1, 2, 4, 5, 6, 7),
    "QLinearWhere": (2, 3, 5, 6, 7, 8),
    "QMoE": (3, 6, 9, *range(11, 14), *range(15, 21)),
    "QuantizeLinear": (1, 2),
    "RNN": (4, 5),
    "Resize": (1, 2, 3),
    "RotaryEmbedding": (1, 2, 3),
    "STFT": (2,),
    "Upsample": (1,),
}
#: Dtypes of weights that are narrower than the numbers that they stand for, and the inputs where a constant of such a
#: dtype is a parameter: a table whose rows are looked up and then scaled, or numbers that a cast and arithmetic scale.
NARROW = ("int8", "uint8", "int4", "uint4", "int2", "uint2")
_SCALED = {"Add": (0, 1), "Gather": (0,), "Mul": (0, 1), "Sub": (0,)}
#: The inputs of operators where several elements may be packed into one.
_PACKED = {"GatherBlockQuantized": (0,), "MatMulBnb4": (1,), "MatMulNBits": (1,), "QMoE": (2, 5, 8)}
#: The names of parameters in torch, "encoder.0.bias", which no exporter gives its results.
_PARAMETER_NAME = re.compile(r"\w+(\.\w+)+")


def list_weights(model: ModelProto, constants: Sequence[Constant]) -> list[PlacedWeight]:
    """Return the parameters and buffers among a model's constants: a weight belongs to the layer whose nodes use it.

    A weight that several layers use belongs to each of them, with one identity: its place among the constants. Unused
    weights belong to the model. Packed weights have several numbers in an element: their record has no shape.
    """
    weights = []
    nodes_are_weights, module = _has_weights_in_nodes(constants), ExportedModule(model, constants)
    for identity, constant in enumerate(constants):
        is_parameter = _is_parameter(constant, module, nodes_are_weights)
        if constant.shape.numel <= 1 and not is_parameter:
            continue  # a number in the graph, such as a bound or a scale
        packed = _count_packed(constant)
        elements, shape = (constant.shape.numel, tuple(constant.shape)) if packed is None else (packed, ())
        for path in dict.fromkeys([use.path for use in constant.uses]) or [""]:
            label = constant.name.removeprefix(f"{path}.") if path else constant.name
            record = WeightRecord(label, identity, elements, constant.bytes, constant.dtype, None, shape=shape)
            weights.append(PlacedWeight(path, record, is_parameter))
    return weights


def _has_weights_in_nodes(constants: Sequence[Constant]) -> bool:
    """Return whether an exporter writes weights as ``Constant`` nodes, like PaddlePaddle's exporter: all of them."""
    has_weight = False
    for constant in constants:
        if constant.is_node:
            has_weight = has_weight or any(use.is_at(PARAMETERS) for use in constant.uses)
        elif constant.shape.numel > 1 and is_float(constant.dtype):
            return False
    return has_weight


def _is_parameter(constant: Constant, module: ExportedModule, nodes_are_weights: bool) -> bool:
    """Return whether a constant is a weight that is trained: by the exporter, the operators that use it, or its dtype.

    Integers are weights although a module that was quantized has them as buffers.
    """
    by_exporter, uses = module.is_parameter(constant), constant.uses
    if by_exporter is not None:
        return by_exporter
    if any(use.is_at(PARAMETERS) for use in uses):
        return True
    if not is_float(constant.dtype):
        is_scaled = any(use.is_at(_SCALED) for use in uses)
        return constant.dtype in NARROW and constant.shape.numel > 1 and is_scaled
    if not constant.shape or module.has_computed(constant):
        return False
    if constant.is_node and not nodes_are_weights and not _PARAMETER_NAME.fullmatch(constant.name):
        return False
    return not uses or any(not use.is_at(BUFFERS) for use in uses)


def _count_packed(constant: Constant) -> int | None:
    """Return how many elements packed weights stand for; None for weights that are not packed."""
    for use in constant.uses:
        if not use.is_at(_PACKED):
            continue
        sizes = read_attributes(use.node.attribute)
        if use.node.op_type in ("MatMulNBits", "MatMulBnb4"):
            return int(sizes.get("K", 0) * sizes.get("N", 0))
        if constant.dtype == "uint8":  # other integers are one element each
            own_bits = sizes.get(f"fc{(use.input + 1) // 3}_expert_weight_bits", 0)
            return int(constant.shape.numel * 8 // (own_bits or sizes.get("expert_weight_bits", sizes.get("bits", 4))))
    return None
