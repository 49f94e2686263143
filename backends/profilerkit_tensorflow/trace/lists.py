"""Lists of tensors, as loops read and fill them: how many elements they have, and of which shape.

TensorFlow notes that shape when it makes a list, and does not infer it from what is put in later. A function that was
made for any batch, such as a saved model's, has lists whose elements have no known batch; its caller knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .kernel_memory import LIST_WRITES
from .tensor_facts import PartialShape, common_shape
from .values import Value

__all__ = ["note_elements", "read_shape"]

#: Operators that make a list of a tensor's rows.
_DEALING = ("TensorListFromTensor", "TensorListScatter", "TensorListScatterV2")
#: Operators that make a list without elements or resize one, by the index of the size among their inputs.
_SIZING = {"TensorListReserve": 1, "TensorListResize": 1}
#: Operators that hand a list on, as their first output, and whether it has as many elements as before.
_PASSING = {"Identity": True, "TensorListResize": False, "TensorListPopBack": False}
#: Operators that read one element, by its index among their outputs.
_READING = {"TensorListGetItem": 0, "TensorListPopBack": 1}
#: Operators that read all elements into one tensor.
_STACKING = ("TensorListStack", "TensorListGather")


def note_elements(
    operator: Any, inputs: Sequence[Value], made: Sequence[Value], constant: Callable[[Value], Any]
) -> None:
    """Note shape and number of the elements of a list that an operator makes; ``constant`` returns known numbers."""
    kind = operator.type
    if kind in _SIZING:
        size = constant(inputs[_SIZING[kind]])
        made[0].length = None if size is None else int(size)
    if kind in LIST_WRITES:
        made[0].length = inputs[0].length if kind == "TensorListSetItem" else None
        elements, put = inputs[0].elements, inputs[LIST_WRITES[kind]].shape
        made[0].elements = put if elements is None else common_shape(elements, put)
    elif kind in _DEALING:
        shape = inputs[0].shape
        made[0].elements = None if shape is None else shape[1:]
        made[0].length = None if shape is None or kind != "TensorListFromTensor" else shape[0]
    elif kind in _PASSING:
        made[0].elements = inputs[0].elements
        made[0].length = inputs[0].length if _PASSING[kind] else made[0].length


def read_shape(operator: Any, index: int, inputs: Sequence[Value], declared: PartialShape) -> PartialShape:
    """Return the shape of an output: as declared, unless it is read from a list whose elements are better known."""
    kind = operator.type
    elements = inputs[0].elements if inputs else None
    if elements is None or (declared is not None and None not in declared):
        return declared
    if _READING.get(kind) == index:
        return elements
    if kind in _STACKING:
        first = declared[0] if declared is not None else None
        return (inputs[0].length if first is None and kind == "TensorListStack" else first, *elements)
    return declared
