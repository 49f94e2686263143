"""The cost of a node: the formula of its operator, called with the facts that the walk knows."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from profilerkit.backend_kit.operator_costs import Price
from profilerkit.costs import Shape

from ..costs import NodeCall, Shapes
from ..costs.registry import OPERATORS
from ..model.nodes import read_attributes
from .definitions import Definition
from .values import Value

__all__ = ["may_be_masked", "price"]

#: The inputs of attention that are masks, lengths instead of a mask, or a bias, which may hide scores like a mask.
_MASKS = {
    "Attention": (3, 6),
    "com.microsoft::Attention": (3, 5),
    "com.microsoft::QAttention": (5,),
    "com.microsoft::MultiHeadAttention": (4, 5),
}
#: Attention in which no query attends to a later key, whatever its attributes are.
_ALWAYS_CAUSAL = ("com.microsoft::GroupQueryAttention",)
#: The attributes by which other operators are causal, and the attributes of a window outside which scores are hidden;
#: -1 is no window.
_CAUSAL, _WINDOWS = ("is_causal", "unidirectional"), ("left_window_size", "right_window_size")


def may_be_masked(operator: str, node: NodeProto, inputs: Sequence[Value | None]) -> bool:
    """Return whether a node is attention with hidden scores, maybe: by a mask or bias that it reads, or by a rule."""
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
    definition: Definition | None,
) -> Price:
    """Return the cost of one run of a node, by the name of its operator, and the uncounted work."""
    input_shapes, input_dtypes = _describe(inputs)
    output_shapes, output_dtypes = _describe(outputs)
    call = NodeCall(
        operator,
        input_shapes,
        output_shapes,
        input_dtypes,
        output_dtypes,
        attributes=read_attributes(node.attribute),
        defaults={} if definition is None else definition.default_values,
        value=lambda index: None if (source := inputs[index]) is None else source.array,
    )
    return OPERATORS.price(call)


def _describe(values: Sequence[Value | None]) -> tuple[Shapes, tuple[str, ...]]:
    """Return the shapes of values, and the names of their dtypes: empty for an input that is left out."""
    shapes, dtypes = list[Shape | None](), list[str]()
    for value in values:
        shapes.append(None if value is None else value.shape)
        dtypes.append("" if value is None else value.info.dtype or "unknown")
    return Shapes(shapes), tuple(dtypes)
