"""The standard's definitions of operators, with default attributes, and the bodies of functions of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

from onnx import AttributeProto, FunctionProto, NodeProto, defs

from ..model.nodes import list_inner_graphs, read_attributes
from ..model.types import STANDARD

__all__ = ["Definition", "fill_body", "find_definition"]


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
