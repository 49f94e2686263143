"""A node as the formulas of costs and the rules for shapes see it."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from profilerkit.costs import Shape

from ..costs import NodeCall, Shapes
from ..model.nodes import name_operator, read_attributes
from .definitions import Definition
from .values import Value

__all__ = ["describe_call"]


def describe_call(
    node: NodeProto,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value] = (),
    definition: Definition | None = None,
) -> NodeCall:
    """Return the call of a node; ``outputs`` are the known ones, ``definition`` has the default attributes."""
    input_shapes, input_dtypes = _describe(inputs)
    output_shapes, output_dtypes = _describe(outputs)
    return NodeCall(
        name_operator(node),
        input_shapes,
        output_shapes,
        input_dtypes,
        output_dtypes,
        attributes=read_attributes(node.attribute),
        defaults={} if definition is None else definition.default_values,
        value=lambda index: None if (source := inputs[index]) is None else source.array,
    )


def _describe(values: Sequence[Value | None]) -> tuple[Shapes, tuple[str, ...]]:
    """Return the shapes of values, and the names of their dtypes: empty for an input that is left out."""
    shapes, dtypes = list[Shape | None](), list[str]()
    for value in values:
        shapes.append(None if value is None else value.shape)
        dtypes.append("" if value is None else value.info.dtype or "unknown")
    return Shapes(shapes), tuple(dtypes)
