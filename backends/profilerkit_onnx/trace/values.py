"""The values of a graph in the walk: types, shapes, and the elements that are known before the model runs.

And the call of a node on such values, as the formulas of costs read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, TypeProto

from profilerkit.backend_kit.failures import UnfitError
from profilerkit.costs import Shape
from profilerkit.trace.records import TensorInfo

from ..costs import NodeCall, Shapes
from ..model.nodes import name_operator, read_attributes
from ..model.types import common_type, count_bytes, dtype_name, read_dims

__all__ = ["Array", "Value", "Values", "describe_call", "find_value"]

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Value:
    """A value of the graph.

    Attributes:
        number: Its number in the lifetimes of buffers; views of one buffer have different numbers.
        type: Its type, with the known sizes; it does not change.
        constant: Whether it follows from the file and the shapes of the inputs alone.
        array: Its elements, if they are known before the model runs and are few.
        element: Its dtype, as a number of ``TensorProto.DataType``; 0 for a value that is no tensor.
        info: Shape and dtype for reports, with -1 for an unknown size.
        shape: Its shape; None if a size is not known before the model runs.
        bytes: Its size in bytes; 0 if its shape is not known.
    """

    number: int
    type: TypeProto
    constant: bool = False
    array: Array | None = None
    element: int = field(init=False)
    info: TensorInfo = field(init=False)
    shape: Shape | None = field(init=False)
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        """Read the type."""
        dims = read_dims(self.type)
        sizes = Shape([dim if isinstance(dim, int) else -1 for dim in dims or ()])
        self.element = self.type.tensor_type.elem_type
        self.info = TensorInfo(tuple(sizes), dtype_name(self.element))
        self.shape = None if dims is None or -1 in sizes else sizes
        self.bytes = 0 if self.shape is None else count_bytes(self.shape, self.element)

    def merge(self, other: Value) -> Value:
        """Return the common facts of two values, either of which may result: equal sizes and equal elements.

        The result has the buffer of this value.
        """
        is_same = self.array is not None and other.array is not None and np.array_equal(self.array, other.array)
        is_constant = is_same and self.constant and other.constant
        return Value(self.number, common_type(self.type, other.type), is_constant, self.array if is_same else None)

    def carry(self) -> Value:
        """Return the same value as a loop carries it from one turn to the next: with unknown elements."""
        return Value(self.number, self.type)

    def mark_from_inputs(self) -> Value:
        """Return the same value, which does not follow from the file alone: the given inputs decide its origin."""
        return Value(self.number, self.type, array=self.array)

    @property
    def from_inputs(self) -> bool:
        """Whether its elements are known from elements of the inputs that the call gives, and not from the file."""
        return self.array is not None and not self.constant

    @property
    def is_typed(self) -> bool:
        """Whether anything is known of its type."""
        return self.type.WhichOneof("value") is not None

    @property
    def is_true(self) -> bool:
        """Whether its elements are known, and all of them true."""
        return self.array is not None and bool(self.array.all())


#: The values that a graph can read, by their names.
Values: TypeAlias = dict[str, Value]


def find_value(name: str, values: Mapping[str, Value], node: NodeProto | None = None) -> Value:
    """Return a value by its name; raise `UnfitError` if nothing in the graph has made it, as in a damaged file."""
    if name in values:
        return values[name]
    reader = "the graph returns" if node is None else f"the node {node.name or node.op_type!r} reads"
    raise UnfitError(f"{reader} the value {name!r}, which nothing before it makes; export the model again")


def describe_call(
    node: NodeProto,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value] = (),
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> NodeCall:
    """Return the call of a node, as formulas read it.

    ``outputs`` are the known ones, ``defaults`` the values of attributes that the node lacks.
    """
    input_shapes, input_dtypes = _describe(inputs)
    output_shapes, output_dtypes = _describe(outputs)
    return NodeCall(
        name_operator(node),
        input_shapes,
        output_shapes,
        input_dtypes,
        output_dtypes,
        attributes=read_attributes(node.attribute),
        defaults=defaults,
        value=lambda index: None if (source := inputs[index]) is None else source.array,
    )


def _describe(values: Sequence[Value | None]) -> tuple[Shapes, tuple[str, ...]]:
    """Return the shapes of values, and the names of their dtypes: empty for an input that is left out."""
    shapes, dtypes = list[Shape | None](), list[str]()
    for value in values:
        shapes.append(None if value is None else value.shape)
        dtypes.append("" if value is None else value.info.dtype or "unknown")
    return Shapes(shapes), tuple(dtypes)
