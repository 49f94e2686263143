"""The role of a constant: a parameter, a buffer, or a single number of the graph.

A floating-point constant with dimensions is a parameter, statistics of a batch norm aside. So is a constant of narrow
numbers that is converted and scaled where it is used; its scales and zero points are buffers. So are integers that are
a factor of a product. Other integers, such as shapes, are buffers. Single numbers are neither, unless their place says
that they are a weight, such as a bias.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from math import prod
from typing import Any, NamedTuple

import numpy as np

from profilerkit.costs.numbers import is_float

from .nodes import RECURRENT, dtype_name, read_bits

__all__ = ["Role", "Use", "find_role"]

#: The inputs of operators that are values which the model keeps, but no parameters.
_KEPT = {
    "BatchNormInference": (3, 4),  # mean and variance
    "FakeQuantize": (1, 2, 3, 4),  # the bounds of the input and the output
    "Interpolate": (1, 2, 3),  # sizes, scales, axes
    **{kind: inputs.states for kind, inputs in RECURRENT.items()},
}
_PRODUCTS = ("MatMul", "Convolution", "GroupConvolution", "ConvolutionBackpropData", "GroupConvolutionBackpropData")
#: How many inputs of a product come first that are factors; behind them a convolution may have the shape of its output.
_FACTORS = 2
#: The inputs of operators that are a parameter even if it is a single number.
_SINGLE = {"BatchNormInference": (1, 2), "GroupNormalization": (1, 2), "PRelu": (1,)}


class Role(Enum):
    """The role of a constant."""

    PARAMETER = auto()
    BUFFER = auto()
    #: A number in the graph, such as a bound or an axis.
    NUMBER = auto()


class Use(NamedTuple):
    """A node that reads a value, and the index of this input."""

    node: Any
    position: int

    @property
    def kind(self) -> str:
        """The operator of the node."""
        return str(self.node.get_type_name())

    @property
    def other_input(self) -> Any:
        """The node that makes the other input of two."""
        return self.node.input_value(1 - self.position).get_node()


def find_role(node: Any, uses: Sequence[Use], reads: Sequence[Use]) -> Role:
    """Return the role of a constant, by its dtype and its places.

    Args:
        node: The constant.
        uses: The uses of it, and of all values that are computed from it before the model runs.
        reads: The uses of its elements, converted or not, by nodes that run.
    """
    if any(map(_is_scale, uses)):
        return Role.BUFFER
    if _is_parameter(node, uses, reads):
        return Role.PARAMETER
    return Role.BUFFER if prod(node.get_output_shape(0)) > 1 else Role.NUMBER


def _is_parameter(node: Any, uses: Sequence[Use], reads: Sequence[Use]) -> bool:
    """Return whether a constant that is no scale is a parameter."""
    element, shape = node.get_output_element_type(0), node.get_output_shape(0)
    has_many, is_factor = prod(shape) > 1, any(map(_is_factor, reads))
    if _is_narrow(element) and any(use.kind in ("Convert", "Gather") for use in uses):
        return True  # maybe converted in another order, or a table whose rows are looked up
    if not is_float(dtype_name(element)):
        return has_many and is_factor
    if any(map(_is_recurrent_bias, uses)) and not np.any(read_bits(node)):
        return False  # zeros, which stand for no biases
    if has_many:
        return not any(map(_is_kept, uses)) or not all(map(_is_kept, reads))  # a variance may be a weight elsewhere
    return (is_factor and len(shape) > 1) or any(map(_is_single, reads))


def _is_narrow(element: Any) -> bool:
    """Return whether an element type has numbers of at most a byte, which may stand for wider numbers."""
    return 0 < element.bitwidth <= 8 and dtype_name(element) != "bool"


def _is_kept(use: Use) -> bool:
    """Return whether a value is kept by the model, and no parameter, by its place."""
    return use.position in _KEPT.get(use.kind, ()) or use.position in _list_states(use.node)


def _list_states(node: Any) -> Iterator[int]:
    """Yield the inputs of a loop with which its first turn begins, and which its body replaces in each turn."""
    if node.get_type_name() not in ("Loop", "TensorIterator"):
        return
    body = node.get_function()
    for entry in node.get_input_descriptions():
        if type(entry).__name__.startswith("Merged"):  # a parameter of the body, which a result of it replaces
            parameter = body.get_parameters()[entry.body_parameter_index]
            replacement = body.get_results()[entry.body_value_index].input_value(0).get_node()
            while replacement.get_type_name() == "Identity":
                replacement = replacement.input_value(0).get_node()
            if replacement.get_name() != parameter.get_name():
                yield entry.input_index


def _is_factor(use: Use) -> bool:
    """Return whether a value is a factor of a product."""
    return use.kind in _PRODUCTS and use.position < _FACTORS


def _is_recurrent_bias(use: Use) -> bool:
    """Return whether a value is the biases of a recurrent layer; if it has none, they are zeros."""
    return use.kind in RECURRENT and use.position == RECURRENT[use.kind].biases


def _is_single(use: Use) -> bool:
    """Return whether a single number is a weight by its place: one of `_SINGLE`, or the bias of one feature."""
    return use.position in _SINGLE.get(use.kind, ()) or (use.kind == "Add" and _has_one_feature(use.other_input))


def _has_one_feature(product: Any) -> bool:
    """Return whether a node is a product whose result is known to have a single feature or channel."""
    kind, shape, index = product.get_type_name(), product.get_output_partial_shape(0), 1
    if kind == "MatMul":  # it has the features of its second factor; those of the result may not be known
        shape = product.get_input_partial_shape(1)
        index = -2 if product.get_attributes()["transpose_b"] else -1
        if shape.rank == 1:
            return True
    return kind in _PRODUCTS and shape.rank.is_static and bool(shape[index] == 1)


def _is_scale(use: Use) -> bool:
    """Return whether a value is the zero or the scale of ``Multiply(Subtract(Convert(narrow), zero), scale)``.

    Either of the two steps may be missing, and the result of each may be reshaped. The narrow numbers are those of a
    constant, such as rows that are looked up in it, and no numbers that the call gives, such as the bytes of an image.
    """
    is_minuend = use.kind == "Subtract" and use.position == 0
    if use.kind not in ("Multiply", "Subtract") or is_minuend:
        return False
    source = use.other_input
    while source.get_type_name() in ("Subtract", "Multiply", "Reshape"):
        source = source.input_value(0).get_node()
    if source.get_type_name() != "Convert" or not _is_narrow(source.get_input_element_type(0)):
        return False
    while source.get_input_size() > 0:
        source = source.input_value(0).get_node()
    return bool(source.get_type_name() == "Constant")
