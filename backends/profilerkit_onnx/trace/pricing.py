"""What a node costs: its operator's formula, called with what the walk knows of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onnx import AttributeProto, NodeProto, helper

from profilerkit.backend_kit.operator_costs import Price

from ..costs import NodeCall, Shapes
from ..costs.registry import OPERATORS
from ..model.types import STANDARD
from .values import Value

__all__ = ["may_be_masked", "name_node", "name_operator", "price", "read_attributes"]

#: The attributes that are graphs or types: formulas have no use for them.
_LEFT_OUT = (AttributeProto.GRAPH, AttributeProto.GRAPHS, AttributeProto.TYPE_PROTO, AttributeProto.TYPE_PROTOS)

#: Of attention, which inputs are masks, lengths in the place of one, or a bias, which may hide scores as a mask does.
_MASKS = {
    "Attention": (3, 6),
    "com.microsoft::Attention": (3, 5),
    "com.microsoft::QAttention": (5,),
    "com.microsoft::MultiHeadAttention": (4, 5),
}
#: Attention in which no query attends to a later key, whatever its attributes are.
_ALWAYS_CAUSAL = ("com.microsoft::GroupQueryAttention",)
#: The attributes that say so of the others, and those of a window, beyond which scores are hidden; -1 is none.
_CAUSAL, _WINDOWS = ("is_causal", "unidirectional"), ("left_window_size", "right_window_size")


def name_operator(node: NodeProto) -> str:
    """Return the name of a node's operator, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in STANDARD else f"{node.domain}::{node.op_type}"


def name_node(node: NodeProto) -> str:
    """Return what a message calls a node: its name, or its first output where it has none."""
    return node.name or node.output[0]


def read_attributes(node: NodeProto) -> dict[str, Any]:
    """Return the attributes of a node by name: numbers, texts, lists of them, tensors."""
    return _read_values(attribute for attribute in node.attribute if not attribute.ref_attr_name)


def _read_values(attributes: Iterable[AttributeProto]) -> dict[str, Any]:
    return {
        attribute.name: _decode(helper.get_attribute_value(attribute))
        for attribute in attributes
        if attribute.type not in _LEFT_OUT
    }


def _decode(value: Any) -> Any:
    """Return a value of an attribute with texts in the place of bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_decode(item) for item in value] if isinstance(value, (list, tuple)) else value


def may_be_masked(operator: str, node: NodeProto, inputs: Sequence[Value | None]) -> bool:
    """Return whether a node is attention of which scores may be hidden: by a mask or bias that it reads, or a rule."""
    if operator in _ALWAYS_CAUSAL:
        return True
    positions = _MASKS.get(operator)
    if positions is None:
        return False
    reads_mask = any(inputs[index] is not None for index in positions if index < len(inputs))
    return reads_mask or any(
        (attribute.name in _CAUSAL and attribute.i) or (attribute.name in _WINDOWS and attribute.i >= 0)
        for attribute in node.attribute
    )


def price(
    operator: str,
    node: NodeProto,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value],
    defaults: Iterable[AttributeProto],
) -> Price:
    """Return the cost of one run of a node, by the name of its operator, and what is not counted of it.

    ``defaults`` are the values of attributes that it may lack.
    """
    call = NodeCall(
        operator,
        inputs=Shapes([None if value is None else value.shape for value in inputs]),
        outputs=Shapes([value.shape for value in outputs]),
        input_dtypes=tuple("" if value is None else value.info.dtype or "unknown" for value in inputs),
        output_dtypes=tuple(value.info.dtype for value in outputs),
        attributes=read_attributes(node),
        defaults=_read_values(defaults),
        value=lambda index: None if (source := inputs[index]) is None else source.array,
    )
    return OPERATORS.price(call)
