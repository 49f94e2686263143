"""The elements of constants, read from the file or computed from constants in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from profilerkit import NotOfferedError

from ..model.constants import read_constant
from ..model.nodes import name_node, name_operator
from .folding import evaluate
from .values import Array, MadeConstant, Origin, Value

__all__ = ["Read", "StoredElements"]

#: Returns the values of a tensor of the file.
Read = Callable[[TensorProto], Any]
#: Operators whose results hold nothing of the elements that they get.
_FROM_SIZES = ("ConstantOfShape", "EyeLike", "Range", "Shape", "Size")


class StoredElements:
    """Reads and computes the elements of constants.

    Args:
        read: Returns the values of a tensor of the file.
        origins: The origins of constants, by their numbers.
    """

    def __init__(self, read: Read, origins: Mapping[int, Origin]) -> None:
        self._read = read
        self._origins = origins

    def hold_elements_of_file(self, value: Value) -> bool:
        """Return whether a value has elements of tensors of the file, and not of sizes alone."""
        waiting, seen = [value], set[int]()
        while waiting:
            number = waiting.pop().number
            origin = self._origins.get(number)
            if number in seen:
                continue
            seen.add(number)
            operator = name_operator(origin.node) if isinstance(origin, MadeConstant) else ""
            if isinstance(origin, TensorProto) or operator == "Constant":
                return True
            if operator not in _FROM_SIZES:
                waiting += _list_sources(origin)
        return False

    def compute(self, value: Value) -> Array:
        """Return the elements of a constant; raise `NotOfferedError` if onnx's reference cannot compute them."""
        arrays: dict[int, Array] = {}
        for source in self._list_needed(value):
            arrays[source.number] = self._make(source, arrays)
        return arrays[value.number]

    def _list_needed(self, value: Value) -> list[Value]:
        """Return the values that a value is computed from, and last the value itself, each after its own sources.

        Not recursive, because a file may have long chains of constants.
        """
        needed: dict[int, Value] = {}
        waiting = [value]
        while waiting:
            last = waiting[-1]
            sources = [] if last.array is not None else _list_sources(self._origins.get(last.number))
            missing = [source for source in sources if source.number not in needed]
            if missing:
                waiting += missing
            else:
                needed[waiting.pop().number] = last
        return list(needed.values())

    def _make(self, value: Value, arrays: Mapping[int, Array]) -> Array:
        """Return the elements of a value; ``arrays`` has the elements of the values that it is computed from."""
        if value.array is not None:
            return value.array
        origin = self._origins.get(value.number)
        if isinstance(origin, MadeConstant) and name_operator(origin.node) == "Constant":
            tensor_of_node = read_constant(origin.node)
            origin = origin if tensor_of_node is None else tensor_of_node
        if isinstance(origin, TensorProto):
            return np.asarray(self._read(origin))
        if origin is not None:
            return _compute_output(origin, arrays)
        raise NotOfferedError("where the elements of a weight come from is not known")


def _list_sources(origin: Origin | None) -> list[Value]:
    """Return the constants that a constant is computed from."""
    return [source for source in origin.inputs if source is not None] if isinstance(origin, MadeConstant) else []


def _compute_output(made: MadeConstant, arrays: Mapping[int, Array]) -> Array:
    """Return the output of a node that reads only constants; `NotOfferedError` if onnx's reference cannot."""
    inputs = [None if source is None else arrays[source.number] for source in made.inputs]
    outputs = evaluate(_make_standard(made.node), inputs, made.opsets) or []
    array: Array | None = outputs[made.output] if made.output < len(outputs) else None
    if array is None:
        raise NotOfferedError(
            f"the operator {name_operator(made.node)} of the node {name_node(made.node)!r}, which makes "
            "weights of others, cannot be computed by onnx's reference: which of these weights are zero is not "
            "known; optimize the graph with profilerkit_onnx.optimize(model) first"
        )
    return array


def _make_standard(node: NodeProto) -> NodeProto:
    """Return the node of ONNX that is equal to a node of onnxruntime's; any other node as it is."""
    if name_operator(node) not in ("com.microsoft::DequantizeLinear", "com.microsoft::QuantizeLinear"):
        return node
    copy = deepcopy(node)
    copy.domain = ""
    return copy
