"""Shapes and dtypes of a node's outputs, by onnx's own inference, one node at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper
from onnx.shape_inference import infer_node_outputs

from .runtime_shapes import inferred_for_runtime
from .values import Value

__all__ = ["inferred", "schema_of"]

#: Operators whose values, not shapes alone, tell the shapes of the outputs are few; they get all values that are known.
_DEFAULT = ("", "ai.onnx")


def schema_of(node: NodeProto, opsets: Mapping[str, int]) -> defs.OpSchema | None:
    """Return the definition of a node's operator in the version that the model uses; None for one that has none."""
    domain = "" if node.domain in _DEFAULT else node.domain
    try:
        return defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except defs.SchemaError:
        return None


def inferred(
    node: NodeProto, schema: defs.OpSchema | None, inputs: Sequence[Value | None], opsets: Mapping[str, int]
) -> list[TypeProto | None]:
    """Return the types of a node's outputs; None for one that is not known.

    Raises ``onnx.shape_inference.InferenceError`` where the inputs do not fit the operator.
    """
    nothing: list[TypeProto | None] = [None] * len(node.output)
    if schema is None:
        return inferred_for_runtime(node, inputs) or nothing
    if not schema.has_type_and_shape_inference_function:
        return nothing
    types, arrays = {}, {}
    for name, value in zip(node.input, inputs, strict=True):
        if value is not None:
            types[name] = value.type
            if value.array is not None:
                arrays[name] = value.array
    if any(kind.WhichOneof("value") is None for kind in types.values()):
        return nothing
    data: dict[str, TensorProto] = {name: numpy_helper.from_array(array, name) for name, array in arrays.items()}
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    outputs = infer_node_outputs(schema, node, types, data, opset_imports=imports)
    return [outputs.get(name) for name in node.output]
