"""What a node has in common with others of a graph: layers come again, and what one of them does all of them do."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from onnx import AttributeProto, NodeProto

from profilerkit.costs import Cost

from .values import Value

__all__ = ["Known", "make_signature"]

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


def make_signature(node: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> Hashable | None:
    """Return what the types, the elements and the cost of a node follow from; None where that is too much to compare.

    Names are no part of it, but which inputs and outputs there are.
    """
    if any(attribute.type in _WITH_GRAPHS for attribute in node.attribute):
        return None
    if any(value is not None and not _is_comparable(value) for value in inputs):
        return None
    return (
        *(node.op_type, node.domain, node.overload, tuple(opsets.items()), tuple(map(bool, node.output))),
        tuple(attribute.SerializeToString(deterministic=True) for attribute in node.attribute),
        tuple(None if value is None else _describe(value) for value in inputs),
    )


def _is_comparable(value: Value) -> bool:
    """Return whether a value has no elements that are known, or few of them."""
    return value.array is None or (value.array.size <= _COMPARED and not value.array.dtype.hasobject)


def _describe(value: Value) -> Hashable:
    """Return what two values have in common that a node cannot tell apart."""
    array = value.array
    if array is None:
        return value.type_key, value.constant
    return value.type_key, value.constant, value.from_inputs, array.dtype.str, array.shape, array.tobytes()
