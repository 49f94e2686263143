"""Rules by which the types of a node's outputs follow from its inputs, for operators that onnx's inference lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, defs, helper
from onnx.shape_inference import infer_node_outputs

from profilerkit.costs import Shape

from ..costs.matmul import turn
from ..model.types import tensor_type
from .pricing import read_attributes
from .values import Array, Value

__all__ = [
    "Rule",
    "RuleNode",
    "Types",
    "UnknownError",
    "broadcast",
    "copy_types",
    "follow_standard",
    "multiply_matrices",
    "put_channels_second",
]

#: The operator set whose operators stand for the runtime's.
_OPSET = 20


class UnknownError(Exception):
    """A shape that the rule needs is not known."""


class RuleNode:
    """A node as the rules see it: shapes and dtypes of its inputs, and attributes."""

    def __init__(self, node: NodeProto, inputs: Sequence[Value | None]) -> None:
        self.node, self.inputs = node, inputs
        self.attributes = read_attributes(node)

    def shape(self, index: int) -> Shape:
        """Return the shape of an input; raise `UnknownError` if it is not known."""
        value = self.inputs[index] if self.has(index) else None
        if value is None or value.shape is None:
            raise UnknownError
        return value.shape

    def has(self, index: int) -> bool:
        """Return whether an input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def element(self, index: int = 0) -> int:
        """Return the dtype of an input as onnx numbers it; 0 for one that is not there."""
        value = self.inputs[index] if self.has(index) else None
        return 0 if value is None else value.element

    def read(self, index: int) -> Array | None:
        """Return the elements of an input; None where they are not known before the model runs."""
        value = self.inputs[index] if self.has(index) else None
        return None if value is None else value.array

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)


#: The types of a node's outputs; None for one that is not known.
Types: TypeAlias = list[TypeProto | None]
Rule: TypeAlias = Callable[[RuleNode], Types]


def copy_types(*indices: int) -> Rule:
    """Return the rule that each output has the type of one of the inputs."""

    def rule(node: RuleNode) -> Types:
        return [tensor_type(node.element(index), node.shape(index)) for index in indices]

    return rule


def broadcast(*indices: int, element: int) -> Rule:
    """Return the rule that the output has the shape that inputs have when they are broadcast, and one's dtype."""

    def rule(node: RuleNode) -> Types:
        return [tensor_type(node.element(element), np.broadcast_shapes(*(node.shape(index) for index in indices)))]

    return rule


def follow_standard(op: str, *indices: int, element: int = 0) -> Rule:
    """Return the rule that the output has the shape of a standard operator's over some of the inputs.

    The channels are last where an attribute says so, or the name of the operator: ``NhwcConv``. The dtype is that of
    one input; where this is left out, the output has floats.
    """

    def rule(node: RuleNode) -> Types:
        has_channels_last = node.node.op_type.startswith("Nhwc") or bool(node.get("channels_last", 0))
        shapes = [node.shape(index) for index in indices if node.has(index)]
        if has_channels_last:
            shapes[0] = put_channels_second(shapes[0])
        output = _infer_by_standard(op, node.node, shapes)
        if has_channels_last:
            output = Shape((output[0], *output[2:], output[1]))
        return [tensor_type(node.element(element) or TensorProto.FLOAT, output)]

    return rule


def multiply_matrices(element: int, second: int = 1) -> Rule:
    """Return the rule of ``(..., m, k) @ (..., k, n)``, either factor transposed as the attributes say."""

    def rule(node: RuleNode) -> Types:
        first = turn(node.shape(0), bool(node.get("transA", 0)), bool(node.get("transBatchA", 0)))
        other = turn(node.shape(second), bool(node.get("transB", 0)), bool(node.get("transBatchB", 0)))
        return [tensor_type(node.element(element), _infer_by_standard("MatMul", NodeProto(), [first, other]))]

    return rule


def put_channels_second(shape: Shape) -> Shape:
    """Return a shape whose channels are last with the channels behind the batch."""
    return Shape((shape[0], shape[-1], *shape[1:-1]))


def _infer_by_standard(op: str, node: NodeProto, shapes: Sequence[Shape]) -> Shape:
    """Return the shape that onnx's own inference gives the first output of an operator over inputs of these shapes."""
    schema: Any = defs.get_schema(op, _OPSET, "")
    names = [f"x{index}" for index in range(len(shapes))]
    copy = helper.make_node(op, names, ["y"])
    copy.attribute.extend([attribute for attribute in node.attribute if attribute.name in schema.attributes])
    types: Mapping[str, TypeProto] = {
        name: tensor_type(TensorProto.FLOAT, shape) for name, shape in zip(names, shapes, strict=True)
    }
    made = infer_node_outputs(schema, copy, dict(types), opset_imports=[helper.make_opsetid("", _OPSET)])
    return Shape(dim.dim_value for dim in made["y"].tensor_type.shape.dim)
