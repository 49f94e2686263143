"""The elements of weights that are not zero: read from the file, or computed from constants in the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, SparseTensorProto, TensorProto

from profilerkit import InputError, NotOfferedError

from ..model.nodes import name_node, name_operator
from ..model.zeros import count_nonzero
from .folding import evaluate
from .values import Array, MadeConstant, Origin, TurnPart, Value

__all__ = ["Elements", "Read", "WeightCounter"]

#: Returns the values of a tensor of the file.
Read = Callable[[TensorProto], Any]
#: Operators whose results hold nothing of the elements that they get.
_FROM_SIZES = ("ConstantOfShape", "EyeLike", "Range", "Shape", "Size")
#: The most elements of a sparse tensor that is written out to compute with it.
_MOST_WRITTEN_OUT = 1 << 28


class Elements(NamedTuple):
    """How many elements of a weight are not zero, and how many it has."""

    nonzero: int
    total: int


class WeightCounter:
    """Counts the elements of weights that are not zero.

    Args:
        read: Returns the values of a tensor of the file.
        origins: Where constants come from, by their numbers.

    Attributes:
        errors: The errors that `count` raised. A trace takes any error for an error of the model; the caller of the
            trace raises the first of these instead.
    """

    def __init__(self, read: Read, origins: Mapping[int, Origin]) -> None:
        self.errors: list[Exception] = []
        self._read = read
        self._origins = origins
        #: By the number of the weight, the number of its zero points, and the axis of the zero points.
        self._elements: dict[tuple[int, int | None, int], Elements] = {}

    def count(self, weight: Value, zero_point: Value | None, axis: int) -> Elements:
        """Return the element counts of a weight; elements equal to the zero point along an axis count as zeros."""
        key = weight.number, None if zero_point is None else zero_point.number, axis
        if key not in self._elements:
            try:
                self._elements[key] = self._count_anew(weight, zero_point, axis)
            except Exception as error:
                self.errors.append(_explain(error, weight))
                raise
        return self._elements[key]

    def holds_elements_of_file(self, value: Value) -> bool:
        """Return whether a value has elements of tensors of the file, and not of sizes alone."""
        waiting, seen = [value], set[int]()
        while waiting:
            number = waiting.pop().number
            origin = self._origins.get(number)
            if origin is None or number in seen:
                continue
            seen.add(number)
            operator = name_operator(origin.node) if isinstance(origin, MadeConstant) else ""
            if isinstance(origin, (TensorProto, SparseTensorProto)) or operator == "Constant":
                return True
            if operator not in _FROM_SIZES:
                waiting += _list_sources(origin)
        return False

    def _count_anew(self, weight: Value, zero_point: Value | None, axis: int) -> Elements:
        origin = self._origins.get(weight.number)
        if zero_point is None and isinstance(origin, SparseTensorProto):  # not written out, as it may be large
            return Elements(count_nonzero(self._read(origin.values)), math.prod(origin.dims))
        points = None if zero_point is None else next(self._compute_arrays(zero_point))
        nonzero = total = 0
        for array in self._compute_arrays(weight):
            total += array.size
            if points is None:
                nonzero += count_nonzero(array)
            else:
                nonzero += int((array != _place_along(points, array.ndim, axis)).sum())
        return Elements(nonzero, total)

    def _compute_arrays(self, value: Value) -> Iterator[Array]:
        """Yield the elements of a stored value; for a part of a constant, the elements for each turn of its loop.

        They are read from the file, or computed from the sources of the value. Each constant is computed once.
        """
        values = self._list_needed(value)
        origins = [self._origins.get(needed.number) for needed in values]
        turns = {part.whole.shape[part.axis] for part in origins if isinstance(part, TurnPart) and part.whole.shape}
        constants: dict[int, Array] = {}
        for turn in range(turns.pop() if turns else 1):
            arrays = dict(constants)
            for needed in values:
                if needed.number not in arrays:
                    arrays[needed.number] = self._read_or_make(needed, arrays, turn)
                if needed.constant:
                    constants[needed.number] = arrays[needed.number]
            yield arrays[value.number]

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

    def _read_or_make(self, value: Value, arrays: Mapping[int, Array], turn: int) -> Array:
        """Return the elements of a stored value; ``arrays`` has the elements of the values that it is computed from."""
        if value.array is not None:
            return value.array
        match self._origins.get(value.number):
            case TensorProto() as tensor:
                return np.asarray(self._read(tensor))
            case SparseTensorProto() as sparse:
                return self._write_out(sparse)
            case MadeConstant() as made:
                stored = self._read_constant(made.node)
                return _make_array(made, arrays) if stored is None else stored
            case TurnPart(whole, axis) if whole.constant:
                part = np.asarray(arrays[whole.number].take(turn, axis))
                return part if value.shape is None else part.reshape(value.shape)  # the dimension may stay, as one of 1
        raise NotOfferedError("where the elements of a weight come from is not known")

    def _read_constant(self, node: NodeProto) -> Array | None:
        """Return the elements of the tensor that a ``Constant`` node holds; None for other nodes and constants."""
        if name_operator(node) == "Constant":
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    return np.asarray(self._read(attribute.t))
                if attribute.HasField("sparse_tensor"):
                    return self._write_out(attribute.sparse_tensor)
        return None

    def _write_out(self, sparse: SparseTensorProto) -> Array:
        """Return a sparse tensor with all of its elements; raise `NotOfferedError` if it is too large."""
        if math.prod(sparse.dims) > _MOST_WRITTEN_OUT:
            raise NotOfferedError(
                f"the sparse tensor {sparse.values.name!r} has {math.prod(sparse.dims):,} elements, too many to be "
                "written out; how many of the weights that are made of it are zero is not known"
            )
        values, places = np.asarray(self._read(sparse.values)), np.asarray(self._read(sparse.indices))
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        if places.ndim == 1:  # positions among all elements
            dense.reshape(-1)[places] = values
        else:  # a row of indices for each value
            dense[tuple(places.T)] = values
        return dense


def _list_sources(origin: Origin | None) -> list[Value]:
    """Return the values that a stored value is computed from; none if it is read from the file."""
    if isinstance(origin, TurnPart):
        return [origin.whole]
    return [source for source in origin.inputs if source is not None] if isinstance(origin, MadeConstant) else []


def _make_array(origin: MadeConstant, arrays: Mapping[int, Array]) -> Array:
    """Return the output of a node that reads only constants; raise `NotOfferedError` if onnx's reference cannot."""
    inputs = [None if source is None else arrays[source.number] for source in origin.inputs]
    made = evaluate(_make_standard(origin.node), inputs, origin.opsets) or []
    array: Array | None = made[origin.output] if origin.output < len(made) else None
    if array is None:
        raise NotOfferedError(
            f"the operator {name_operator(origin.node)} of the node {name_node(origin.node)!r}, which makes "
            "weights of others, cannot be computed by onnx's reference: which of these weights are zero is not "
            "known; optimize the graph with profilerkit_onnx.optimize(model) first"
        )
    return array


