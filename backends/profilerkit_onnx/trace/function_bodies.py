"""The bodies of functions: those by which the standard defines operators, and each as a node calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from onnx import AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto

from ..model.nodes import list_inner_graphs
from ..model.types import STANDARD
from .definitions import Definition
from .values import Value

__all__ = ["fill_body", "find_body"]


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
    for graph in list_inner_graphs(copy):
        filled = [_fill(inner, attributes, left_out) for inner in graph.node]
        del graph.node[:]
        graph.node.extend(filled)
    return copy
