"""Zeros among the weights of a model: how many there are, read one tensor after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx import ModelProto, TensorProto

from .constants import list_constants
from .exported_module import ExportedModule
from .weights import list_weights

__all__ = ["count_nonzero", "zero_weights"]


def zero_weights(model: ModelProto, read: Callable[[TensorProto], Any]) -> tuple[int, int]:
    """Return how many elements of the floating-point parameters are zero, and how many there are.

    ``read`` returns the values of a tensor; it is called for one after another, and none is kept.
    """
    constants = list_constants(model, [""] * len(model.graph.node))  # in which layer does not matter
    parameters = {
        int(weight.record.identity): weight.record.dtype
        for weight in list_weights(ExportedModule(model, constants), constants)
        if weight.is_parameter
    }
    zeros = total = 0
    for identity, dtype in parameters.items():
        if dtype.startswith(("float", "bfloat")):
            constant = constants[identity]
            zeros += constant.shape.numel - count_nonzero(read(constant.values))
            total += constant.shape.numel
    return zeros, total


def count_nonzero(array: Any) -> int:
    """Return how many elements of an array are not zero, of any dtype."""
    return int((array != array.dtype.type(0)).sum())
