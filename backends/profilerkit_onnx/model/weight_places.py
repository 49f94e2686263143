"""Which inputs of operators are parameters, and which are buffers, by the places of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .constants import Constant

__all__ = ["BUFFERS", "PARAMETERS", "is_read_at"]

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


def is_read_at(constant: Constant, places: Mapping[str, Sequence[int]]) -> bool:
    """Return whether an operator reads a constant as an input at one of these places."""
    return any(use.input in places.get(use.node.op_type, ()) for use in constant.uses)
