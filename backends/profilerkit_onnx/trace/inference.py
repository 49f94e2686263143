"""Shapes and dtypes of a node's outputs, by onnx's own inference, one node at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto, NodeProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from profilerkit.error_text import error_line

from ..model.types import STANDARD
from .pricing import name_node, name_operator
from .runtime_shapes import infer_for_runtime
from .values import Array, UnfitError, Value

__all__ = ["find_schema", "infer", "list_defaults"]

#: The most floats that may be a factor for each dimension, as of `Resize`: more than any tensor has dimensions.
_MOST_FACTORS = 64


def find_schema(node: NodeProto, opsets: Mapping[str, int]) -> defs.OpSchema | None:
    """Return the definition of a node's operator in the version that the model uses; None for one that has none.

    Without operator sets it is the newest definition.
    """
    domain = "" if node.domain in STANDARD else node.domain
    try:
        if domain == "" and not opsets:
            return defs.get_schema(node.op_type, domain)
        return defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except defs.SchemaError:
        return None


def list_defaults(schema: Any) -> list[AttributeProto]:
    """Return the values that the definition of an operator gives the attributes that a node may lack."""
    attributes = [] if schema is None else schema.attributes.values()
    return [attribute.default_value for attribute in attributes if attribute.default_value.name]


def infer(node: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> list[TypeProto | None]:
    """Return the types of a node's outputs; None for one that is not known.

    Raises `UnfitError` where the inputs do not fit the operator.
    """
    nothing: list[TypeProto | None] = [None] * len(node.output)
    schema = find_schema(node, opsets)
    if schema is None or not schema.has_type_and_shape_inference_function:
        return infer_for_runtime(node, inputs) or nothing
    values = {name: value for name, value in zip(node.input, inputs, strict=True) if value is not None}
    if any(value.type.WhichOneof("value") is None for value in values.values()):
        return nothing
    try:
        outputs = _infer_by_name(schema, node, values, opsets)
    except (InferenceError, ValidationError) as error:
        shapes = ", ".join("-" if value is None else str(value.info.shape) for value in inputs)
        raise UnfitError(
            f"the operator {name_operator(node)} of the node {name_node(node)!r} does not fit inputs "
            f"of the shapes {shapes}: {error_line(error)}"
        ) from None
    return [outputs.get(name) for name in node.output]


def _infer_by_name(
    schema: defs.OpSchema, node: NodeProto, values: Mapping[str, Value], opsets: Mapping[str, int]
) -> dict[str, TypeProto]:
    """Return the types of a node's outputs by their names; ``values`` are its inputs by theirs."""
    types = {name: value.type for name, value in values.items()}
    data = {
        name: numpy_helper.from_array(_as_number(value.array) if node.op_type == "Range" else value.array, name)
        for name, value in values.items()
        if value.array is not None and _tells_sizes(value.array)
    }
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    node = _add_defaults(node, schema)  # that of STFT's `onesided` is not what onnx's inference takes it for
    try:
        return infer_node_outputs(schema, node, types, data, opset_imports=imports)
    except ValidationError:  # exporters leave inputs out before the standard lets them: Resize in version 11
        newest = find_schema(node, {}) or schema
        imports = [helper.make_opsetid("", defs.onnx_opset_version())]
        return infer_node_outputs(newest, node, types, data, opset_imports=imports)


def _add_defaults(node: NodeProto, schema: defs.OpSchema) -> NodeProto:
    """Return a node with the attributes that it lacks, as the standard defines them."""
    names = {attribute.name for attribute in node.attribute}
    defaults = [default for default in list_defaults(schema) if default.name not in names]
    if not defaults:
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.attribute.extend(defaults)
    return copy


def _as_number(array: Array) -> Array:
    """Return one element without dimensions: runtimes take one in a row, as the standard's own AffineGrid has it."""
    return array.reshape(()) if array.size == 1 else array


def _tells_sizes(array: Array) -> bool:
    """Return whether the elements of an input may tell sizes of outputs: a row of integers, or of factors."""
    return array.ndim <= 1 and (array.dtype.kind in "iub" or array.size <= _MOST_FACTORS)
