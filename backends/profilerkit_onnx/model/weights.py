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
from typing import NamedTuple

from profilerkit.backend_kit.scoped_calls import PlacedWeight
from profilerkit.costs.numbers import is_float
from profilerkit.trace.records import WeightRecord

from .constants import Constant, Use
from .exported_module import ExportedModule
from .nodes import read_attributes

__all__ = ["find_places", "list_weights"]


class _Places(NamedTuple):
    """The inputs of an operator, by their indices, whose meaning follows from their place.

    Attributes:
        weights: Parameters whatever their dtype.
        kept: Values that the model keeps, or scales, but no parameters.
        narrow: Parameters if their dtype is one of `_NARROW`: a table whose rows are looked up and then scaled, or
            numbers that a cast and arithmetic scale.
    """

    weights: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    narrow: tuple[int, ...] = ()


#: The places in operators that have such inputs.
_PLACES = {
    "Add": _Places(narrow=(0, 1)),
    "Attention": _Places(kept=(3, 4, 5)),
    "BatchNormalization": _Places(kept=(3, 4)),
    "CausalConvWithState": _Places(kept=(3,)),
    "Clip": _Places(kept=(1, 2)),
    "Conv": _Places(weights=(1, 2)),
    "ConvInteger": _Places(weights=(1,)),
    "ConvTranspose": _Places(weights=(1, 2)),
    "DeformConv": _Places(weights=(1, 3)),
    "DequantizeLinear": _Places(weights=(0,), kept=(1, 2)),
    "DynamicQuantizeLSTM": _Places(weights=(1, 2, 3, 7), kept=(4, 5, 6, 8, 9, 10, 11)),
    "DynamicQuantizeMatMul": _Places(weights=(1, 4), kept=(2, 3)),
    "Gather": _Places(narrow=(0,)),
    "GatherBlockQuantized": _Places(weights=(0,), kept=(2, 3)),
    "Gemm": _Places(weights=(0, 1, 2)),
    "GroupQueryAttention": _Places(kept=(3, 4, 7, 8, 10, 12, 13)),
    "GRU": _Places(weights=(1, 2, 3), kept=(4, 5)),
    "LinearAttention": _Places(kept=(3,)),
    "LSTM": _Places(weights=(1, 2, 3, 7), kept=(4, 5, 6)),
    "MatMul": _Places(weights=(0, 1)),
    "MatMulBnb4": _Places(weights=(1,), kept=(2,)),
    "MatMulInteger": _Places(weights=(0, 1)),
    "MatMulIntegerToFloat": _Places(weights=(0, 1, 6), kept=(2, 3, 4, 5)),
    "MatMulNBits": _Places(weights=(1,), kept=(2, 3)),
    "Mul": _Places(narrow=(0, 1)),
    "MultiHeadAttention": _Places(kept=(4, 5, 6, 7)),
    "NonMaxSuppression": _Places(kept=(3, 4)),
    "OneHot": _Places(kept=(1, 2)),
    "Pad": _Places(kept=(2,)),
    "PagedAttention": _Places(kept=(3, 4, 8, 9)),
    "PRelu": _Places(weights=(1,)),
    "QAttention": _Places(weights=(1, 2), kept=(3, 4, 5, 6, 7, 8)),
    "QEmbedLayerNormalization": _Places(weights=(2, 3, 4, 5, 6), kept=tuple(range(8, 18))),
    "QGemm": _Places(weights=(0, 3, 6), kept=(1, 2, 4, 5, 7, 8)),
    "QLinearAdd": _Places(weights=(0, 3), kept=(1, 2, 4, 5, 6, 7)),
    "QLinearConv": _Places(weights=(3, 8), kept=(1, 2, 4, 5, 6, 7)),
    "QLinearMatMul": _Places(weights=(0, 3), kept=(1, 2, 4, 5, 6, 7)),
    "QLinearMul": _Places(weights=(0, 3), kept=(1, 2, 4, 5, 6, 7)),
    "QLinearWhere": _Places(kept=(2, 3, 5, 6, 7, 8)),
    "QMoE": _Places(weights=(2, 4, 5, 7, 8, 10), kept=(3, 6, 9, *range(11, 14), *range(15, 21))),
    "QuantizeLinear": _Places(kept=(1, 2)),
    "Resize": _Places(kept=(1, 2, 3)),
    "RNN": _Places(weights=(1, 2, 3), kept=(4, 5)),
    "RotaryEmbedding": _Places(kept=(1, 2, 3)),
    "SparseAttention": _Places(kept=(3, 4, 9, 10)),
    "STFT": _Places(kept=(2,)),
    "Sub": _Places(narrow=(0,)),
    "Upsample": _Places(kept=(1,)),
    **dict.fromkeys(
        ("QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearReduceMean"), _Places(kept=(1, 2, 3, 4))
    ),
    **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax"), _Places(kept=(1, 2, 3, 4))),
}
#: Dtypes of weights that are narrower than the numbers that they stand for.
_NARROW = ("int8", "uint8", "int4", "uint4", "int2", "uint2")
#: The attributes, the first of which counts, that tell how many bits a weight at an input of an operator has.
_BITS = {
    ("GatherBlockQuantized", 0): ("bits",),
    ("QMoE", 2): ("fc1_expert_weight_bits", "expert_weight_bits"),
    ("QMoE", 5): ("fc2_expert_weight_bits", "expert_weight_bits"),
    ("QMoE", 8): ("fc3_expert_weight_bits", "expert_weight_bits"),
}
#: The names of parameters in torch, "encoder.0.bias", which no exporter gives its results.
_PARAMETER_NAME = re.compile(r"\w+(\.\w+)+")


