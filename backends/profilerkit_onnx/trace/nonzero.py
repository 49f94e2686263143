"""The work on nonzero weights alone: the walk over the graph, with the values of weights looked at where they are used.

An operator's multiply-accumulates count in the proportion of the nonzero elements among its weights. A weight is what
follows from the tensors of the file alone, as it reaches the operator: masked, cast or dequantized. Integers that an
operator takes with a zero point are zero where they equal it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, SparseTensorProto, TensorProto

from profilerkit import InputError, ModelInputs, ModelTrace, NotOfferedError
from profilerkit.costs import Cost

from ..model.zeros import nonzero
from .folding import evaluate
from .pricing import name_node, name_operator
from .tracing import trace_model
from .values import Array, MadeConstant, Value
from .walk import Walk

__all__ = ["trace_of_nonzero"]

Read = Callable[[TensorProto], Any]


class _Factor(NamedTuple):
    """An input of an operator that may be a weight.

    Attributes:
        input: Its index.
        zero: The index of its zero point, if it has one.
        axis: The dimension that a zero point with several elements lies along.
    """

    input: int
    zero: int | None = None
    axis: int = -1


_LAST = (_Factor(1),)
_BOTH = (_Factor(0), _Factor(1))
_ATTENTION = ("Attention", "com.microsoft::MultiHeadAttention", "com.microsoft::GroupQueryAttention")
#: What each operator multiplies and may be weights; of any other operator, all of its inputs. Attention is between
#: activations, and weights that are packed into few bits are not looked at.
_FACTORS: dict[str, tuple[_Factor, ...]] = {
    **dict.fromkeys(["Conv", "ConvTranspose", "DeformConv", "com.microsoft::NhwcConv"], _LAST),
    **dict.fromkeys(["com.microsoft::FusedConv", "com.microsoft::NhwcFusedConv", "com.microsoft.nchwc::Conv"], _LAST),
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
    "com.microsoft::Attention": _LAST,
    "com.microsoft::QAttention": (_Factor(1, 7),),
    **dict.fromkeys([*_ATTENTION, "com.microsoft::MatMulNBits"], ()),
}
#: Operators that multiply activations with a weight, and then activations with each other.
_PROJECTING = ("com.microsoft::Attention", "com.microsoft::QAttention")
#: Operators whose results hold nothing of the elements that they get.
_FROM_SIZES = ("ConstantOfShape", "EyeLike", "Range", "Shape", "Size")
#: The most elements of a sparse tensor that is written out to compute with it.
_LARGEST = 1 << 28


def trace_of_nonzero(model: ModelProto, inputs: ModelInputs, read: Read) -> ModelTrace:
    """Return the trace of a call whose operators do no work with weights that are zero.

    ``read`` returns the values of a tensor; one weight is in memory at a time. Raises `InputError` for a tensor that is
    damaged, and `NotOfferedError` for a weight that operators make which onnx's reference cannot compute.
    """
    failed: list[Exception] = []
    trace = trace_model(model, inputs, partial(_NonzeroWalk, values=_WeightValues(read, failed)))
    if failed:
        raise failed[0]
    return trace


@dataclass
class _NonzeroWalk(Walk):
    """A walk that takes the work on zeros from each operator's cost."""

    values: Any = None

    def note(
        self,
        node: NodeProto,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        times: int,
        macs: int = 0,
        flops: int = 0,
        missing: str = "",
    ) -> None:
        """Note what one node does, without the multiply-accumulates of weights that are zero."""
        zero = macs - self._nonzero_macs(node, inputs, macs) if macs else 0
        super().note(node, inputs, outputs, times, macs - zero, flops - Cost.of_macs(zero).flops, missing)

    def _nonzero_macs(self, node: NodeProto, inputs: Sequence[Value | None], macs: int) -> int:
        """Return how many of an operator's multiply-accumulates are with elements of its weights that are not zero."""
        name = name_operator(node)
        left = total = 0
        for factor in _FACTORS.get(name, tuple(map(_Factor, range(len(inputs))))):
            weight = inputs[factor.input] if factor.input < len(inputs) else None
            if weight is None or not self._is_weight(weight):
                continue
            zeros = inputs[factor.zero] if factor.zero is not None and factor.zero < len(inputs) else None
            if zeros is not None and not zeros.constant:
                return macs
            axis = 0 if name == "com.microsoft::QGemm" and factor.input and _is_transposed(node) else factor.axis
            counts = self.values.counts(weight, zeros, axis, self.origins)
            left, total = left + counts[0], total + counts[1]
        if not total:
            return macs
        on_weights = macs
        if name in _PROJECTING and inputs[0] is not None and inputs[0].shape is not None:
            on_weights = math.prod(inputs[0].shape[:2]) * total
        return macs - on_weights + on_weights * left // total

    def _is_weight(self, value: Value) -> bool:
        """Return whether a value is a weight: a matrix or more, that follows from tensors of the file."""
        return value.constant and value.shape is not None and len(value.shape) > 1 and self._is_stored(value)

    def _is_stored(self, value: Value) -> bool:
        """Return whether a value holds elements of tensors of the file."""
        waiting = [value]
        while waiting:
            origin = self.origins.get(waiting.pop().number)
            if origin is not None and not isinstance(origin, MadeConstant):
                return True
            if origin is None or origin.node.op_type in _FROM_SIZES:
                continue
            if origin.node.op_type == "Constant":
                return True
            waiting += [tensor for tensor in origin.inputs if tensor is not None]
        return False


