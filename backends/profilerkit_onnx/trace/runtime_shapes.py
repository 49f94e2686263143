"""Shapes of operators that onnx's own inference lacks: the operators that onnxruntime's optimizer and quantizer write.

Operators of ai.onnx.ml in front of a network are here too, so that they do not hide the network's shapes.

Sources: the definitions of the operators in onnxruntime, ``docs/ContribOperators.md`` and ``nchwc_schema_defs.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, defs, helper
from onnx.shape_inference import infer_node_outputs

from ..costs import NodeCall
from ..costs.matmul import turn
from ..costs.registry import Shape, UnknownShapeError
from ..model.types import dtype_name, tensor_type
from .values import Value, describe_call

__all__ = ["infer_for_runtime"]

#: The types of a node's outputs; None for an unknown type.
Types: TypeAlias = list[TypeProto | None]
Rule: TypeAlias = Callable[[NodeCall], Types]

#: The operator set whose operators stand for the runtime's.
_OPSET = 20
#: onnx's number for each dtype.
_ELEMENTS = {dtype_name(element): element for element in TensorProto.DataType.values()}


def infer_for_runtime(node: NodeProto, inputs: Sequence[Value | None]) -> Types:
    """Return the types of a node's outputs by the rules of this module; None for outputs without a rule here.

    Raises onnx's `InferenceError` or `ValidationError` if the inputs do not fit the standard operator that is like it.
    """
    call = describe_call(node, inputs)
    rule = _RULES.get(call.type)
    nothing: Types = [None] * len(node.output)
    if rule is None:
        return nothing
    try:
        types = rule(call)
    except (UnknownShapeError, IndexError, ValueError, ZeroDivisionError):
        return nothing  # a shape or an attribute that is not known, or does not fit: then the file's own word counts
    return [*types, *nothing][: len(nothing)]


def _read_element(call: NodeCall, index: int = 0) -> int:
    """Return onnx's number for the dtype of an input; 0 if it is left out."""
    return _ELEMENTS.get(call.input_dtypes[index], 0) if call.has_input(index) else 0


def _read_number(call: NodeCall, name: str, default: int | None = None) -> int:
    """Return an attribute that is a whole number; raise `UnknownShapeError` for any other, or where it is missing."""
    number = call.attribute(name, default)
    if not isinstance(number, int):
        raise UnknownShapeError
    return number


def _make_types(call: NodeCall, *shapes: Sequence[int], element: int = 0, otherwise: int = 0) -> Types:
    """Return the types of outputs of these shapes and the dtype of an input; if it is left out, of another dtype."""
    return [tensor_type(_read_element(call, element) or otherwise, shape) for shape in shapes]


def _keep_shape(element: int = 0, otherwise: int = 0) -> Rule:
    """Return the rule that the output has the shape of the first input and the dtype of an input.

    If that input is left out, the dtype is ``otherwise``.
    """
    return lambda call: _make_types(call, call.inputs[0], element=element, otherwise=otherwise)


def _broadcast(*indices: int, element: int) -> Rule:
    """Return the rule that the output has the broadcast shape of inputs, and the dtype of one input."""
    return lambda call: _make_types(
        call, np.broadcast_shapes(*(call.inputs[index] for index in indices)), element=element
    )


def _follow_standard(op: str, *indices: int, element: int = 0) -> Rule:
    """Return the rule that the output has the same shape as the output of a standard operator over some of the inputs.

    The channels are last if an attribute says so, or the name of the operator: ``NhwcConv``. The dtype is the dtype of
    one input; if that input is left out, the output has floats.
    """

    def rule(call: NodeCall) -> Types:
        has_channels_last = call.type.startswith("com.microsoft::Nhwc") or bool(call.attribute("channels_last", 0))
        shapes = [call.inputs[index] for index in indices if call.has_input(index)]
        if has_channels_last:
            shapes[0] = _put_channels_second(shapes[0])
        output = _infer_by_standard(op, call.attributes, shapes)
        if has_channels_last:
            output = Shape((output[0], *output[2:], output[1]))
        return _make_types(call, output, element=element, otherwise=TensorProto.FLOAT)

    return rule


