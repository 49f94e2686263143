"""The values of a graph as the walk knows them: types, shapes, and what is known before the model runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, SparseTensorProto, TensorProto, TypeProto

from profilerkit.costs import Shape
from profilerkit.process.cached import cached_property
from profilerkit.trace.records import TensorInfo

from ..model.types import common_type, count_bytes, dtype_name, read_dims, read_shape, tensor_type

__all__ = ["Array", "MadeConstant", "Origin", "UnfitError", "Value", "Values", "find_value"]

Array = np.ndarray[Any, Any]


class UnfitError(Exception):
    """The shapes that reach a node do not fit its operator."""


@dataclass(eq=False)
class Value:
    """A value of the graph.

    Attributes:
        number: What the lifetimes of buffers know it by; views of one buffer have numbers of their own.
        type: Its type, with the sizes that are known; it does not change.
        constant: Whether it follows from the file and the shapes of the inputs alone.
        array: Its elements, where they are known before the model runs and are few.
        from_inputs: Whether these elements follow from those of the inputs that the call gives.
    """

    number: int
    type: TypeProto
    constant: bool = False
    array: Array | None = None
    from_inputs: bool = False

    @classmethod
    def of(cls, number: int, element: int, shape: Shape | None, **facts: Any) -> Value:
        """Return a tensor of a dtype and shape."""
        return cls(number, tensor_type(element, shape), **facts)

    def with_number(self, number: int) -> Value:
        """Return a value like this one in a buffer of its own."""
        twin = copy(self)  # with its shape, where that was read already
        twin.number = number
        return twin

    def merge(self, others: Collection[Value]) -> Value:
        """Return what is known of a value that may also be one of others: a size, or the elements, where all agree.

        It has the buffer of this value, and does not follow from the file alone.
        """
        common = reduce(common_type, (other.type for other in others), self.type)
        is_same = self.array is not None and all(
            other.array is not None and np.array_equal(self.array, other.array) for other in others
        )
        from_inputs = self.from_inputs or any(other.from_inputs for other in others)
        return Value(self.number, common, False, self.array if is_same else None, from_inputs)

    def without_array(self) -> Value:
        """Return the same value with elements that are not known: what a loop carries from one turn to the next."""
        return Value(self.number, self.type)

    def mark_from_inputs(self) -> Value:
        """Return the same value, which does not follow from the file alone: the given inputs decide what makes it."""
        return Value(self.number, self.type, False, self.array, True)

    @property
    def is_true(self) -> bool:
        """Whether its elements are known, and all of them true."""
        return self.array is not None and bool(self.array.all())

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor; else it is a sequence, an optional value or unknown."""
        return bool(self.type.WhichOneof("value") == "tensor_type")

    @property
    def element(self) -> int:
        """Its dtype, as a number of ``TensorProto.DataType``; 0 for what is no tensor."""
        return int(self.type.tensor_type.elem_type) if self.is_tensor else 0

    @cached_property
    def type_key(self) -> bytes:
        """Its type as bytes, which are equal for equal types."""
        return bytes(self.type.SerializeToString(deterministic=True))

    @cached_property
    def shape(self) -> Shape | None:
        """Its shape; None where a size is not known before the model runs."""
        return read_shape(self.type, {}) if self.is_tensor else None

    @cached_property
    def bytes(self) -> int:
        """The bytes that it takes; 0 where its shape is not known."""
        shape = self.shape
        return 0 if shape is None else count_bytes(shape.numel, self.element)

    @cached_property
    def info(self) -> TensorInfo:
        """Shape and dtype for reports, with -1 for a size that is not known."""
        if self.shape is not None:
            return TensorInfo(tuple(self.shape), dtype_name(self.element))
        dims = read_dims(self.type) if self.is_tensor else ()
        sizes = tuple(dim if isinstance(dim, int) else -1 for dim in dims or ())
        return TensorInfo(sizes, dtype_name(self.element))


@dataclass(frozen=True, eq=False)
class MadeConstant:
    """A constant that a node makes of other constants.

    Attributes:
        node: The node.
        index: Which of its outputs the constant is.
        inputs: What it reads.
        opsets: The version of each operator set there.
    """

    node: NodeProto
    index: int
    inputs: tuple[Value | None, ...]
    opsets: Mapping[str, int]


#: Where the elements of a constant come from: the file, or other constants.
Origin: TypeAlias = TensorProto | SparseTensorProto | MadeConstant
#: The values that a graph can read, by their names.
Values: TypeAlias = dict[str, Value]


def find_value(name: str, values: Mapping[str, Value], node: NodeProto | None = None) -> Value:
    """Return a value by its name; raise `UnfitError` if nothing in the graph has made it, as in a damaged file."""
    if name in values:
        return values[name]
    reader = "the graph returns" if node is None else f"the node {node.name or node.op_type!r} reads"
    raise UnfitError(f"{reader} the value {name!r}, which nothing before it makes; export the model again")