def _explain(error: Exception, weight: Value) -> Exception:
    """Return an error that names the weight that does not fit, in place of numpy's error; any other error as it is."""
    if isinstance(error, InputError) or not isinstance(error, (IndexError, TypeError, ValueError)):
        return error
    return InputError(
        f"a weight of the shape {tuple(weight.shape or ())} does not fit its zero points or indices: {error}; export "
        "the model again"
    )


def _make_standard(node: NodeProto) -> NodeProto:
    """Return the node of ONNX that is equal to a node of onnxruntime's; any other node as it is."""
    if name_operator(node) not in ("com.microsoft::DequantizeLinear", "com.microsoft::QuantizeLinear"):
        return node
    copy = deepcopy(node)
    copy.domain = ""
    return copy


def _place_along(zero: Array, dimensions: int, axis: int) -> Array:
    """Return zero points in a shape that broadcasts with a weight: one for all, or a row of them along an axis.

    Stacked matrices, as of MatMulInteger, may have a row for each matrix: (3, 5) becomes (3, 1, 5) for (3, 4, 5).
    """
    if zero.size == 1:
        return zero.reshape(())
    if zero.ndim == 1:
        shape = [1] * dimensions
        shape[axis] = zero.size
        return zero.reshape(shape)
    return zero if zero.ndim == dimensions else zero.reshape(zero.shape[0], 1, -1)
