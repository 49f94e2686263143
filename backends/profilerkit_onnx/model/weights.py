"""The weights of a model: which constants are parameters, how many elements they stand for, which layer holds them.

ONNX keeps parameters, statistics, tables and the constants of shapes in one list. What a constant is follows from the
place where it is used: the weight of a convolution is a parameter, the mean of a batch norm is a buffer, a shape is
one too. A floating-point constant with dimensions that is used anywhere else is a parameter; a ``Constant`` node only
if the file has its weights in such nodes, because others hold what the exporter has computed. Single numbers, such as
the bounds of a clip, are neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onnx import ModelProto, NodeProto, TensorProto

from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.scoped_calls import PlacedWeight
from profilerkit.costs import Shape
from profilerkit.costs.numbers import is_float
from profilerkit.trace.records import WeightRecord

from .graphs import list_inner_graphs, list_nodes
from .types import count_bytes, dtype_name

__all__ = ["Constant", "describe_attributes", "list_constants", "list_weights"]

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
    "QAttention": (1, 2),
    "QGemm": (0, 3, 6),
    "QLinearAdd": (0, 3),
    "QLinearConv": (3, 8),
    "QLinearMatMul": (0, 3),
    "QLinearMul": (0, 3),
    "RNN": (1, 2, 3),
}
#: The inputs of operators that are values which the model keeps, or scales, but no parameters.
_BUFFERS = {
    "BatchNormalization": (3, 4),
    "Clip": (1, 2),
    "DequantizeLinear": (1, 2),
    "DynamicQuantizeLSTM": (8, 9, 10, 11),
    "DynamicQuantizeMatMul": (2, 3),
    "GatherBlockQuantized": (2, 3),
    "GRU": (4, 5),
    "LSTM": (4, 5, 6),
    "MatMulBnb4": (2,),
    "MatMulIntegerToFloat": (2, 3, 4, 5),
    "MatMulNBits": (2, 3),
    "OneHot": (1, 2),
    "QAttention": (3, 4, 6, 7),
    "QGemm": (1, 2, 4, 5, 7, 8),
    "QLinearAdd": (1, 2, 4, 5, 6, 7),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QLinearMul": (1, 2, 4, 5, 6, 7),
    "QuantizeLinear": (1, 2),
    "RNN": (4, 5),
    "Resize": (1, 2, 3),
}
#: Dtypes of weights that are narrower than what they stand for, and the inputs where such a constant is a parameter: a
#: table whose rows are looked up before they are scaled, or the numbers that a cast and arithmetic scale.
_NARROW = ("int8", "uint8", "int4", "uint4", "int2", "uint2")
_SCALED = {"Add": (0, 1), "Gather": (0,), "Mul": (0, 1), "Sub": (0,)}
#: Operators whose result has the elements of their first input, or some of them.
_MOVES = ("Cast", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
#: Names that torch's exporter gives to constants which it has computed.
_COMPUTED = re.compile(r"val_\d+|.*lifted_tensor.*|_tensor_constant\d+|scalar_tensor.*")


class Constant(NamedTuple):
    """A tensor that stands in the file.

    Attributes:
        values: The tensor with its elements; of a sparse one, with those that are not zero.
        shape: Its sizes.
        bytes: The bytes that it takes in the file.
        is_node: Whether it is a ``Constant`` node, and no initializer.
    """

    values: TensorProto
    shape: Shape
    bytes: int
    is_node: bool = False


def list_constants(model: ModelProto) -> dict[str, Constant]:
    """Return the tensors that stand in the graph of a model, and in the graphs inside it, by name."""
    constants: dict[str, Constant] = {}
    inner = (graph for node in list_nodes(model.graph.node) for graph in list_inner_graphs(node))
    for graph in (model.graph, *inner):
        for tensor in graph.initializer:
            constants[tensor.name] = _make_constant(tensor)
        for sparse in graph.sparse_initializer:
            stored = _make_constant(sparse.values).bytes + _make_constant(sparse.indices).bytes
            constants[sparse.values.name] = Constant(sparse.values, Shape(sparse.dims), stored)
        for node in graph.node:
            if node.op_type == "Constant" and node.output:
                for attribute in node.attribute:
                    if attribute.name == "value" and attribute.HasField("t"):
                        constants[node.output[0]] = _make_constant(attribute.t, is_node=True)
    return constants


def _make_constant(tensor: TensorProto, is_node: bool = False) -> Constant:
    return Constant(tensor, Shape(tensor.dims), count_bytes(tensor.dims, tensor.data_type), is_node)


def list_weights(model: ModelProto, scopes: Scopes, constants: Mapping[str, Constant]) -> Iterator[PlacedWeight]:
    """Yield the parameters and buffers: a weight belongs to the layer whose nodes use it.

    One that several layers use belongs to each of them, and is one weight. Unused ones belong to the model. Packed
    weights hold several elements in one: their record has no shape.
    """
    all_uses = _find_uses(model, scopes, constants)
    nodes_are_weights = _has_weights_in_nodes(constants, all_uses)
    for identity, (name, constant) in enumerate(constants.items()):
        uses = all_uses.get(name, [])
        dtype = dtype_name(constant.values.data_type)
        is_parameter = _is_parameter(name, constant, dtype, uses, nodes_are_weights)
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


def describe_attributes(model: ModelProto) -> str:
    """Return which operators have weights in their attributes, which are no tensors: linear models, trees, scalers."""
    kinds = {
        node.op_type
        for node in list_nodes(model.graph.node)
        if node.domain == "ai.onnx.ml"
        and any(attribute.floats or attribute.HasField("t") for attribute in node.attribute)
    }
    return f"the weights that {', '.join(sorted(kinds))} has in attributes" if kinds else ""


class _Use(NamedTuple):
    """Where a constant is used: the node, the index among its inputs, and the path of its layer."""

    node: NodeProto
    input: int
    path: str


def _find_uses(model: ModelProto, scopes: Scopes, constants: Mapping[str, Constant]) -> dict[str, list[_Use]]:
    """Return where each constant is used.

    A copy of a constant, a part of it or another form stands for it: who uses that uses the constant, and the node that
    makes it does not.
    """
    uses: dict[str, list[_Use]] = {}
    stands_for = {name: {name} for name in constants}
    for node, chain in zip(model.graph.node, scopes.chains, strict=True):
        for inner in list_nodes([node]):  # those of the graphs inside a node belong to the same layer
            moved = _list_moved(inner)
            if moved and all(name in stands_for for name in moved):
                origins = set().union(*(stands_for[name] for name in moved))
                stands_for.update(dict.fromkeys(inner.output, origins))
                continue
            for index, name in enumerate(inner.input):
                for origin in stands_for.get(name, ()):
                    uses.setdefault(origin, []).append(_Use(inner, index, chain[-1].path))
    return uses


def _list_moved(node: NodeProto) -> Sequence[str]:
    """Return the inputs whose elements a node hands on; none for a node that computes."""
    inputs: Sequence[str] = node.input
    if node.op_type in _MOVES:  # further inputs say how
        return inputs[:1]
    return inputs if node.op_type == "Concat" else []


def _has_weights_in_nodes(constants: Mapping[str, Constant], all_uses: Mapping[str, Sequence[_Use]]) -> bool:
    """Return whether an exporter writes weights as ``Constant`` nodes, as that of PaddlePaddle does: all of them."""
    return any(constants[name].is_node and _is_weight(uses) for name, uses in all_uses.items()) and not any(
        constant.shape.numel > 1 and not constant.is_node and is_float(dtype_name(constant.values.data_type))
        for constant in constants.values()
    )


def _is_weight(uses: Sequence[_Use]) -> bool:
    """Return whether an operator takes a constant as its weight."""
    return any(use.input in _PARAMETERS.get(use.node.op_type, ()) for use in uses)


def _is_parameter(name: str, constant: Constant, dtype: str, uses: Sequence[_Use], nodes_are_weights: bool) -> bool:
    """Return whether a constant is a weight that is trained: by the operators that use it, else by its dtype."""
    if _is_weight(uses):
        return True
    if dtype in _NARROW and any(use.input in _SCALED.get(use.node.op_type, ()) for use in uses):
        return constant.shape.numel > 1
    if (constant.is_node and not nodes_are_weights) or _COMPUTED.fullmatch(name) or not constant.shape:
        return False
    if uses and all(use.input in _BUFFERS.get(use.node.op_type, ()) for use in uses):
        return False
    return is_float(dtype)


def _count_packed(stored: int, dtype: str, uses: Sequence[_Use]) -> int | None:
    """Return how many elements packed weights stand for; None for weights that are not packed."""
    for use in uses:
        sizes: dict[str, int] = {attribute.name: attribute.i for attribute in use.node.attribute}
        if use.node.op_type in ("MatMulNBits", "MatMulBnb4") and use.input == 1:
            return sizes.get("K", 0) * sizes.get("N", 0)
        if use.node.op_type == "GatherBlockQuantized" and use.input == 0 and dtype == "uint8":
            return stored * 8 // sizes.get("bits", 4)
    return None
