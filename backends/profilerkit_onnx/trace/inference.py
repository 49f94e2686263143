"""Shapes and dtypes of a node's outputs, by onnx's own inference, one node at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from .runtime_shapes import infer_for_runtime
from .values import Array, Value

__all__ = ["find_schema", "infer"]

#: The names of the domain of the standard.
_DEFAULT = ("", "ai.onnx")
#: More dimensions than any tensor has.
_MOST_DIMENSIONS = 64


def _may_tell_sizes(array: Array) -> bool:
    """Return whether the elements of a constant may tell sizes of outputs: integers, or a factor for each dimension.

    No operator of the standard takes sizes from a tensor of more dimensions.
    """
    return array.ndim <= 1 and (array.dtype.kind in "iub" or array.size <= _MOST_DIMENSIONS)


def find_schema(node: NodeProto, opsets: Mapping[str, int]) -> defs.OpSchema | None:
    """Return the definition of a node's operator in the version that the model uses; None for one that has none.

    Without operator sets it is the newest definition.
    """
    domain = "" if node.domain in _DEFAULT else node.domain
    try:
        if domain == "" and not opsets:
            return defs.get_schema(node.op_type, domain)
        return defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except defs.SchemaError:
        return None


def infer(
    node: NodeProto, schema: defs.OpSchema | None, inputs: Sequence[Value | None], opsets: Mapping[str, int]
) -> list[TypeProto | None]:
    """Return the types of a node's outputs; None for one that is not known.

    Raises ``onnx.shape_inference.InferenceError`` where the inputs do not fit the operator.
    """
    nothing: list[TypeProto | None] = [None] * len(node.output)
    if schema is None:
        return infer_for_runtime(node, inputs) or nothing
    if not schema.has_type_and_shape_inference_function:
        return nothing
    values = {name: value for name, value in zip(node.input, inputs, strict=True) if value is not None}
    types = {name: value.type for name, value in values.items()}
    if any(kind.WhichOneof("value") is None for kind in types.values()):
        return nothing
    data = {
        name: numpy_helper.from_array(value.array, name)
        for name, value in values.items()
        if value.array is not None and _may_tell_sizes(value.array)
    }
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        outputs = infer_node_outputs(schema, node, types, data, opset_imports=imports)
    except ValidationError as error:  # exporters leave inputs out before the standard lets them: Resize in version 11
        newest = find_schema(node, {})
        if newest is None or newest.since_version == schema.since_version:
            raise InferenceError(str(error)) from None
        outputs = _infer_by_newest(newest, node, types, data)
    return [outputs.get(name) for name in node.output]


def _infer_by_newest(
    schema: defs.OpSchema, node: NodeProto, types: dict[str, TypeProto], data: dict[str, TensorProto]
) -> dict[str, TypeProto]:
    """Return what the newest definition of an operator infers; raises InferenceError where the node does not fit it."""
    imports = [helper.make_opsetid("", defs.onnx_opset_version())]
    try:
        return dict(infer_node_outputs(schema, node, types, data, opset_imports=imports))
    except ValidationError as error:
        raise InferenceError(str(error)) from None
