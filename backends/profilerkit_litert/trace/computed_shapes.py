"""The shapes of computed results: element by element, of products, windows and layers, over axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ai_edge_litert.schema_py_generated import Padding

from ..costs import LiteRTCall
from .values import Array

__all__ = ["RULES"]

#: The functions for known integers, such as the sizes of a shape, element by element.
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "FLOOR_DIV": np.floor_divide,
    "FLOOR_MOD": np.mod,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "SELECT_V2": np.where,
}
#: Further operators of several inputs, element by element.
_BROADCASTING = "ADD_N ATAN2 BITWISE_XOR DIV POW PRELU RIGHT_SHIFT SQUARED_DIFFERENCE"
#: The functions for known integers, over axes.
_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "SUM": np.sum,
    "REDUCE_PROD": np.prod,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
}
#: Operators whose output has the shape of their first input.
_KEEPING = """
    ABS BUCKETIZE CEIL COMPLEX_ABS COS CUMSUM DEQUANTIZE DYNAMIC_UPDATE_SLICE ELU EXP FAKE_QUANT FLOOR GELU HARD_SWISH
    IMAG L2_NORMALIZATION LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_NOT LOGISTIC LOG_SOFTMAX MATRIX_SET_DIAG
    NEG QUANTIZE REAL RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 REVERSE_SEQUENCE REVERSE_V2 ROUND RSQRT SIGN SIN SOFTMAX
    SQRT SQUARE TANH ZEROS_LIKE
"""


def _are_integers(*arrays: Array) -> bool:
    """Return whether arrays hold integers or truth values."""
    return all(array.dtype.kind in "iub" for array in arrays)


def _broadcast(call: LiteRTCall) -> Any:
    arrays = call.list_arrays() if call.type in _FUNCTIONS else None
    if arrays is not None and _are_integers(*arrays):
        return _FUNCTIONS[call.type](*arrays)
    return np.broadcast_shapes(*call.inputs)


def _select_rows(call: LiteRTCall) -> Any:
    """A condition of one dimension chooses whole rows; a condition of the others' shape chooses single elements."""
    arrays = call.list_arrays()
    if arrays is None:
        return call.inputs[1]
    condition, chosen, other = arrays
    return np.where(condition.reshape(condition.shape + (1,) * (chosen.ndim - condition.ndim)), chosen, other)


# Products, windows and layers -----------------------------------------------------------------------------------------


def _count_windows(
    call: LiteRTCall, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Return the number of windows along each dimension: with SAME padding one begins at each stride."""
    if min(strides) < 1:
        raise ValueError("a stride is below 1")
    is_padded = call.option("padding", Padding.SAME) == Padding.SAME
    reach = [0 if is_padded else (size - 1) * dilation for size, dilation in zip(kernel, dilations, strict=True)]
    return [-(-(size - less) // stride) for size, less, stride in zip(sizes, reach, strides, strict=True)]


def _convolve(call: LiteRTCall) -> Any:
    batch, *sizes, _ = call.inputs[0]
    filters = call.inputs[1]
    if call.type == "CONV_3D":
        axes, kernel, channels = "DHW", filters[:-2], filters[-1]
    else:
        axes, kernel, channels = "HW", filters[1:-1], filters[0 if call.type == "CONV_2D" else -1]
    strides = [call.option(f"stride{axis}", 1) for axis in axes]
    dilations = [call.option(f"dilation{axis}Factor", 1) for axis in axes]
    return (batch, *_count_windows(call, sizes, kernel, strides, dilations), channels)


def _pool(call: LiteRTCall) -> Any:
    batch, *sizes, channels = call.inputs[0]
    kernel = [call.option("filterHeight"), call.option("filterWidth")]
    strides = [call.option("strideH"), call.option("strideW")]
    return (batch, *_count_windows(call, sizes, kernel, strides, (1, 1)), channels)


def _connect(call: LiteRTCall) -> Any:
    units, features = call.inputs[1]
    *leading, last = call.inputs[0]
    elements = math.prod((*leading, last))
    if elements % max(features, 1) or (call.option("keepNumDims", False) and last != features):
        raise ValueError(f"{call.inputs[0]} has no rows of {features} features")
    return (*leading, units) if call.option("keepNumDims", False) else (elements // max(features, 1), units)


def _multiply(call: LiteRTCall) -> Any:
    x, y = call.inputs[0], call.inputs[1]
    rows, summed = x[-2:] if not call.option("adjX", False) else x[:-3:-1]
    others, columns = y[-2:] if not call.option("adjY", False) else y[:-3:-1]
    if summed != others:
        raise ValueError(f"a product of {x} and {y} sums over {summed} and {others}")
    return (*np.broadcast_shapes(x[:-2], y[:-2]), rows, columns)


def _recur_with_gates(call: LiteRTCall) -> Any:
    """Each step makes as many values as a gate has, or as the matrix has rows that they are projected by."""
    forget_gate, projection = 2, 16
    return (*call.inputs[0][:-1], call.inputs[projection if call.has_input(projection) else forget_gate][0])


def _transform(call: LiteRTCall) -> Any:
    """Frequencies of real points, half of them in the last dimension."""
    height, width = call.list_numbers(1)
    return (*call.inputs[0][:-2], height, width // 2 + 1)


# Over axes ------------------------------------------------------------------------------------------------------------


def _reduce(call: LiteRTCall) -> Any:
    axes, keep = tuple(call.list_numbers(1)), bool(call.option("keepDims", False))
    if call.type in _REDUCTIONS and call.is_known(0) and _are_integers(call.array()):
        return _REDUCTIONS[call.type](call.array(), axis=axes, keepdims=keep)
    chosen = {axis % max(len(call.inputs[0]), 1) for axis in axes}
    sizes = [1 if index in chosen else size for index, size in enumerate(call.inputs[0])]
    return tuple(size for index, size in enumerate(sizes) if keep or index not in chosen)


def _pick(call: LiteRTCall) -> Any:
    axis = call.list_numbers(1)[0] % len(call.inputs[0])
    return tuple(size for index, size in enumerate(call.inputs[0]) if index != axis)


#: The rule of each operator: its result, values or only their shape, in a list if there are several.
RULES: dict[str, Callable[[LiteRTCall], Any]] = {
    **dict.fromkeys(_KEEPING.split(), lambda call: call.inputs[0]),
    **dict.fromkeys(("CONV_3D_TRANSPOSE", "TRANSPOSE_CONV"), lambda call: tuple(call.list_numbers(0))),
    **dict.fromkeys(
        ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"),
        lambda call: (call.inputs[0][0], *call.list_numbers(1), call.inputs[0][-1]),
    ),
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), lambda call: (*call.inputs[0][:-1], call.inputs[1][0])),
    "TOPK_V2": lambda call: [(*call.inputs[0][:-1], call.list_numbers(1)[0])] * 2,
    **dict.fromkeys((*_FUNCTIONS, *_BROADCASTING.split()), _broadcast),
    "SELECT": _select_rows,
    "CONV_2D": _convolve,
    "CONV_3D": _convolve,
    "DEPTHWISE_CONV_2D": _convolve,
    "AVERAGE_POOL_2D": _pool,
    "L2_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "FULLY_CONNECTED": _connect,
    "BATCH_MATMUL": _multiply,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _recur_with_gates,
    "RFFT2D": _transform,
    **dict.fromkeys((*_REDUCTIONS, "MEAN", "REDUCE_ALL", "REDUCE_ANY"), _reduce),
    "ARG_MAX": _pick,
    "ARG_MIN": _pick,
}
