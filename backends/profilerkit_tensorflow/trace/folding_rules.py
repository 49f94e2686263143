"""What operators make of known arrays: for each kind that decides loops, sizes and axes, its function of numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from profilerkit.backend_kit.strided_slices import SliceMasks, make_index

__all__ = ["RULES", "Rule"]

#: Returns the array that an operator makes of the arrays that it reads; None for a variant that is not known here. Its
#: dtype may be another than the operator's.
Rule: TypeAlias = Callable[[Any, Sequence[Any]], Any]


def _take_inputs(function: Callable[..., Any]) -> Rule:
    """Return the rule of an operator that has no attributes that matter."""
    return lambda operator, inputs: function(*inputs)


def _make_reduction(function: Callable[..., Any]) -> Rule:
    def reduce(operator: Any, inputs: Sequence[Any]) -> Any:
        array, axes = inputs
        reduced = tuple(int(axis) for axis in np.atleast_1d(axes))
        return function(array, axis=reduced, keepdims=bool(operator.get_attr("keep_dims")))

    return reduce


def _slice_with_strides(operator: Any, inputs: Sequence[Any]) -> Any:
    sliced, *numbers = inputs
    begins, ends, strides = (list(map(int, array)) for array in numbers)
    masks = SliceMasks(*(operator.get_attr(f"{name}_mask") for name in SliceMasks._fields))
    return sliced[make_index(begins, ends, strides, masks)]


def _cast(operator: Any, inputs: Sequence[Any]) -> Any:
    return inputs[0].astype(operator.get_attr("DstT").as_numpy_dtype)


def _squeeze(operator: Any, inputs: Sequence[Any]) -> Any:
    return np.squeeze(inputs[0], axis=tuple(operator.get_attr("squeeze_dims")) or None)


def _gather(operator: Any, inputs: Sequence[Any]) -> Any:
    """Take elements along an axis; with indices for each element of a batch, nothing is known."""
    array, indices, axis = inputs
    return None if operator.get_attr("batch_dims") else np.take(array, indices, axis=int(axis))


def _divide(x: Any, y: Any) -> Any:
    """Divide as the operator ``Div`` does: integers toward zero."""
    if not np.issubdtype(np.asarray(x).dtype, np.integer):
        return np.divide(x, y)
    return np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)


def _concatenate(*parts_and_axis: Any) -> Any:
    *parts, axis = parts_and_axis
    return np.concatenate(parts, axis=int(axis))


#: Functions of the arrays alone, by the operators.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("Identity", "StopGradient", "Snapshot", "PreventGradient"), lambda x: x),
    **dict.fromkeys(("Add", "AddV2"), np.add),
    "RealDiv": np.divide,
    "Div": _divide,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Neg": np.negative,
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Square": np.square,
    "Sqrt": np.sqrt,
    "Sign": np.sign,
    "Round": np.round,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "LogicalNot": np.logical_not,
    "SelectV2": np.where,
    "Range": np.arange,
    "Reshape": np.reshape,
    "Fill": np.full,
    "ExpandDims": lambda x, axis: np.expand_dims(x, int(axis)),
    "ArgMax": lambda x, axis: np.argmax(x, axis=int(axis)),
    "ArgMin": lambda x, axis: np.argmin(x, axis=int(axis)),
    "ConcatV2": _concatenate,
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "Max": np.max,
    "Min": np.min,
    "Sum": np.sum,
    "Prod": np.prod,
    "Mean": np.mean,
    "All": np.all,
    "Any": np.any,
}
RULES: Mapping[str, Rule] = {
    **{kind: _take_inputs(function) for kind, function in _FUNCTIONS.items()},
    **{kind: _make_reduction(function) for kind, function in _REDUCTIONS.items()},
    "Pack": lambda operator, inputs: np.stack(inputs, axis=operator.get_attr("axis")),
    "GatherV2": _gather,
    "Squeeze": _squeeze,
    "StridedSlice": _slice_with_strides,
    "Cast": _cast,
}
