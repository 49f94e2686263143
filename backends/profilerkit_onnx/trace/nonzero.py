"""Zeros among the weights, and the work on the others: a walk that reads the values of weights at their uses.

The multiply-accumulates of an operator count in proportion to the nonzero elements of its weights. A weight is a value
that is computed only from tensors of the file, in the form in which it reaches the operator: masked, cast or
dequantized. Integers are zero if they are equal to their zero point. A weight that is selected while the model runs,
such as by the turn of a loop, counts in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from onnx import ModelProto

from profilerkit import InputError, ModelInputs, ModelTrace
from profilerkit.costs import Cost

from ..model.constants import list_constants
from ..model.exported_module import ExportedModule
from ..model.weights import list_weights
from .stored_elements import Read, StoredElements
from .tracing import trace_model
from .values import Array, Origin, Value
from .walk import Visit, Walk

__all__ = ["trace_of_nonzero", "zero_weights"]


class _Factor(NamedTuple):
    """An input of an operator that may be a weight.

    Attributes:
        input: Its index.
        zero_point: The index of its zero point, if it has one.
        axis: The dimension that a zero point with several elements lies along.
    """

    input: int
    zero_point: int | None = None
    axis: int = -1


_SECOND = (_Factor(1),)
_BOTH = (_Factor(0), _Factor(1))
_PACKED = ("com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4", "com.microsoft::QMoE")
_ATTENTION = ("Attention", "com.microsoft::MultiHeadAttention", "com.microsoft::GroupQueryAttention")
#: The factors of each operator's products. Attention itself has activations as both factors, and weights that are
#: packed into few bits are not looked at: these have none.
_FACTORS: dict[str, tuple[_Factor, ...]] = {
    **dict.fromkeys(["Conv", "ConvTranspose", "DeformConv", "com.microsoft::NhwcConv"], _SECOND),
    **dict.fromkeys(["com.microsoft::FusedConv", "com.microsoft::NhwcFusedConv", "com.microsoft.nchwc::Conv"], _SECOND),
    "ConvInteger": (_Factor(1, 3, 0),),
    **dict.fromkeys(["QLinearConv", "com.microsoft::QLinearConv"], (_Factor(3, 5, 0),)),
    **dict.fromkeys(["MatMul", "Gemm", "Einsum", "com.microsoft::FusedMatMul", "com.microsoft::FusedGemm"], _BOTH),
    "MatMulInteger": (_Factor(0, 2, -2), _Factor(1, 3)),
    "QLinearMatMul": (_Factor(0, 2, -2), _Factor(3, 5)),
    "com.microsoft::QGemm": (_Factor(0, 2, -2), _Factor(3, 5)),
    "com.microsoft::MatMulIntegerToFloat": (_Factor(0, 4, -2), _Factor(1, 5)),
    "com.microsoft::DynamicQuantizeMatMul": (_Factor(1, 3),),
    **dict.fromkeys(["LSTM", "GRU", "RNN"], (_Factor(1), _Factor(2))),
    "com.microsoft::DynamicQuantizeLSTM": (_Factor(1, 9, 0), _Factor(2, 11, 0)),
    "com.microsoft::Attention": _SECOND,
    "com.microsoft::MoE": (_Factor(2), _Factor(4), _Factor(6)),
    "com.microsoft::QAttention": (_Factor(1, 7),),
    **dict.fromkeys([*_ATTENTION, *_PACKED], ()),
}
#: Operators that multiply activations with a weight, and then activations with each other.
_PROJECTING = ("com.microsoft::Attention", "com.microsoft::QAttention")


def zero_weights(model: ModelProto, read: Read) -> tuple[int, int]:
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
            zeros += constant.shape.numel - _count_nonzero(read(constant.values))
            total += constant.shape.numel
    return zeros, total


def trace_of_nonzero(model: ModelProto, inputs: ModelInputs, read: Read) -> ModelTrace:
    """Return the trace of a call whose operators do no work with weights that are zero.

    ``read`` returns the values of a tensor; one weight is in memory at a time. Raises `InputError` for a tensor that is
    damaged, and `NotOfferedError` for a weight that operators make which onnx's reference cannot compute.
    """
    origins: dict[int, Origin] = {}
    counter = _WeightCounter(read, origins)
    trace = trace_model(model, inputs, partial(_NonzeroWalk, origins=origins, counter=counter))
    if counter.errors:
        raise counter.errors[0]
    return trace


@dataclass(kw_only=True)
class _NonzeroWalk(Walk):
    """A walk that takes the work on zeros from each operator's cost."""

    counter: _WeightCounter

    def note(self, visit: Visit, outputs: Sequence[Value], cost: Cost, missing: str) -> None:
        """Note the work of one node, without the multiply-accumulates of weights that are zero."""
        if cost.macs:
            nonzero_macs = self._count_nonzero_macs(visit, cost.macs)
            cost = Cost(nonzero_macs, cost.flops - Cost.of_macs(cost.macs - nonzero_macs).flops)
        super().note(visit, outputs, cost, missing)

    def _count_nonzero_macs(self, visit: Visit, macs: int) -> int:
        """Return how many of an operator's multiply-accumulates are with elements of its weights that are not zero."""
        weights = self._count_weights(visit)
        if weights is None or not weights.total:
            return macs
        on_weights = _count_projections(visit, macs) if visit.operator in _PROJECTING else macs
        return macs - on_weights + on_weights * weights.nonzero // weights.total

    def _count_weights(self, visit: Visit) -> _Elements | None:
        """Return the elements of all weights of an operator; None if a zero point is not known before a run."""
        inputs = visit.inputs
        nonzero = total = 0
        for factor in _list_factors(visit):
            weight, zero_point = _find_input(inputs, factor.input), _find_input(inputs, factor.zero_point)
            if weight is None or not self.counter.is_weight(weight):
                continue
            if zero_point is not None and not zero_point.constant:
                return None
            elements = self.counter.count(weight, zero_point, _find_axis(visit, factor))
            nonzero += elements.nonzero
            total += elements.total
        return _Elements(nonzero, total)


