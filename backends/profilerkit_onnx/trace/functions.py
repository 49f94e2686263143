"""Functions: those that a model defines itself, and the bodies by which the standard defines an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnx import FunctionProto, NodeProto, OperatorSetIdProto

from .inference import find_schema
from .values import Value

__all__ = ["find_body", "function_key", "functions_by_key"]

Key = tuple[str, str, str]


def functions_by_key(functions: Iterable[FunctionProto]) -> dict[Key, FunctionProto]:
    """Return the functions of a model by domain, name and overload."""
    return {(function.domain, function.name, function.overload): function for function in functions}


def function_key(node: NodeProto) -> Key:
    """Return what the function of a node would be known by."""
    return node.domain, node.op_type, node.overload


def find_body(node: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> FunctionProto | None:
    """Return the body by which the standard defines a node's operator; None for one that it does not define so."""
    schema: Any = find_schema(node, opsets)  # onnx's stubs lack what it says of functions
    if schema is None:
        return None
    version = opsets.get(node.domain, 1)
    if schema.has_context_dependent_function:
        types = [b"" if value is None else value.type.SerializeToString() for value in inputs]
        versions = [
            one_version for one_version in schema.context_dependent_function_opset_versions if one_version <= version
        ]
        if not versions:
            return None
        text = schema.get_context_dependent_function_with_opset_version(max(versions), node.SerializeToString(), types)
        return _whole(FunctionProto.FromString(text), max(versions), schema) if text else None
    versions = (
        [one_version for one_version in schema.function_opset_versions if one_version <= version]
        if schema.has_function
        else []
    )
    if not versions:
        return None
    body = FunctionProto.FromString(schema.get_function_with_opset_version(max(versions)))
    return _whole(body, max(versions), schema)


def _whole(body: FunctionProto, version: int, schema: Any) -> FunctionProto:
    """Return a body that names the operator set it is written in, and the defaults of its attributes."""
    if not any(entry.domain == "" for entry in body.opset_import):
        body.opset_import.append(OperatorSetIdProto(domain="", version=version))
    defaults = [attribute.default_value for attribute in schema.attributes.values()]
    body.attribute_proto.extend([default for default in defaults if default.name])
    return body