def _is_transposed(node: NodeProto) -> bool:
    """Return whether a product takes its second factor transposed."""
    return any(attribute.name == "transB" and attribute.i for attribute in node.attribute)


class _WeightValues:
    """Reads and computes weights, one at a time; the first error is kept in ``failed``."""

    def __init__(self, read: Read, failed: list[Exception]) -> None:
        self._read, self._failed = read, failed
        self._counts: dict[tuple[int, int | None, int], tuple[int, int]] = {}

    def counts(self, weight: Value, zeros: Value | None, axis: int, origins: Mapping[int, Any]) -> tuple[int, int]:
        """Return the nonzero elements of a weight, and all; ``zeros`` stand for zero along an axis."""
        key = weight.number, None if zeros is None else zeros.number, axis
        if key not in self._counts:
            try:
                self._counts[key] = self._count(weight, zeros, axis, origins)
            except Exception as error:
                self._failed.append(_explain(error, weight))
                raise
        return self._counts[key]

    def _count(self, weight: Value, zeros: Value | None, axis: int, origins: Mapping[int, Any]) -> tuple[int, int]:
        """Return what `counts` does, computed anew: a sparse tensor is not written out for it."""
        origin = origins.get(weight.number)
        if zeros is None and isinstance(origin, SparseTensorProto):
            return nonzero(self._read(origin.values)), math.prod(origin.dims)
        array = self._compute_array(weight, origins)
        if zeros is None:
            return nonzero(array), array.size
        zero = self._compute_array(zeros, origins)
        return int((array != _place_along(zero, array.ndim, axis)).sum()), array.size

    def _compute_array(self, value: Value, origins: Mapping[int, Any]) -> Array:
        """Return the elements of a constant: as they are in the file, or computed from the constants it is made of."""
        if value.array is not None:
            return value.array
        origin = origins.get(value.number)
        if origin is None:
            raise NotOfferedError("where the elements of a weight come from is not known")
        if isinstance(origin, TensorProto):
            return np.asarray(self._read(origin))
        if isinstance(origin, SparseTensorProto):
            return self._write_out(origin)
        node = origin.node
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.HasField("t"):
                return np.asarray(self._read(attribute.t))
            if attribute.HasField("sparse_tensor"):
                return self._write_out(attribute.sparse_tensor)
        arrays = [None if tensor is None else self._compute_array(tensor, origins) for tensor in origin.inputs]
        made = evaluate(_make_standard(node), arrays, origin.opsets) or []
        array: Array | None = made[origin.index] if origin.index < len(made) else None
        if array is None:
            raise _explain_not_computed(node)
        return array

    def _write_out(self, sparse: SparseTensorProto) -> Array:
        """Return a sparse tensor with all of its elements; raise `NotOfferedError` for one that is too large."""
        if math.prod(sparse.dims) > _LARGEST:
            raise NotOfferedError(
                f"the sparse tensor {sparse.values.name!r} has {math.prod(sparse.dims):,} elements, too many to be "
                "written out; how many of the weights that are made of it are zero is not known"
            )
        values, places = np.asarray(self._read(sparse.values)), np.asarray(self._read(sparse.indices))
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        if places.ndim == 1:
            dense.reshape(-1)[places] = values
        else:
            dense[tuple(places.T)] = values
        return dense


def _explain(error: Exception, weight: Value) -> Exception:
    """Return an error that says which weight does not fit, for one of numpy's."""
    if not isinstance(error, (IndexError, TypeError, ValueError)) or isinstance(error, InputError):
        return error
    return InputError(
        f"a weight of the shape {tuple(weight.shape or ())} does not fit its zero points or indices: {error}; export "
        "the model again"
    )


def _explain_not_computed(node: NodeProto) -> NotOfferedError:
    """Return the error for a weight that onnx's reference cannot compute."""
    return NotOfferedError(
        f"the operator {name_operator(node)} of the node {name_node(node)!r}, which makes weights of others, cannot be "
        "computed by onnx's reference: which of these weights are zero is not known; optimize the graph with "
        "profilerkit_onnx.optimize(model) first"
    )


def _make_standard(node: NodeProto) -> NodeProto:
    """Return a node of onnxruntime's that means the same as one of ONNX as that; any other node as it is."""
    if name_operator(node) not in ("com.microsoft::DequantizeLinear", "com.microsoft::QuantizeLinear"):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.domain = ""
    return copy


def _place_along(zero: Array, dimensions: int, axis: int) -> Array:
    """Return zero points in the shape in which they meet a weight: a row of them along an axis."""
    if zero.size == 1:
        return zero.reshape(())
    if zero.ndim == 1:
        shape = [1] * dimensions
        shape[axis] = zero.size
        return zero.reshape(shape)
    return zero if zero.ndim == dimensions else zero.reshape(zero.shape[0], 1, -1)
