"""Shapes of the operators that onnxruntime's optimizer and quantizer write, which onnx's own inference does not know.

Sources: the definitions of the operators in onnxruntime, ``docs/ContribOperators.md`` and ``nchwc_schema_defs.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, defs, helper
from onnx.shape_inference import infer_node_outputs

from profilerkit.costs import Shape

from ..costs.matmul import turn
from ..model.types import tensor_type
from .pricing import name_operator, read_attributes
from .values import Value

__all__ = ["infer_for_runtime"]

#: The types of a node's outputs; None for one that is not known.
Types = list[TypeProto | None]
#: The operator set whose operators stand for the runtime's.
_OPSET = 20
_MICROSOFT, _BLOCKED = "com.microsoft::", "com.microsoft.nchwc::"


class _UnknownError(Exception):
    """A shape that the rule needs is not known."""


class _Node:
    """A node as the rules see it: shapes and dtypes of its inputs, and attributes."""

    def __init__(self, node: NodeProto, inputs: Sequence[Value | None]) -> None:
        self.node, self.inputs = node, inputs
        self.attributes = read_attributes(node)

    def shape(self, index: int) -> Shape:
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None or value.shape is None:
            raise _UnknownError
        return value.shape

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def element(self, index: int = 0) -> int:
        value = self.inputs[index] if index < len(self.inputs) else None
        return 0 if value is None else value.element

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)


Rule = Callable[[_Node], Types]


def infer_for_runtime(node: NodeProto, inputs: Sequence[Value | None]) -> Types | None:
    """Return the types of a node's outputs by the rules of this module; None for an operator that has none here."""
    rule = _RULES.get(name_operator(node))
    if rule is None:
        return None
    nothing: Types = [None] * len(node.output)
    try:
        types = rule(_Node(node, inputs))
    except (_UnknownError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError, RuntimeError):
        return nothing  # a shape that is not known, or that does not fit: then the file's own word counts
    return [*types, *nothing][: len(nothing)]


def _copy_types(*indices: int) -> Rule:
    """Each output has the type of one of the inputs."""

    def rule(node: _Node) -> Types:
        return [tensor_type(node.element(index), node.shape(index)) for index in indices]

    return rule


def _follow_standard(op: str, *indices: int, element: int = 0, channels_last: bool = False) -> Rule:
    """The outputs have the shapes of a standard operator over some of the inputs; the dtype is that of one input."""

    def rule(node: _Node) -> Types:
        last = channels_last or bool(node.get("channels_last", 0))
        shapes = [node.shape(index) for index in indices if node.has(index)]
        if last:
            shapes[0] = _move_channels(shapes[0], 1)
        outputs = [item if not last else _move_channels(item, -1) for item in _infer_by_standard(op, node.node, shapes)]
        return [tensor_type(node.element(element), shape) for shape in outputs]

    return rule


def _move_channels(shape: Shape, to: int) -> Shape:
    """Return a shape with the channels moved: from the end to the second place, or back."""
    return Shape((shape[0], shape[-1], *shape[1:-1]) if to == 1 else (shape[0], *shape[2:], shape[1]))


