"""The values of a graph in the walk: shapes, dtypes and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profilerkit.costs import Shape
from profilerkit.trace.records import TensorInfo

from .nodes import count_bytes, dtype_name

__all__ = ["Value", "Values", "read_inputs"]


@dataclass(eq=False)
class Value:
    """A value of the graph.

    Attributes:
        number: Its number in the lifetimes of buffers.
        constant: Whether it follows from the file and from shapes alone.
        info: Shape and dtype for reports; -1 stands for an unknown size.
        shape: Its sizes; None if one of them is not known.
        bytes: Its size in bytes; 0 if its shape is not known.
    """

    number: int
    constant: bool
    info: TensorInfo
    shape: Shape | None
    bytes: int

    @classmethod
    def read(cls, number: int, constant: bool, output: Any) -> Value:
        """Return the value of an output of a node."""
        partial, element = output.get_partial_shape(), output.get_element_type()
        if not partial.is_static:
            dims = partial if partial.rank.is_static else ()
            sizes = tuple(dim.get_length() if dim.is_static else -1 for dim in dims)
            return cls(number, constant, TensorInfo(sizes, dtype_name(element)), None, 0)
        shape = Shape(partial.to_shape())
        info = TensorInfo(tuple(shape), dtype_name(element))
        return cls(number, constant, info, shape, count_bytes(shape.numel, element))


#: The values that nodes have made, by the name of the node and the index of the output.
Values = dict[tuple[str, int], Value]


def read_inputs(node: Any, values: Mapping[tuple[str, int], Value]) -> list[Value]:
    """Return the values that a node reads."""
    return [values[source.get_node().get_name(), source.get_index()] for source in node.input_values()]
