"""The shapes of an operator's results, as the kernels of LiteRT find them, and their values if they are known.

A file declares the shapes for the inputs that it was converted with; if inputs have open sizes, most other shapes
follow from operators alone. An operator without a rule here has the shape that the file declares, if no size is open.

A rule returns the values of a result, or a tuple with its shape alone; a list of these for several results. Values are
sizes and the like: integers and truth values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from ai_edge_litert.schema_py_generated import Padding

from profilerkit.backend_kit.operator_calls import UnknownCostError, UnknownShapeError

from ..costs import LiteRTCall
from ..model.graphs import LARGEST
from .values import Array

__all__ = ["Result", "infer"]

#: The result of an operator: its values, or only their shape.
Result: TypeAlias = Array | tuple[int, ...]

#: The most elements that FILL makes here.
_MOST_FILLED = 64


def infer(call: LiteRTCall) -> list[Result] | None:
    """Return the results of an operator: an array for each output if it is known, or its shape.

    None if no rule knows it. Raises numpy's errors for shapes that do not fit.
    """
    rule = _RULES.get(call.type)
    if rule is None:
        return None
    try:
        made = rule(call)
    except (UnknownCostError, UnknownShapeError):
        return None
    results = made if isinstance(made, list) else [made]
    return [tuple(result) if isinstance(result, tuple) else np.asarray(result) for result in results]


# Element by element ---------------------------------------------------------------------------------------------------

#: The functions of several inputs, for known integers.
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
#: Further operators of several inputs.
_BROADCASTING = "ADD_N ATAN2 BITWISE_XOR DIV POW PRELU RIGHT_SHIFT SQUARED_DIFFERENCE"
#: Operators whose output has the shape of their first input.
_KEEPING = """
    ABS BUCKETIZE CEIL COMPLEX_ABS COS CUMSUM DEQUANTIZE DYNAMIC_UPDATE_SLICE ELU EXP FAKE_QUANT FLOOR GELU HARD_SWISH
    IMAG L2_NORMALIZATION LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_NOT LOGISTIC LOG_SOFTMAX MATRIX_SET_DIAG
    NEG QUANTIZE REAL RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 REVERSE_SEQUENCE REVERSE_V2 ROUND RSQRT SIGN SIN SOFTMAX
    SQRT SQUARE TANH ZEROS_LIKE
"""


def _are_integers(*arrays: Array) -> bool:
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


# Moved: numpy makes views, of the values or of an array of the same shape without memory ------------------------------


def _move(call: LiteRTCall, function: Callable[[Array], Any], index: int = 0) -> Any:
    """Return an input as a function of numpy's moves it, or its parts: the values if they are known, or the shapes."""
    moved = function(call.array(index))
    if call.is_known(index):
        return moved
    return list(map(np.shape, moved)) if isinstance(moved, list) else np.shape(moved)


def _reshape(call: LiteRTCall) -> Any:
    sizes = call.list_numbers(1) if call.has_input(1) else call.option("newShape")
    if sizes is None:
        raise UnknownCostError
    return _move(call, lambda array: array.reshape([int(size) for size in sizes]))


def _squeeze(call: LiteRTCall) -> Any:
    axes = call.option("squeezeDims")
    chosen = None if axes is None or not len(axes) else tuple(int(axis) for axis in axes)
    return _move(call, lambda array: np.squeeze(array, chosen))


def _slice(call: LiteRTCall) -> Any:
    begins, sizes = call.list_numbers(1), call.list_numbers(2)
    index = tuple(slice(begin, None if size == -1 else begin + size) for begin, size in zip(begins, sizes, strict=True))
    return _move(call, lambda array: array[index])