def _infer_by_standard(op: str, node: NodeProto, shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes that onnx's own inference gives an operator over inputs of these shapes."""
    schema: Any = defs.get_schema(op, _OPSET, "")
    names = [f"x{index}" for index in range(len(shapes))]
    copy = helper.make_node(op, names, ["y"])
    copy.attribute.extend([attribute for attribute in node.attribute if attribute.name in schema.attributes])
    types: Mapping[str, TypeProto] = {
        name: tensor_type(TensorProto.FLOAT, shape) for name, shape in zip(names, shapes, strict=True)
    }
    made = infer_node_outputs(schema, copy, dict(types), opset_imports=[helper.make_opsetid("", _OPSET)])
    return [Shape(dim.dim_value for dim in made["y"].tensor_type.shape.dim)]


def _broadcast(*indices: int, element: int) -> Rule:
    """The output has the shape that the inputs have when they are broadcast."""

    def rule(node: _Node) -> Types:
        return [tensor_type(node.element(element), np.broadcast_shapes(*(node.shape(index) for index in indices)))]

    return rule


def _multiply_matrices(element: int, second: int = 1) -> Rule:
    """``(..., m, k) @ (..., k, n)``, either factor turned as the attributes say."""

    def rule(node: _Node) -> Types:
        first = turn(node.shape(0), bool(node.get("transA", 0)), bool(node.get("transBatchA", 0)))
        other = turn(node.shape(second), bool(node.get("transB", 0)), bool(node.get("transBatchB", 0)))
        return [tensor_type(node.element(element), _infer_by_standard("MatMul", NodeProto(), [first, other])[0])]

    return rule


def _multiply_packed(node: _Node) -> Types:
    """A product with weights of few bits, which are packed: an attribute tells how many columns they have."""
    return [tensor_type(node.element(), Shape((*node.shape(0)[:-1], int(node.get("N")))))]


def _attend(node: _Node, past_index: int = 4, element: int = 0) -> Types:
    """Queries, keys and values come of one product: the outputs are the result, and the keys and values so far."""
    x, sizes = node.shape(0), node.get("qkv_hidden_sizes") or [node.shape(1)[1] // 3] * 3
    heads = node.get("num_heads")
    past = node.shape(past_index)[3] if node.has(past_index) else 0
    present = (2, x[0], heads, x[1] + past, sizes[2] // heads)
    return [tensor_type(node.element(element), shape) for shape in ((*x[:2], sizes[2]), present)]


def _attend_quantized(node: _Node) -> Types:
    return _attend(node, past_index=8, element=3)


def _attend_multi_head(node: _Node) -> Types:
    """Queries, keys and values are inputs of their own, or packed into fewer: 5 dimensions are packed ones."""
    query, heads = node.shape(0), node.get("num_heads")
    if len(query) == 5:  # queries, keys and values in one
        return [tensor_type(node.element(), (*query[:2], heads * query[4]))]
    key = node.shape(1)
    if len(key) == 5:  # keys and values in one
        width, keys = heads * key[4], key[1]
    else:
        value = node.shape(2)
        width, keys = (heads * value[3], key[2]) if len(value) == 4 else (value[2], key[1])
    past = node.shape(6)[2] if node.has(6) else 0
    present = (query[0], heads, keys + past)
    widths = (query[2] // heads, width // heads)
    return [
        tensor_type(node.element(), (*query[:2], width)),
        *(tensor_type(node.element(), (*present, one_width)) for one_width in widths),
    ]


def _attend_grouped(node: _Node) -> Types:
    """Several heads of queries share a pair of keys and values; without keys, all are packed in the queries."""
    query, heads, pairs = node.shape(0), node.get("num_heads"), node.get("kv_num_heads")
    width = query[2] // heads if node.has(1) else query[2] // (heads + 2 * pairs)
    past = node.shape(3)[2] if node.has(3) else 0
    present = tensor_type(node.element(), (query[0], pairs, query[1] + past, width))
    return [tensor_type(node.element(), (*query[:2], heads * width)), present, present]


def _embed(node: _Node) -> Types:
    words, table = node.shape(0), node.shape(2)
    made = tensor_type(node.element(2), (*words, table[1]))
    return [made, tensor_type(TensorProto.INT32, words[:1]), made]


def _run_recurrent(node: _Node) -> Types:
    x, states = node.shape(0), node.shape(2)
    last = (states[0], x[1], states[1])
    return [tensor_type(node.element(), shape) for shape in ((x[0], states[0], x[1], states[1]), last, last)]


def _normalize_sum(node: _Node) -> Types:
    [like] = _copy_types(0)(node)
    return [like, None, None, like]


def _unblock(node: _Node) -> Types:
    x, channels = node.shape(0), node.get("channels")
    shape = (x[0], *x[2:], channels) if node.get("channels_last", 0) else (x[0], channels, *x[2:])
    return [tensor_type(node.element(), shape)]


def _block(node: _Node) -> Types:
    x = node.shape(0)
    return [tensor_type(node.element(), _move_channels(x, 1) if node.get("channels_last", 0) else x)]


def _enlarge(node: _Node) -> Types:
    shape = [round(size * scale) for size, scale in zip(node.shape(0), node.get("scales"), strict=True)]
    return [tensor_type(node.element(), tuple(shape))]


def _concatenate(node: _Node) -> Types:
    shapes = [node.shape(index) for index in range(2, len(node.inputs), 3)]
    axis, joined = node.get("axis"), list(shapes[0])
    joined[axis] = sum(shape[axis] for shape in shapes)
    return [tensor_type(node.element(2), tuple(joined))]


def _dequantize(node: _Node) -> Types:
    return [tensor_type(node.element(1), node.shape(0))]


def _quantize(node: _Node) -> Types:
    return [tensor_type(node.element(2) if node.has(2) else TensorProto.UINT8, node.shape(0))]


_LIKE_THE_FIRST = """
    BiasAdd BiasGelu BiasSoftmax FastGelu Gelu QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QuickGelu
    RotaryEmbedding GroupNorm
"""
_RULES: dict[str, Rule] = {
    **{_MICROSOFT + name: _copy_types(0) for name in _LIKE_THE_FIRST.split()},
    "SimplifiedLayerNormalization": _copy_types(0),
    _MICROSOFT + "Attention": _attend,
    _MICROSOFT + "DequantizeLinear": _dequantize,
    _MICROSOFT + "DynamicQuantizeLSTM": _run_recurrent,
    _MICROSOFT + "DynamicQuantizeMatMul": _multiply_matrices(0),
    _MICROSOFT + "EmbedLayerNormalization": _embed,
    _MICROSOFT + "FusedConv": _follow_standard("Conv", 0, 1, 2),
    _MICROSOFT + "FusedGemm": _follow_standard("Gemm", 0, 1, 2),
    _MICROSOFT + "FusedMatMul": _multiply_matrices(0),
    _MICROSOFT + "GroupQueryAttention": _attend_grouped,
    _MICROSOFT + "MatMulIntegerToFloat": _multiply_matrices(2),
    _MICROSOFT + "MatMulNBits": _multiply_packed,
    _MICROSOFT + "MultiHeadAttention": _attend_multi_head,
    _MICROSOFT + "NhwcConv": _follow_standard("Conv", 0, 1, 2, channels_last=True),
    _MICROSOFT + "NhwcFusedConv": _follow_standard("Conv", 0, 1, 2, channels_last=True),
    _MICROSOFT + "NhwcMaxPool": _follow_standard("MaxPool", 0, channels_last=True),
    _MICROSOFT + "QAttention": _attend_quantized,
    _MICROSOFT + "QGemm": _follow_standard("Gemm", 0, 3),
    _MICROSOFT + "QLinearAdd": _broadcast(0, 3, element=0),
    _MICROSOFT + "QLinearAveragePool": _follow_standard("AveragePool", 0),
    _MICROSOFT + "QLinearConcat": _concatenate,
    _MICROSOFT + "QLinearConv": _follow_standard("Conv", 0, 3, element=7),
    _MICROSOFT + "QLinearGlobalAveragePool": _follow_standard("GlobalAveragePool", 0),
    _MICROSOFT + "QLinearMul": _broadcast(0, 3, element=0),
    _MICROSOFT + "QuantizeLinear": _quantize,
    _MICROSOFT + "SkipLayerNormalization": _normalize_sum,
    _MICROSOFT + "SkipSimplifiedLayerNormalization": _normalize_sum,
    _BLOCKED + "AveragePool": _follow_standard("AveragePool", 0),
    _BLOCKED + "Conv": _follow_standard("Conv", 0, 1, 2),
    _BLOCKED + "GlobalAveragePool": _follow_standard("GlobalAveragePool", 0),
    _BLOCKED + "GlobalMaxPool": _follow_standard("GlobalMaxPool", 0),
    _BLOCKED + "MaxPool": _follow_standard("MaxPool", 0),
    _BLOCKED + "ReorderInput": _block,
    _BLOCKED + "ReorderOutput": _unblock,
    _BLOCKED + "Upsample": _enlarge,
}