def _multiply_matrices(element: int) -> Rule:
    """Return the rule of ``(..., m, k) @ (..., k, n)``, either factor transposed as the attributes say."""

    def rule(call: NodeCall) -> Types:
        first = turn(call.inputs[0], bool(call.attribute("transA", 0)), bool(call.attribute("transBatchA", 0)))
        other = turn(call.inputs[1], bool(call.attribute("transB", 0)), bool(call.attribute("transBatchB", 0)))
        return _make_types(call, _infer_by_standard("MatMul", {}, [first, other]), element=element)

    return rule


def _put_channels_second(shape: Shape) -> Shape:
    """Return a shape whose channels are last with the channels behind the batch."""
    return Shape((shape[0], shape[-1], *shape[1:-1]))


def _infer_by_standard(op: str, attributes: Mapping[str, Any], shapes: Sequence[Shape]) -> Shape:
    """Return the shape that onnx's own inference gives the first output of an operator over inputs of these shapes."""
    schema: Any = defs.get_schema(op, _OPSET, "")
    names = [f"x{index}" for index in range(len(shapes))]
    accepted = {name: value for name, value in attributes.items() if name in schema.attributes}
    node = helper.make_node(op, names, ["y"], **accepted)
    types: Mapping[str, TypeProto] = {
        name: tensor_type(TensorProto.FLOAT, shape) for name, shape in zip(names, shapes, strict=True)
    }
    made = infer_node_outputs(schema, node, dict(types), opset_imports=[helper.make_opsetid("", _OPSET)])
    if "y" not in made:
        raise UnknownShapeError
    return Shape(dim.dim_value for dim in made["y"].tensor_type.shape.dim)


def _multiply_packed(call: NodeCall) -> Types:
    """A product with weights of few bits, which are packed: an attribute tells how many columns they have."""
    return _make_types(call, (*call.inputs[0][:-1], _read_number(call, "N")))


def _look_up_packed(call: NodeCall) -> Types:
    """Rows of a table whose numbers have few bits: bytes hold several along the last dimension."""
    table, axis = list(call.inputs[0]), _read_number(call, "gather_axis", 0)
    if _read_element(call, 0) == TensorProto.UINT8:
        table[-1] *= 8 // _read_number(call, "bits", 4)
    return _make_types(call, (*table[:axis], *call.inputs[1], *table[axis:][1:]), element=2)