def _slice_strided(call: LiteRTCall) -> Any:
    """Take the slice of three lists of numbers; the lowest bit of each mask says what the first of them mean."""
    begins, ends, strides = (call.list_numbers(index) for index in (1, 2, 3))
    if call.option("offset", False):
        ends = [begin + length for begin, length in zip(begins, ends, strict=True)]

    def find_entry(position: int) -> slice | int | EllipsisType | None:
        def is_marked(kind: str) -> bool:
            return bool(call.option(f"{kind}Mask", 0) & 1 << position)

        begin, end = begins[position], ends[position]
        if is_marked("ellipsis"):
            return Ellipsis
        if is_marked("newAxis"):
            return None
        if is_marked("shrinkAxis"):
            return begin
        return slice(None if is_marked("begin") else begin, None if is_marked("end") else end, strides[position])

    index = tuple(map(find_entry, range(len(begins))))
    return _move(call, lambda array: array[index])


def _unpack(call: LiteRTCall) -> Any:
    axis = call.option("axis", 0)
    _require_few(call.inputs[0][axis])
    return _move(call, lambda array: list(np.moveaxis(array, axis, 0)))


def _split(call: LiteRTCall) -> Any:
    axis, number = call.list_numbers(0)[0], call.option("numSplits", 1)
    _require_few(number)
    return _move(call, lambda array: np.split(array, number, axis), 1)


def _require_few(parts: int) -> None:
    """Raise `UnknownCostError` for more parts than operators have results: a damaged file may ask for any number."""
    if parts > LARGEST:
        raise UnknownCostError


def _split_by_sizes(call: LiteRTCall) -> Any:
    """One of the sizes may be -1: it takes the rest."""
    parts, axis = call.list_numbers(1), call.list_numbers(2)[0]
    rest = call.inputs[0][axis] - sum(part for part in parts if part != -1)
    ends = np.cumsum([rest if part == -1 else part for part in parts])
    return _move(call, lambda array: np.split(array, ends[:-1], axis))


# Joined, padded, looked up, made --------------------------------------------------------------------------------------


def _join(call: LiteRTCall) -> Any:
    """Join along a dimension that the inputs have, or pack them along a new one."""
    axis, arrays, is_new = call.option("axis", 0), call.list_arrays(), call.type == "PACK"
    if arrays is not None:
        return np.stack(arrays, axis) if is_new else np.concatenate(arrays, axis)
    sizes = list(call.inputs[0])
    if is_new:
        sizes.insert(axis % (len(sizes) + 1), len(call.inputs))
    else:
        sizes[axis] = sum(shape[axis] for shape in call.inputs)
    return tuple(sizes)


def _gather(call: LiteRTCall) -> Any:
    axis, batch = call.option("axis", 0), call.option("batchDims", 0)
    values, indices = call.inputs[0], call.inputs[1]
    axis %= max(len(values), 1)
    if call.is_known(0, 1) and not batch:
        return np.take(call.array(0), call.array(1), axis)
    return (*values[:axis], *indices[batch:], *values[axis + 1 :])


def _pad(call: LiteRTCall) -> Any:
    pads = call.read(1).reshape(-1, 2).sum(1)
    return tuple(size + int(pad) for size, pad in zip(call.inputs[0], pads, strict=True))


def _fill(call: LiteRTCall) -> Any:
    sizes = tuple(call.list_numbers(0))
    if call.type == "FILL" and call.is_known(1) and math.prod(sizes) <= _MOST_FILLED:
        return np.full(sizes, call.array(1))
    return sizes


def _one_hot(call: LiteRTCall) -> Any:
    sizes, axis = list(call.inputs[0]), call.option("axis", -1)
    sizes.insert(len(sizes) if axis == -1 else axis, call.list_numbers(1)[0])
    return tuple(sizes)


