"""What a node says of itself: the names of its operator and of itself, its attributes, the graphs that it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto, helper

from .types import STANDARD

__all__ = ["HOLDS_GRAPHS", "list_inner_graphs", "name_node", "name_operator", "read_attributes"]

#: The kinds of attributes that hold graphs.
HOLDS_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
#: The kinds of attributes that no formula has a use for.
_LEFT_OUT = (*HOLDS_GRAPHS, AttributeProto.TYPE_PROTO, AttributeProto.TYPE_PROTOS)


def name_operator(node: NodeProto) -> str:
    """Return the name of a node's operator, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in STANDARD else f"{node.domain}::{node.op_type}"


def name_node(node: NodeProto) -> str:
    """Return what a message calls a node: its name, or its first output where it has none."""
    return node.name or node.output[0]


def read_attributes(attributes: Iterable[AttributeProto]) -> dict[str, Any]:
    """Return attributes by name: numbers, texts, lists of them, tensors; not graphs, types, and what a call gives."""
    return {
        attribute.name: _decode(helper.get_attribute_value(attribute))
        for attribute in attributes
        if attribute.type not in _LEFT_OUT and not attribute.ref_attr_name
    }


def _decode(value: Any) -> Any:
    """Return a value of an attribute with texts in the place of bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_decode(item) for item in value] if isinstance(value, (list, tuple)) else value


def list_inner_graphs(node: NodeProto) -> list[GraphProto]:
    """Return the graphs that a node holds, without those inside of these."""
    graphs: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        graphs += attribute.graphs
    return graphs