def _attend(call: NodeCall, past_index: int = 4, element: int = 0) -> Types:
    """Queries, keys and values come of one product: the outputs are the result, and the keys and values so far."""
    batch, length = call.inputs[0][:2]
    _, _, width = call.attribute("qkv_hidden_sizes") or [call.inputs[1][1] // 3] * 3  # of all heads of the values
    heads = _read_number(call, "num_heads")
    past = call.inputs[past_index][3] if call.has_input(past_index) else 0
    # Memory that earlier and present keys share has room for them already.
    keys = past if call.attribute("past_present_share_buffer", 0) else length + past
    present = (2, batch, heads, keys, width // heads)  # 2: keys and values
    return _make_types(call, (batch, length, width), present, element=element)


def _attend_multi_head(call: NodeCall) -> Types:
    """Queries, keys and values are inputs of their own, or packed into fewer: 5 dimensions are packed ones."""
    query, heads = call.inputs[0], _read_number(call, "num_heads")
    if len(query) == 5:  # queries, keys and values in one
        return _make_types(call, (*query[:2], heads * query[4]))
    key, past_keys, past_length = call.inputs[1], 6, 8
    if len(key) == 5:  # keys and values in one
        keys, width = key[1], heads * key[4]
    elif len(call.inputs[2]) == 4:  # (batch, heads, length, width)
        keys, width = key[2], heads * call.inputs[2][3]
    else:
        keys, width = key[1], call.inputs[2][2]
    past = call.inputs[past_keys][2] if call.has_input(past_keys) else 0
    all_keys = past if call.has_input(past_length) else keys + past  # with that length, there is room for them already
    present = query[0], heads, all_keys
    return _make_types(call, (*query[:2], width), (*present, query[2] // heads), (*present, width // heads))


def _attend_grouped(call: NodeCall) -> Types:
    """Several heads of queries share a pair of keys and values; without keys, all are packed in the queries."""
    query, heads, pairs = call.inputs[0], _read_number(call, "num_heads"), _read_number(call, "kv_num_heads")
    width = query[2] // heads if call.has_input(1) else query[2] // (heads + 2 * pairs)
    cache, past_keys, all_keys = Shape((query[0], pairs, 0, width)), 3, 6
    if call.has_input(past_keys):
        cache = call.inputs[past_keys]
    # The cache may have room for later keys already: then it does not grow.
    total = call.value(all_keys) if call.has_input(all_keys) else None
    keys = cache[2] + query[1] if total is None else max(cache[2], int(total.item()))
    present = _make_types(call, (*cache[:2], keys, cache[3]), element=past_keys, otherwise=_read_element(call))
    return [*_make_types(call, (*query[:2], heads * width)), *present, *present]


def _embed(call: NodeCall) -> Types:
    """Rows of a table that are looked up by words: the normalized sum, the lengths, and the sum."""
    words, table = call.inputs[0], call.inputs[2]
    [made] = _make_types(call, (*words, table[1]), element=2)
    return [made, tensor_type(TensorProto.INT32, words[:1]), made]


def _run_recurrent(call: NodeCall) -> Types:
    """``(steps, directions, samples, units)``, and the last states."""
    steps, samples = call.inputs[0][:2]
    directions, units = call.inputs[2][:2]
    last = (directions, samples, units)
    return _make_types(call, (steps, directions, samples, units), last, last)


def _normalize_sum(call: NodeCall) -> Types:
    """The normalized sum first, and the sum itself last."""
    [like] = _make_types(call, call.inputs[0])
    return [like, None, None, like]


def _unblock(call: NodeCall) -> Types:
    """Out of the blocked layout: an attribute tells how many channels are no filling."""
    x, channels = call.inputs[0], _read_number(call, "channels")
    return _make_types(
        call, (x[0], *x[2:], channels) if call.attribute("channels_last", 0) else (x[0], channels, *x[2:])
    )


def _block(call: NodeCall) -> Types:
    """Into the blocked layout, whose channels are in front.

    The runtime rounds them up to whole blocks. They are left as they are here, because the size of a block depends on
    the processor: the bytes of such a tensor are too few where its channels do not fill the last block.
    """
    x = call.inputs[0]
    return _make_types(call, _put_channels_second(x) if call.attribute("channels_last", 0) else x)


def _enlarge(call: NodeCall) -> Types:
    """Each dimension grows by its scale."""
    scales = call.attribute("scales", ())
    return _make_types(call, [round(size * scale) for size, scale in zip(call.inputs[0], scales, strict=True)])


def _concatenate(call: NodeCall) -> Types:
    """After scale and zero point of the result comes each tensor with its own two."""
    shapes = [call.inputs[index] for index in range(2, len(call.inputs), 3)]
    axis, joined = _read_number(call, "axis"), list(shapes[0])
    joined[axis] = sum(shape[axis] for shape in shapes)
    return _make_types(call, joined, element=2)


def _make_floats(call: NodeCall) -> Types:
    """Floats in the shape of the first input, whatever its dtype is."""
    return [tensor_type(TensorProto.FLOAT, call.inputs[0])]


def _compare(call: NodeCall) -> Types:
    """A truth value for each pair of elements."""
    return [tensor_type(TensorProto.BOOL, np.broadcast_shapes(call.inputs[0], call.inputs[1]))]


def _normalize_groups_of_sum(call: NodeCall) -> Types:
    """The normalized sum, and the sum itself."""
    return _make_types(call, call.inputs[0], call.inputs[0])


_MICROSOFT, _BLOCKED = "com.microsoft::", "com.microsoft.nchwc::"
#: Operators whose output is like their first input.
_LIKE_THE_FIRST = """
    BiasAdd BiasGelu BiasSoftmax FastGelu Gelu GroupNorm MoE QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QMoE
    QuickGelu RotaryEmbedding
"""
_RULES: dict[str, Rule] = {
    **{_MICROSOFT + name: _keep_shape() for name in _LIKE_THE_FIRST.split()},
    **{f"ai.onnx.ml::{name}": _make_floats for name in ("Normalizer", "Scaler")},
    **{f"ai.onnx.ml::{name}": _keep_shape() for name in ("Binarizer", "Imputer")},
    # The standard defines these by a body alone, in some versions.
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), _compare),
    **dict.fromkeys(("GroupNormalization", "MeanVarianceNormalization"), _keep_shape()),
    "SimplifiedLayerNormalization": _keep_shape(),
    _MICROSOFT + "Attention": _attend,
    _MICROSOFT + "DequantizeLinear": _keep_shape(element=1),
    _MICROSOFT + "DynamicQuantizeLSTM": _run_recurrent,
    _MICROSOFT + "DynamicQuantizeMatMul": _multiply_matrices(0),
    _MICROSOFT + "EmbedLayerNormalization": _embed,
    _MICROSOFT + "FusedConv": _follow_standard("Conv", 0, 1, 2),
    _MICROSOFT + "FusedGemm": _follow_standard("Gemm", 0, 1, 2),
    _MICROSOFT + "FusedMatMul": _multiply_matrices(0),
    _MICROSOFT + "GatherBlockQuantized": _look_up_packed,
    _MICROSOFT + "GroupQueryAttention": _attend_grouped,
    _MICROSOFT + "MatMulBnb4": _multiply_packed,
    _MICROSOFT + "MatMulIntegerToFloat": _multiply_matrices(2),
    _MICROSOFT + "MatMulNBits": _multiply_packed,
    _MICROSOFT + "MultiHeadAttention": _attend_multi_head,
    _MICROSOFT + "NhwcConv": _follow_standard("Conv", 0, 1, 2),
    _MICROSOFT + "NhwcFusedConv": _follow_standard("Conv", 0, 1, 2),
    _MICROSOFT + "NhwcMaxPool": _follow_standard("MaxPool", 0),
    # The keys and values so far are another input, and the dtype is the dtype of the scale.
    _MICROSOFT + "QAttention": partial(_attend, past_index=8, element=3),
    _MICROSOFT + "QGemm": _follow_standard("Gemm", 0, 3, element=8),
    _MICROSOFT + "QLinearAdd": _broadcast(0, 3, element=0),
    _MICROSOFT + "QLinearAveragePool": _follow_standard("AveragePool", 0),
    _MICROSOFT + "QLinearConcat": _concatenate,
    _MICROSOFT + "QLinearConv": _follow_standard("Conv", 0, 3, element=7),
    _MICROSOFT + "QLinearGlobalAveragePool": _follow_standard("GlobalAveragePool", 0),
    _MICROSOFT + "QLinearMul": _broadcast(0, 3, element=0),
    _MICROSOFT + "QLinearWhere": _broadcast(0, 1, 4, element=1),
    _MICROSOFT + "QuantizeLinear": _keep_shape(element=2, otherwise=TensorProto.UINT8),
    _MICROSOFT + "SkipGroupNorm": _normalize_groups_of_sum,
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
