"""The standard's definitions of operators: the types of a node's outputs, and function bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

from onnx import (
    AttributeProto,
    FunctionProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    defs,
    helper,
    numpy_helper,
)
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from profilerkit.error_text import error_line

from ..model.nodes import name_node, name_operator, read_attributes
from ..model.types import STANDARD
from .runtime_shapes import infer_for_runtime
from .values import Array, UnfitError, Value

__all__ = ["Definition", "fill_body", "find_body", "find_definition", "infer"]

#: The most floats that may be a factor for each dimension, as of `Resize`: more than any tensor has dimensions.
_MOST_FACTORS = 64


class Definition(NamedTuple):
    """The standard's definition of an operator in one version.

    Attributes:
        schema: The whole definition in onnx's form; onnx's stubs lack its methods for functions.
        defaults: The attributes that a node may lack, with their default values.
        default_values: These values by name, in the form that formulas read.
    """

    schema: Any
    defaults: Sequence[AttributeProto]
    default_values: Mapping[str, Any]


def find_definition(node: NodeProto, opsets: Mapping[str, int]) -> Definition | None:
    """Return the definition of a node's operator in the version that the model uses; None if there is none.

    Without operator sets it is the newest definition.
    """
    domain = "" if node.domain in STANDARD else node.domain
    version = opsets.get(domain, 1) if opsets or domain else None
    try:
        return _read_definition(node.op_type, domain, version)
    except defs.SchemaError:
        return None


@cache
def _read_definition(op: str, domain: str, version: int | None) -> Definition:
    schema: Any = defs.get_schema(op, domain) if version is None else defs.get_schema(op, version, domain)
    defaults = [entry.default_value for entry in schema.attributes.values() if entry.default_value.name]
    return Definition(schema, defaults, read_attributes(defaults))


def infer(
    node: NodeProto, inputs: Sequence[Value | None], definition: Definition | None, opsets: Mapping[str, int]
) -> list[TypeProto | None]:
    """Return the types of a node's outputs; None for an unknown type.

    Raises `UnfitError` if the inputs do not fit the operator.
    """
    nothing: list[TypeProto | None] = [None] * len(node.output)
    if definition is None or not definition.schema.has_type_and_shape_inference_function:
        return infer_for_runtime(node, inputs) or nothing
    types: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for name, value in zip(node.input, inputs, strict=True):
        if value is None:
            continue
        if not value.is_typed:  # onnx would end the process
            return nothing
        types[name] = value.type
        if value.array is not None and _tells_sizes(value.array):
            array = _as_number(value.array) if node.op_type == "Range" else value.array
            data[name] = numpy_helper.from_array(array, name)
    try:
        outputs = _infer_by_standard(node, types, data, definition, opsets)
    except (InferenceError, ValidationError) as error:
        shapes = ", ".join("-" if value is None else str(value.info.shape) for value in inputs)
        raise UnfitError(
            f"the operator {name_operator(node)} of the node {name_node(node)!r} does not fit inputs "
            f"of the shapes {shapes}: {error_line(error)}"
        ) from None
    return list(map(outputs.get, node.output))


def _infer_by_standard(
    node: NodeProto,
    types: dict[str, TypeProto],
    data: dict[str, TensorProto],
    definition: Definition,
    opsets: Mapping[str, int],
) -> dict[str, TypeProto]:
    """Return the types of a node's outputs by name, from the types of its inputs and some of their elements."""
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    if definition.defaults:  # onnx's inference has another default for STFT's `onesided`
        node = _add_defaults(node, definition.defaults)
    try:
        return infer_node_outputs(definition.schema, node, types, data, opset_imports=imports)
    except ValidationError:  # exporters leave inputs out before the standard lets them: Resize in version 11
        newest = find_definition(node, {}) or definition
        imports = [helper.make_opsetid("", defs.onnx_opset_version())]
        return infer_node_outputs(newest.schema, node, types, data, opset_imports=imports)


def _add_defaults(node: NodeProto, defaults: Sequence[AttributeProto]) -> NodeProto:
    """Return a node with the attributes that it lacks."""
    names = {attribute.name for attribute in node.attribute}
    copy = deepcopy(node)
    copy.attribute.extend([default for default in defaults if default.name not in names])
    return copy


def _as_number(array: Array) -> Array:
    """Return a single element without dimensions: runtimes accept ``(1,)`` too, as in the standard's AffineGrid."""
    return array.reshape(()) if array.size == 1 else array


def _tells_sizes(array: Array) -> bool:
    """Return whether the elements of an input may tell sizes of outputs: a row of integers, or of factors."""
    return array.ndim <= 1 and (array.dtype.kind in "iub" or array.size <= _MOST_FACTORS)


def find_body(
    node: NodeProto, inputs: Sequence[Value | None], definition: Definition | None, opsets: Mapping[str, int]
) -> FunctionProto | None:
    """Return the body by which the standard defines a node's operator; None if it does not define it by a body.

    The standard may change a body in a later operator set. The latest body that the model's operator set has is used.
    """
    if definition is None:
        return None
    schema = definition.schema
    is_made_for_node = schema.has_context_dependent_function
    versions = schema.context_dependent_function_opset_versions if is_made_for_node else schema.function_opset_versions
    newest = opsets.get("" if node.domain in STANDARD else node.domain, 1)
    version = max((candidate for candidate in versions if candidate <= newest), default=None)
    body = None if version is None else _read_body(node, inputs, schema, version)
    if not body:
        return None
    function: FunctionProto = FunctionProto.FromString(body)
    function.attribute_proto.extend(definition.defaults)
    if node.domain in STANDARD and not any(entry.domain == "" for entry in function.opset_import):
        function.opset_import.append(OperatorSetIdProto(domain="", version=version))  # which the body takes for granted
    return function


def _read_body(node: NodeProto, inputs: Sequence[Value | None], schema: Any, version: int) -> bytes | None:
    """Return the body of an operator, serialized; None if it is not known.

    Some bodies are the same for each node; others are made for one, from its attributes and the types of its inputs.
    """
    if not schema.has_context_dependent_function:
        return bytes(schema.get_function_with_opset_version(version))
    types = []
    for value in inputs:
        if value is not None and not value.is_typed:
            return None
        types.append(b"" if value is None else value.type.SerializeToString())
    return bytes(schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types))


def fill_body(function: FunctionProto, node: NodeProto, left_out: set[str]) -> list[NodeProto]:
    """Return the nodes of a function for the node that calls it: with its attributes, without inputs that it lacks.

    ``left_out`` are the inputs of the function that the call does not give.
    """
    attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
    return [_fill(item, attributes, left_out) for item in function.node]


def _fill(node: NodeProto, attributes: Mapping[str, AttributeProto], left_out: set[str]) -> NodeProto:
    """Return a node of a function's body with the attributes of the call, without inputs that the call leaves out."""
    copy = deepcopy(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        source = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is not None:
            copy.attribute.add().CopyFrom(source)
            copy.attribute[-1].name = attribute.name
    for index, name in enumerate(copy.input):
        if name in left_out:
            copy.input[index] = ""
    return copy