def find_places(use: Use) -> _Places:
    """Return the places of the operator that uses a constant."""
    if use.node.op_type in ("Loop", "Scan"):  # which use only the states that they begin with; their bodies use weights
        return _Places(kept=(use.input,))
    return _PLACES.get(use.node.op_type, _Places())


def list_weights(module: ExportedModule, constants: Sequence[Constant]) -> list[PlacedWeight]:
    """Return the parameters and buffers among a model's constants: a weight belongs to the layer whose nodes use it.

    A weight that several layers use belongs to each of them, with one identity: its place among the constants. Unused
    weights belong to the model. Packed weights have several numbers in an element: their record has no shape.
    """
    weights = []
    nodes_are_weights = _has_weights_in_nodes(constants)
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
    in_file = [constant for constant in constants if not constant.is_node]
    if any(constant.shape.numel > 1 and is_float(constant.dtype) for constant in in_file):
        return False
    uses = [use for constant in constants if constant.is_node for use in constant.uses]
    return any(use.input in find_places(use).weights for use in uses)


def _is_parameter(constant: Constant, module: ExportedModule, nodes_are_weights: bool) -> bool:
    """Return whether a constant is a weight that is trained: by the exporter, the operators that use it, or its dtype.

    Integers are weights although a module that was quantized has them as buffers.
    """
    by_exporter, uses = module.is_parameter(constant), constant.uses
    if by_exporter is not None:
        return by_exporter
    if any(use.input in find_places(use).weights for use in uses):
        return True
    if not is_float(constant.dtype):
        is_scaled = any(use.input in find_places(use).narrow for use in uses)
        return constant.dtype in _NARROW and constant.shape.numel > 1 and is_scaled
    if not constant.shape or module.has_computed(constant):
        return False
    if constant.is_node and not nodes_are_weights and not _PARAMETER_NAME.fullmatch(constant.name):
        return False
    return not uses or any(use.input not in find_places(use).kept for use in uses)


def _count_packed(constant: Constant) -> int | None:
    """Return how many elements packed weights stand for; None for weights that are not packed."""
    for use in constant.uses:
        operator, settings = use.node.op_type, read_attributes(use.node.attribute)
        if operator in ("MatMulNBits", "MatMulBnb4") and use.input in find_places(use).weights:
            return int(settings.get("K", 0) * settings.get("N", 0))
        names = _BITS.get((operator, use.input))
        if names and constant.dtype == "uint8":  # others are one element each
            bits = next(filter(None, map(settings.get, names)), 4)
            return int(constant.shape.numel * 8 // bits)
    return None