def _count_projections(visit: Visit, macs: int) -> int:
    """Return how many multiply-accumulates of an attention are its projections, which alone have a weight."""
    activations, weight = (None if value is None else value.shape for value in visit.inputs[:2])
    if activations is None or weight is None:
        return macs
    batch, length = activations[:2]
    return batch * length * weight.numel * visit.times


def _list_factors(visit: Visit) -> Sequence[_Factor]:
    """Return the factors of an operator; of one that is not in the table all inputs except vectors: biases."""
    if visit.operator in _FACTORS:
        return _FACTORS[visit.operator]
    shapes = [None if value is None else value.shape for value in visit.inputs]
    return [_Factor(index) for index, shape in enumerate(shapes) if shape is not None and len(shape) > 1]


def _find_input(inputs: Sequence[Value | None], index: int | None) -> Value | None:
    """Return an input of an operator that may be left out."""
    return inputs[index] if index is not None and index < len(inputs) else None


def _find_axis(visit: Visit, factor: _Factor) -> int:
    """Return the dimension of a factor along which its zero points lie; a QGemm may transpose its second factor."""
    if visit.operator == "com.microsoft::QGemm" and factor.input:
        is_transposed = any(attribute.name == "transB" and attribute.i for attribute in visit.node.attribute)
        return 0 if is_transposed else factor.axis
    return factor.axis


# The elements of weights ----------------------------------------------------------------------------------------------


class _Elements(NamedTuple):
    """How many elements of a weight are not zero, and how many it has."""

    nonzero: int
    total: int


class _WeightCounter:
    """Counts the elements of weights that are not zero.

    Args:
        read: Returns the values of a tensor of the file.
        origins: The origins of constants, by their numbers.

    Attributes:
        errors: The errors that `count` raised. A trace takes any error for an error of the model; the caller of the
            trace raises the first of these instead.
    """

    def __init__(self, read: Read, origins: Mapping[int, Origin]) -> None:
        self.errors: list[Exception] = []
        self._stored = StoredElements(read, origins)
        #: By the number of the weight, the number of its zero points, and the axis of the zero points.
        self._elements: dict[tuple[int, int | None, int], _Elements] = {}

    def is_weight(self, value: Value) -> bool:
        """Return whether a value is a weight: it follows from tensors of the file."""
        return value.constant and self._stored.hold_elements_of_file(value)

    def count(self, weight: Value, zero_point: Value | None, axis: int) -> _Elements:
        """Return the element counts of a weight; elements equal to the zero point along an axis count as zeros."""
        key = weight.number, None if zero_point is None else zero_point.number, axis
        if key not in self._elements:
            try:
                self._elements[key] = self._count_anew(weight, zero_point, axis)
            except Exception as error:
                self.errors.append(_explain(error, weight))
                raise
        return self._elements[key]

    def _count_anew(self, weight: Value, zero_point: Value | None, axis: int) -> _Elements:
        array = self._stored.compute(weight)
        if zero_point is None:
            return _Elements(_count_nonzero(array), array.size)
        points = _place_along(self._stored.compute(zero_point), array.ndim, axis)
        return _Elements(int((array != points).sum()), array.size)


def _explain(error: Exception, weight: Value) -> Exception:
    """Return an error that names the weight that does not fit, in place of numpy's error; any other error as it is."""
    if isinstance(error, InputError) or not isinstance(error, (IndexError, TypeError, ValueError)):
        return error
    return InputError(
        f"a weight of the shape {tuple(weight.shape or ())} does not fit its zero points or indices: {error}; export "
        "the model again"
    )


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


def _count_nonzero(array: Array) -> int:
    """Return how many elements of an array are not zero, of any dtype."""
    return int((array != array.dtype.type(0)).sum())
