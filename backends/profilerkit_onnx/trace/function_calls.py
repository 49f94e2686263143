"""Calls of functions: the walk over the body of one, with the values and the attributes of its caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from onnx import AttributeProto, FunctionProto, NodeProto

from .values import UnfitError, Value, Values

if TYPE_CHECKING:
    from .walk import Walk

__all__ = ["walk_function"]

#: The most nodes in functions that are gone over, some seconds: 17 functions that each call the last one twice have as
#: many, in a file of a kilobyte.
_MOST_NODES = 100_000


def walk_function(
    walk: Walk, node: NodeProto, function: FunctionProto, inputs: Sequence[Value | None], values: Values, times: int
) -> None:
    """Go over the body of the function that a node calls; ``values`` gain what it returns."""
    walk.nodes_in_functions += len(function.node)
    if walk.nodes_in_functions > _MOST_NODES:
        raise UnfitError(
            f"its functions call one another more than {_MOST_NODES:,} operators in all, the last "
            f"{node.op_type!r}; have the exporter write them as a loop, or inline what is needed"
        )
    inner: Values = {name: value for name, value in zip(function.input, inputs, strict=False) if value is not None}
    left_out = set(function.input) - inner.keys()
    attributes = {attribute.name: attribute for attribute in (*function.attribute_proto, *node.attribute)}
    opsets, declared = walk.opsets, walk.declared
    walk.opsets = {**opsets, **{entry.domain: entry.version for entry in function.opset_import}}
    walk.declared = {}
    try:
        walk.walk_nodes([_fill(item, attributes, left_out) for item in function.node], inner, times)
    finally:
        walk.opsets, walk.declared = opsets, declared
    for name, output in zip(function.output, node.output, strict=False):
        if output and name in inner:
            values[output] = inner[name]


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
