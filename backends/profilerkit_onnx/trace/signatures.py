"""What a node has in common with others of a graph: layers come again, and what one of them does all of them do."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from onnx import AttributeProto, NodeProto

from profilerkit.costs import Cost

from .values import Value

__all__ = ["Known", "signature"]

#: The most elements of a constant that are compared: shapes and indices have fewer.
_COMPARED = 256
_WITH_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


class Known(NamedTuple):
    """What is known of all nodes of one signature.

    Attributes:
        outputs: The outputs of the first of them.
        constant: Whether these follow from constants and shapes alone.
        cost: What one run costs.
        missing: What is not counted of it, in words.
    """

    outputs: Sequence[Value]
    constant: bool
    cost: Cost
    missing: str


def signature(node: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> Hashable | None:
    """Return what the types, the elements and the cost of a node follow from; None where that is too much to compare.

    Names are no part of it, but which inputs and outputs there are.
    """
    parts: list[Hashable] = []
    for value in inputs:
        if value is None:
            parts.append(None)
            continue
        array = value.array
        if array is None:
            parts.append((value.type_key, value.constant))
        elif array.size <= _COMPARED and not array.dtype.hasobject:
            parts.append(
                (value.type_key, value.constant, value.from_inputs, array.dtype.str, array.shape, array.tobytes())
            )
        else:
            return None
    attributes = node.attribute
    if any(attribute.type in _WITH_GRAPHS for attribute in attributes):
        return None
    return (
        *(node.op_type, node.domain, node.overload, tuple(opsets.items()), tuple(map(bool, node.output))),
        tuple(attribute.SerializeToString(deterministic=True) for attribute in attributes),
        tuple(parts),
    )
