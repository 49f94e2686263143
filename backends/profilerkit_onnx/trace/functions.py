"""Functions: those that a model defines itself, and the bodies by which the standard defines an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto

from ..model.types import STANDARD
from .inference import find_schema, list_defaults
from .values import Value

__all__ = ["fill_body", "find_body"]


def find_body(node: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> FunctionProto | None:
    """Return the body by which the standard defines a node's operator; None for one that it does not define so.

    The standard may write a body anew in a later operator set. The latest one that the model's set has is used.
    """
    schema: Any = find_schema(node, opsets)  # onnx's stubs lack what it says of functions
    if schema is None:
        return None
    # Some bodies are the same for each node; others are made for one, from its attributes and the types of its inputs.
    is_made_for_node = schema.has_context_dependent_function
    versions = schema.context_dependent_function_opset_versions if is_made_for_node else schema.function_opset_versions
    newest = opsets.get("" if node.domain in STANDARD else node.domain, 1)
    version = max((candidate for candidate in versions if candidate <= newest), default=None)
    if version is None:
        return None
    if is_made_for_node:
        if any(value is not None and value.type.WhichOneof("value") is None for value in inputs):
            return None  # onnx would end the process
        types = [b"" if value is None else value.type.SerializeToString() for value in inputs]
        body = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
    else:
        body = schema.get_function_with_opset_version(version)
    if not body:
        return None
    function: FunctionProto = FunctionProto.FromString(body)
    function.attribute_proto.extend(list_defaults(schema))
    if node.domain in STANDARD and not any(entry.domain == "" for entry in function.opset_import):
        function.opset_import.append(OperatorSetIdProto(domain="", version=version))  # which the body takes for granted
    return function


def fill_body(function: FunctionProto, node: NodeProto, left_out: set[str]) -> list[NodeProto]:
    """Return the nodes of a function for the node that calls it: with its attributes, and without what it leaves out.

    ``left_out`` are the inputs of the function that the call does not give.
    """
    attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
    return [_fill(item, attributes, left_out) for item in function.node]


def _fill(node: NodeProto, attributes: Mapping[str, AttributeProto], left_out: set[str]) -> NodeProto:
    """Return a node of a function's body with the attributes of the call, without inputs that the call leaves out."""
    copy = NodeProto()
    copy.CopyFrom(node)
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
