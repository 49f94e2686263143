"""The elements of lists of tensors, which loops read and fill: their number, and their shape.

TensorFlow notes the shape of the elements when it makes a list, and does not infer it from later elements. A function
that was made for any batch, a saved model's for example, has lists whose elements have no known batch; its caller knows
it. A recurrent layer reads a sequence, and keeps the states, in such lists::

    TensorListFromTensor  x (10, 2, 3)     a list of 10 elements of shape (2, 3)
    TensorListReserve     10               a list of 10 elements of a shape that is not known so far
    TensorListGetItem     of the first     (2, 3)
    TensorListSetItem     into the second  with a state (2, 4), it has 10 elements of shape (2, 4)
    TensorListStack       the second       (10, 2, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .folding import Folding
from .tensor_facts import PartialShape, common_shape
from .values import Value

__all__ = ["note_elements", "read_shape"]


def note_elements(operator: Any, inputs: Sequence[Value], outputs: Sequence[Value], folding: Folding) -> None:
    """Note the known facts of the list that an operator makes: the number and the shape of its elements.

    The list is its first output, and nothing is known of it before. Operators that make no list are left alone.
    """
    match operator.type:
        case "TensorListReserve":  # its inputs: the shape of an element as the graph knows it, the size
            outputs[0].length = _read_size(inputs[1], folding)
        case "TensorListResize":  # the list, its size
            outputs[0].elements = inputs[0].elements
            outputs[0].length = _read_size(inputs[1], folding)
        case "TensorListSetItem":  # the list, the index, the item
            outputs[0].elements = _add_item(inputs[0], inputs[2])
            outputs[0].length = inputs[0].length
        case "TensorListPushBack":  # the list, the item; in a loop, its length changes with each run
            outputs[0].elements = _add_item(inputs[0], inputs[1])
        case "TensorListPopBack":
            outputs[0].elements = inputs[0].elements
        case "TensorListFromTensor":  # each row becomes an element
            rows = inputs[0].shape
            if rows is not None:
                outputs[0].length, *elements = rows
                outputs[0].elements = tuple(elements)
        case "TensorListScatter" | "TensorListScatterV2":  # the same, at indices that leave the length open
            rows = inputs[0].shape
            outputs[0].elements = None if rows is None else rows[1:]
        case "Identity":
            outputs[0].elements, outputs[0].length = inputs[0].elements, inputs[0].length


def read_shape(operator: Any, index: int, inputs: Sequence[Value], declared: PartialShape) -> PartialShape:
    """Return the shape of an output: as declared, unless it is read from a list whose elements are better known."""
    elements = inputs[0].elements if inputs else None
    is_complete = declared is not None and None not in declared
    if elements is None or is_complete:
        return declared
    rows = None if declared is None else declared[0]
    match operator.type, index:
        case ("TensorListGetItem", 0) | ("TensorListPopBack", 1):  # one element
            return elements
        case "TensorListStack", 0:  # all elements
            return (inputs[0].length if rows is None else rows, *elements)
        case "TensorListGather", 0:  # the elements at some indices
            return (rows, *elements)
    return declared


def _read_size(size: Value, folding: Folding) -> int | None:
    """Return the number that a list is given as its size; None if it is not known."""
    number = folding.constant(size)
    return None if number is None else int(number)


def _add_item(items: Value, item: Value) -> PartialShape:
    """Return the shape that all elements of a list have once an item is in it: of the first item, its own."""
    return item.shape if items.elements is None else common_shape(items.elements, item.shape)