def _move_channels(call: LiteRTCall) -> Any:
    (batch, height, width, channels), size = call.inputs[0], call.option("blockSize", 1)
    if call.type == "DEPTH_TO_SPACE":
        return (batch, height * size, width * size, channels // size**2)
    return (batch, height // size, width // size, channels * size**2)


def _move_samples(call: LiteRTCall) -> Any:
    """Blocks of the first dimensions behind the batch become samples, or the other way round."""
    batch, *sizes = call.inputs[0]
    blocks, pads = call.list_numbers(1), call.read(2).reshape(-1, 2).sum(1).tolist()
    area, rest = math.prod(blocks), sizes[len(blocks) :]
    if call.type == "SPACE_TO_BATCH_ND":
        changed = [(size + pad) // block for size, block, pad in zip(sizes, blocks, pads, strict=False)]
        return (batch * area, *changed, *rest)
    changed = [size * block - crop for size, block, crop in zip(sizes, blocks, pads, strict=False)]
    return (batch // area, *changed, *rest)


# Over axes ------------------------------------------------------------------------------------------------------------

#: The functions for known integers.
_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "SUM": np.sum,
    "REDUCE_PROD": np.prod,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
}


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
    elements, keeps_rank = math.prod((*leading, last)), call.option("keepNumDims", False)
    if elements % max(features, 1) or (keeps_rank and last != features):
        raise ValueError(f"{call.inputs[0]} has no rows of {features} features")
    return (*leading, units) if keeps_rank else (elements // max(features, 1), units)


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


#: The rule of each operator.
_RULES: dict[str, Callable[[LiteRTCall], Any]] = {
    **dict.fromkeys(_KEEPING.split(), lambda call: call.inputs[0]),
    **dict.fromkeys((*_FUNCTIONS, *_BROADCASTING.split()), _broadcast),
    "SELECT": _select_rows,
    "CAST": lambda call: call.array() if call.is_known(0) else call.inputs[0],
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": lambda call: _move(call, lambda array: np.expand_dims(array, call.list_numbers(1)[0])),
    "TRANSPOSE": lambda call: _move(call, lambda array: np.transpose(array, call.list_numbers(1))),
    "SLICE": _slice,
    "STRIDED_SLICE": _slice_strided,
    "UNPACK": _unpack,
    "SPLIT": _split,
    "SPLIT_V": _split_by_sizes,
    **dict.fromkeys(("CONCATENATION", "PACK"), _join),
    "TILE": lambda call: tuple(size * n for size, n in zip(call.inputs[0], call.list_numbers(1), strict=True)),
    **dict.fromkeys(("MIRROR_PAD", "PAD", "PADV2"), _pad),
    "GATHER": _gather,
    "GATHER_ND": lambda call: (*call.inputs[1][:-1], *call.inputs[0][call.inputs[1][-1] :]),
    "EMBEDDING_LOOKUP": lambda call: (*call.inputs[0], *call.inputs[1][1:]),
    "SCATTER_ND": lambda call: tuple(call.list_numbers(2)),
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), _move_channels),
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"), _move_samples),
    "MATRIX_DIAG": lambda call: (*call.inputs[0], call.inputs[0][-1]),
    "SHAPE": lambda call: np.asarray(call.inputs[0], np.int64),
    "RANK": lambda call: np.asarray(len(call.inputs[0])),
    "BROADCAST_ARGS": lambda call: np.asarray(np.broadcast_shapes(call.list_numbers(0), call.list_numbers(1))),
    **dict.fromkeys(("BROADCAST_TO", "SPARSE_TO_DENSE"), lambda call: tuple(call.list_numbers(1))),
    **dict.fromkeys(("FILL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), _fill),
    "RANGE": lambda call: np.arange(*(call.read(index).item() for index in range(3))),
    "ONE_HOT": _one_hot,
    **dict.fromkeys((*_REDUCTIONS, "MEAN", "REDUCE_ALL", "REDUCE_ANY"), _reduce),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _pick),
    "TOPK_V2": lambda call: [(*call.inputs[0][:-1], call.list_numbers(1)[0])] * 2,
    **dict.fromkeys(("CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D"), _convolve),
    **dict.fromkeys(("CONV_3D_TRANSPOSE", "TRANSPOSE_CONV"), lambda call: tuple(call.list_numbers(0))),
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), _pool),
    **dict.fromkeys(
        ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"),
        lambda call: (call.inputs[0][0], *call.list_numbers(1), call.inputs[0][-1]),
    ),
    "FULLY_CONNECTED": _connect,
    "BATCH_MATMUL": _multiply,
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), lambda call: (*call.inputs[0][:-1], call.inputs[1][0])),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _recur_with_gates,
    "RFFT2D": _transform,
}
