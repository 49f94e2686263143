"""The weights of a model: which constants are parameters, how many elements they stand for, which layer holds them.

ONNX keeps parameters, statistics, tables and the constants of shapes in one list. What a constant is follows from what
torch's exporter says of it, if it does, and from the place where it is used: the weight of a convolution is a
parameter, the mean of a batch norm is a buffer, a shape is one too. A floating-point constant with dimensions that is
used anywhere else is a parameter; a ``Constant`` node only if the file has its weights in such nodes, because others
hold what the exporter has computed. Single numbers, such as the bounds of a clip, are neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx import ModelProto

from profilerkit.backend_kit.scoped_calls import PlacedWeight
from profilerkit.costs.numbers import is_float
from profilerkit.trace.records import WeightRecord

from .constants import Constant, Use
from .nodes import list_nodes, read_attributes
from .types import STANDARD, dtype_name

__all__ = ["describe_uncounted", "list_weights"]

#: The inputs of operators that are parameters whatever their dtype, by their places.
_PARAMETERS = {
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
_BUFFERS = {
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
    "QMoE": (3, 6, 9, 11, 12, 13),
    "QuantizeLinear": (1, 2),
    "RNN": (4, 5),
    "Resize": (1, 2, 3),
    "RotaryEmbedding": (1, 2, 3),
    "STFT": (2,),
    "Upsample": (1,),
}
#: Dtypes of weights that are narrower than what they stand for, and the inputs where such a constant is a parameter: a
#: table whose rows are looked up before they are scaled, or the numbers that a cast and arithmetic scale.
_NARROW = ("int8", "uint8", "int4", "uint4", "int2", "uint2")
_SCALED = {"Add": (0, 1), "Gather": (0,), "Mul": (0, 1), "Sub": (0,)}
#: The inputs of operators where several elements may be packed into one.
_PACKED = {"GatherBlockQuantized": (0,), "MatMulBnb4": (1,), "MatMulNBits": (1,), "QMoE": (2, 5, 8)}
#: Operators that take bits out of integers.
_TAKES_BITS = ("BitShift", "BitwiseAnd")
#: Names that torch's exporter gives to constants which it has computed, maybe of a parameter.
_COMPUTED = re.compile(r"val_\d+|.*lifted_tensor.*|_tensor_constant\d+|scalar_tensor.*")
#: Names of results of operators of torch which only move the elements of a parameter, or give it another shape.
_MOVED = re.compile(r"(clone|expand|flatten|permute|reshape|select|slice|squeeze|t|transpose|unsqueeze|view)(_\d+)?")
#: The key of what torch's exporter writes of the tensors of a module, a line of it, and how the names of weights begin
#: which its quantization has put in the place of parameters.
_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_TENSOR, _FROZEN = re.compile(r"^\w+: (PARAMETER|BUFFER) target='([^']+)'", re.MULTILINE), "_frozen_param"
#: The key of what the exporter writes of the operator of torch that a node is a part of, and how this names parameters:
#: "%group_norm = call_function[target=torch.ops.aten.group_norm.default](args = (%x, 2, %p_0_weight, %p_0_bias))".
_TORCH_OPERATOR, _TORCH_PARAMETER = "pkg.torch.onnx.fx_node", "%p_"


def list_weights(model: ModelProto, constants: Sequence[Constant]) -> Iterator[PlacedWeight]:
    """Yield the parameters and buffers among a model's constants: a weight belongs to the layer whose nodes use it.

    One that several layers use belongs to each of them, and is one weight: its identity is its place among the
    constants. Unused ones belong to the model. Packed weights hold several elements in one: their record has no shape.
    """
    nodes_are_weights, kinds = _has_weights_in_nodes(constants), _read_kinds(model)
    for identity, constant in enumerate(constants):
        name, uses = constant.name, constant.uses
        dtype = dtype_name(constant.values.data_type)
        is_parameter = _is_parameter(constant, dtype, kinds, nodes_are_weights)
        if constant.shape.numel <= 1 and not is_parameter:
            continue  # a number in the graph, such as a bound or a scale
        elements, shape = constant.shape.numel, tuple(constant.shape)
        packed = _count_packed(elements, dtype, uses)
        if packed is not None:
            elements, shape = packed, ()
        for path in dict.fromkeys(use.path for use in uses) or [""]:
            label = name.removeprefix(f"{path}.") if path else name
            record = WeightRecord(label, identity, elements, constant.bytes, dtype, trainable=None, shape=shape)
            yield PlacedWeight(path, record, is_parameter)


def describe_uncounted(model: ModelProto, constants: Iterable[Constant]) -> str:
    """Return in words which weights are not counted; empty where all are.

    Linear models, trees and scalers have theirs in attributes, which are no tensors. And of integers in matrices that
    an operator reads which is not known here, or that are taken apart into bits, nobody can say whether, and how many,
    weights are packed in them.
    """
    with_attributes = {
        node.op_type
        for node in list_nodes(model.graph.node)
        if node.domain == "ai.onnx.ml"
        and any(attribute.floats or attribute.HasField("t") for attribute in node.attribute)
    }
    unknown = {
        use.node.op_type
        for constant in constants
        if sum(size > 1 for size in constant.shape) > 1 and "int" in dtype_name(constant.values.data_type)
        for use in constant.uses
        if use.node.op_type.startswith(_TAKES_BITS)
        or (
            use.node.domain not in (*STANDARD, "ai.onnx.ml")
            and use.node.op_type not in (*_PARAMETERS, *_BUFFERS)
            and dtype_name(constant.values.data_type) in _NARROW
        )
    }
    return " and ".join(
        f"the weights that {', '.join(sorted(operators))} has {where}"
        for operators, where in ((with_attributes, "in attributes"), (unknown, "in integers"))
        if operators
    )


def _has_weights_in_nodes(constants: Sequence[Constant]) -> bool:
    """Return whether an exporter writes weights as ``Constant`` nodes, as that of PaddlePaddle does: all of them."""
    return any(constant.is_node and _is_weight(constant.uses) for constant in constants) and not any(
        constant.shape.numel > 1 and not constant.is_node and is_float(dtype_name(constant.values.data_type))
        for constant in constants
    )


def _is_weight(uses: Sequence[Use]) -> bool:
    """Return whether an operator takes a constant as its weight."""
    return any(use.input in _PARAMETERS.get(use.node.op_type, ()) for use in uses)


def _read_kinds(model: ModelProto) -> dict[str, str]:
    """Return by name which tensors of a module of torch are "PARAMETER" and "BUFFER", where the exporter tells it."""
    kinds: dict[str, str] = {}
    for entry in (*model.metadata_props, *model.graph.metadata_props):
        if entry.key == _SIGNATURE:
            kinds.update((name, kind) for kind, name in _TENSOR.findall(entry.value))
    return kinds


def _is_parameter(constant: Constant, dtype: str, kinds: Mapping[str, str], nodes_are_weights: bool) -> bool:
    """Return whether a constant is a weight that is trained: by the exporter, the operators that use it, or its dtype.

    ``kinds`` are those of `_read_kinds`. Integers are weights although a module that was quantized has them as buffers.
    """
    uses, kind = constant.uses, kinds.get(constant.name)
    if kind is not None and is_float(dtype) and not constant.name.startswith(_FROZEN):
        return kind == "PARAMETER"
    if _is_weight(uses):
        return True
    if dtype in _NARROW and any(use.input in _SCALED.get(use.node.op_type, ()) for use in uses):
        return constant.shape.numel > 1
    if (constant.is_node and not nodes_are_weights) or not constant.shape:
        return False
    is_computed = bool(_COMPUTED.fullmatch(constant.name))
    if kinds and kind is None and constant.name.isidentifier():  # that of an operator's result: "sin", "zeros_1"
        is_computed = is_computed or not _MOVED.fullmatch(constant.name)
    if is_computed and not any(map(_works_with_parameter, uses)):
        return False
    if uses and all(use.input in _BUFFERS.get(use.node.op_type, ()) for use in uses):
        return False
    return is_float(dtype)


def _works_with_parameter(use: Use) -> bool:
    """Return whether a node is a part of an operator of torch which reads a parameter, and scales or shifts by it.

    Such is the affine part of a group norm: the exporter has added dimensions to its weights.
    """
    texts = (entry.value for entry in use.node.metadata_props if entry.key == _TORCH_OPERATOR)
    return use.node.op_type in ("Add", "Mul") and any(_TORCH_PARAMETER in text for text in texts)


def _count_packed(stored: int, dtype: str, uses: Sequence[Use]) -> int | None:
    """Return how many elements packed weights stand for; None for weights that are not packed."""
    for use in uses:
        if use.input not in _PACKED.get(use.node.op_type, ()):
            continue
        sizes = read_attributes(use.node.attribute)
        if use.node.op_type in ("MatMulNBits", "MatMulBnb4"):
            return int(sizes.get("K", 0) * sizes.get("N", 0))
        if dtype == "uint8":  # other integers are one element each
            own_bits = sizes.get(f"fc{(use.input + 1) // 3}_expert_weight_bits", 0)
            return int(stored * 8 // (own_bits or sizes.get("expert_weight_bits", sizes.get("bits", 4))))
    return None
