"""The shapes of an operator's results, as the kernels of LiteRT find them, and their values if they are known.

A file declares the shapes for the inputs that it was converted with; if inputs have open sizes, most other shapes
follow from operators alone. numpy moves the data: the values or, if they are not known, an array of the same shape
without memory. An operator without a rule has the shape that the file declares, if no size is open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ai_edge_litert.schema_py_generated import Padding

from profilerkit.backend_kit.operator_calls import UnknownCostError, UnknownShapeError
from profilerkit.backend_kit.strided_slices import SliceMasks, make_index

from ..costs import LiteRTCall
from .values import Array

__all__ = ["Result", "infer"]

#: The result of an operator: its values, or only their shape.
Result = Array | tuple[int, ...]
#: Returns the result of an operator: its values or only their shape, in a list if there are several results.
Rule = Callable[[LiteRTCall], Any]
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
#: The same, over axes.
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
#: The rules; rules of more than one expression are added below.
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_KEEPING.split(), lambda call: call.inputs[0]),
    "BROADCAST_ARGS": lambda call: np.asarray(np.broadcast_shapes(call.list_numbers(0), call.list_numbers(1))),
    "CAST": lambda call: call.array() if call.is_known(0) else call.inputs[0],
    "EMBEDDING_LOOKUP": lambda call: (*call.inputs[0], *call.inputs[1][1:]),
    "EXPAND_DIMS": lambda call: _move(call, lambda array: np.expand_dims(array, call.list_numbers(1)[0])),
    "GATHER_ND": lambda call: (*call.inputs[1][:-1], *call.inputs[0][call.inputs[1][-1] :]),
    "MATRIX_DIAG": lambda call: (*call.inputs[0], call.inputs[0][-1]),
    "RANK": lambda call: np.asarray(len(call.inputs[0])),
    "SCATTER_ND": lambda call: tuple(call.list_numbers(2)),
    "SHAPE": lambda call: np.asarray(call.inputs[0], np.int64),
    "TILE": lambda call: tuple(size * times for size, times in zip(call.inputs[0], call.list_numbers(1), strict=True)),
    "TOPK_V2": lambda call: [(*call.inputs[0][:-1], call.list_numbers(1)[0])] * 2,
    "TRANSPOSE": lambda call: _move(call, lambda array: np.transpose(array, call.list_numbers(1))),
    **dict.fromkeys(("BROADCAST_TO", "SPARSE_TO_DENSE"), lambda call: tuple(call.list_numbers(1))),
    **dict.fromkeys(("CONV_3D_TRANSPOSE", "TRANSPOSE_CONV"), lambda call: tuple(call.list_numbers(0))),
    **dict.fromkeys(
        ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"),
        lambda call: (call.inputs[0][0], *call.list_numbers(1), call.inputs[0][-1]),
    ),
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), lambda call: (*call.inputs[0][:-1], call.inputs[1][0])),
}


def _register(names: str) -> Callable[[Rule], Rule]:
    """Return a decorator: a function is the rule of the operators of these names."""

    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names.split(), rule))
        return rule

    return register


# Element by element ---------------------------------------------------------------------------------------------------


def _list_arrays(call: LiteRTCall) -> list[Array] | None:
    """Return the values of all inputs; None if the values of an input are not known."""
    return [call.array(index) for index in range(len(call.inputs))] if call.is_known() else None


def _is_integer(array: Array) -> bool:
    return array.dtype.kind in "iub"


@_register(" ".join(_FUNCTIONS))
@_register("ADD_N ATAN2 BITWISE_XOR DIV POW PRELU RIGHT_SHIFT SQUARED_DIFFERENCE")
def _broadcast(call: LiteRTCall) -> Any:
    arrays = _list_arrays(call) if call.type in _FUNCTIONS else None
    if arrays is not None and all(map(_is_integer, arrays)):
        return _FUNCTIONS[call.type](*arrays)
    return np.broadcast_shapes(*call.inputs)


@_register("SELECT")
def _select_rows(call: LiteRTCall) -> Any:
    """A condition of one dimension chooses whole rows; a condition of the others' shape chooses single elements."""
    arrays = _list_arrays(call)
    if arrays is None:
        return call.inputs[1]
    condition, chosen, other = arrays
    return np.where(condition.reshape(condition.shape + (1,) * (chosen.ndim - condition.ndim)), chosen, other)


# Products and windows -------------------------------------------------------------------------------------------------


def _count_windows(
    call: LiteRTCall, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Return the number of windows along each dimension: with SAME padding one begins at each stride."""
    if min(strides) < 1:
        raise ValueError("a stride is below 1")
    is_padded = call.option("padding", Padding.SAME) == Padding.SAME
    reach = [0 if is_padded else (size - 1) * dilation for size, dilation in zip(kernel, dilations, strict=True)]
    return [-(-(size - less) // stride) for size, less, stride in zip(sizes, reach, strides, strict=True)]


@_register("CONV_2D CONV_3D DEPTHWISE_CONV_2D")
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


@_register("AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D")
def _pool(call: LiteRTCall) -> Any:
    batch, *sizes, channels = call.inputs[0]
    kernel = [call.option("filterHeight"), call.option("filterWidth")]
    strides = [call.option("strideH"), call.option("strideW")]
    return (batch, *_count_windows(call, sizes, kernel, strides, (1, 1)), channels)


@_register("FULLY_CONNECTED")
def _connect(call: LiteRTCall) -> Any:
    units, features = call.inputs[1]
    *leading, last = call.inputs[0]
    elements = math.prod((*leading, last))
    if elements % max(features, 1) or (call.option("keepNumDims", False) and last != features):
        raise ValueError(f"{call.inputs[0]} has no rows of {features} features")
    return (*leading, units) if call.option("keepNumDims", False) else (elements // max(features, 1), units)


@_register("BATCH_MATMUL")
def _multiply(call: LiteRTCall) -> Any:
    x, y = call.inputs[0], call.inputs[1]
    rows, summed = x[-2:] if not call.option("adjX", False) else x[:-3:-1]
    others, columns = y[-2:] if not call.option("adjY", False) else y[:-3:-1]
    if summed != others:
        raise ValueError(f"a product of {x} and {y} sums over {summed} and {others}")
    return (*np.broadcast_shapes(x[:-2], y[:-2]), rows, columns)


# Recurrent layers -----------------------------------------------------------------------------------------------------


@_register("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _recur_with_gates(call: LiteRTCall) -> Any:
    """Each step makes as many values as a gate has, or as the matrix has rows that they are projected by."""
    forget_gate, projection = 2, 16
    return (*call.inputs[0][:-1], call.inputs[projection if call.has_input(projection) else forget_gate][0])


# Movements ------------------------------------------------------------------------------------------------------------


@_register("RESHAPE")
def _reshape(call: LiteRTCall) -> Any:
    sizes = call.list_numbers(1) if call.has_input(1) else call.option("newShape")
    if sizes is None:
        raise UnknownCostError
    return _move(call, lambda array: array.reshape([int(size) for size in sizes]))


def _move(call: LiteRTCall, move: Callable[[Array], Array]) -> Any:
    moved = move(call.array())
    return moved if call.is_known(0) else np.shape(moved)


@_register("STRIDED_SLICE")
def _slice_strided(call: LiteRTCall) -> Any:
    begins, ends, strides = (call.list_numbers(index) for index in (1, 2, 3))
    if call.option("offset", False):
        ends = [begin + length for begin, length in zip(begins, ends, strict=True)]
    words = ("begin", "end", "ellipsis", "newAxis", "shrinkAxis")
    index = make_index(begins, ends, strides, SliceMasks(*(call.option(f"{word}Mask", 0) for word in words)))
    return _move(call, lambda array: array[index])


@_register("SLICE")
def _slice(call: LiteRTCall) -> Any:
    begins, sizes = call.list_numbers(1), call.list_numbers(2)
    index = tuple(slice(begin, None if size == -1 else begin + size) for begin, size in zip(begins, sizes, strict=True))
    return _move(call, lambda array: array[index])


@_register("CONCATENATION")
def _concatenate(call: LiteRTCall) -> Any:
    axis, arrays = call.option("axis", 0), _list_arrays(call)
    if arrays is not None:
        return np.concatenate(arrays, axis)
    sizes = list(call.inputs[0])
    sizes[axis] = sum(shape[axis] for shape in call.inputs)
    return tuple(sizes)


@_register("PACK")
def _pack(call: LiteRTCall) -> Any:
    axis, arrays = call.option("axis", 0), _list_arrays(call)
    if arrays is not None:
        return np.stack(arrays, axis)
    sizes = list(call.inputs[0])
    sizes.insert(axis % (len(sizes) + 1), len(call.inputs))
    return tuple(sizes)


@_register("UNPACK")
def _unpack(call: LiteRTCall) -> Any:
    axis, sizes = call.option("axis", 0), list(call.inputs[0])
    count = sizes.pop(axis)
    if call.is_known(0):
        return [np.take(call.array(), index, axis) for index in range(count)]
    return [tuple(sizes)] * count


@_register("SPLIT SPLIT_V")
def _split(call: LiteRTCall) -> Any:
    """Split evenly, along the axis that the first input names, or into the sizes that the second one has."""
    values = 1 if call.type == "SPLIT" else 0
    sizes = list(call.inputs[values])
    if call.type == "SPLIT":
        axis, number = call.list_numbers(0)[0], call.option("numSplits", 1)
        parts = [sizes[axis] // number] * number
    else:
        axis, parts = call.list_numbers(2)[0], call.list_numbers(1)
        rest = sizes[axis] - sum(part for part in parts if part != -1)
        parts = [rest if part == -1 else part for part in parts]
    axis %= len(sizes)
    if call.is_known(values):
        return np.split(call.array(values), np.cumsum(parts[:-1]), axis)
    return [(*sizes[:axis], part, *sizes[axis + 1 :]) for part in parts]


@_register("GATHER")
def _gather(call: LiteRTCall) -> Any:
    axis, batch = call.option("axis", 0), call.option("batchDims", 0)
    values, indices = call.inputs[0], call.inputs[1]
    axis %= max(len(values), 1)
    if call.is_known(0, 1) and not batch:
        return np.take(call.array(0), call.array(1), axis)
    return (*values[:axis], *indices[batch:], *values[axis + 1 :])


@_register("MIRROR_PAD PAD PADV2")
def _pad(call: LiteRTCall) -> Any:
    pads = call.read(1).reshape(-1, 2)
    return tuple(size + int(before) + int(after) for size, (before, after) in zip(call.inputs[0], pads, strict=True))


@_register("RFFT2D")
def _transform(call: LiteRTCall) -> Any:
    """Frequencies of real points, half of them in the last dimension."""
    height, width = call.list_numbers(1)
    return (*call.inputs[0][:-2], height, width // 2 + 1)


@_register("SQUEEZE")
def _squeeze(call: LiteRTCall) -> Any:
    axes = call.option("squeezeDims")
    chosen = None if axes is None or not len(axes) else tuple(int(axis) for axis in axes)
    return _move(call, lambda array: np.squeeze(array, chosen))


@_register(" ".join(_REDUCTIONS))
@_register("MEAN REDUCE_ALL REDUCE_ANY")
def _reduce(call: LiteRTCall) -> Any:
    axes, keep = tuple(call.list_numbers(1)), bool(call.option("keepDims", False))
    if call.type in _REDUCTIONS and call.is_known(0) and _is_integer(call.array()):
        return _REDUCTIONS[call.type](call.array(), axis=axes, keepdims=keep)
    chosen = {axis % max(len(call.inputs[0]), 1) for axis in axes}
    sizes = [1 if index in chosen else size for index, size in enumerate(call.inputs[0])]
    return tuple(size for index, size in enumerate(sizes) if keep or index not in chosen)


@_register("ARG_MAX ARG_MIN")
def _pick(call: LiteRTCall) -> Any:
    axis = call.list_numbers(1)[0] % len(call.inputs[0])
    return tuple(size for index, size in enumerate(call.inputs[0]) if index != axis)


@_register("DEPTH_TO_SPACE SPACE_TO_DEPTH")
def _move_channels(call: LiteRTCall) -> Any:
    (batch, height, width, channels), size = call.inputs[0], call.option("blockSize", 1)
    if call.type == "DEPTH_TO_SPACE":
        return (batch, height * size, width * size, channels // size**2)
    return (batch, height // size, width // size, channels * size**2)


@_register("BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND")
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


@_register("FILL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM")
def _fill(call: LiteRTCall) -> Any:
    sizes = tuple(call.list_numbers(0))
    if call.type == "FILL" and call.is_known(1) and math.prod(sizes) <= _MOST_FILLED:
        return np.full(sizes, call.array(1))
    return sizes


@_register("ONE_HOT")
def _one_hot(call: LiteRTCall) -> Any:
    sizes, axis = list(call.inputs[0]), call.option("axis", -1)
    sizes.insert(len(sizes) if axis == -1 else axis, call.list_numbers(1)[0])
    return tuple(sizes)


# Sizes as values ------------------------------------------------------------------------------------------------------


@_register("RANGE")
def _count_up(call: LiteRTCall) -> Any:
    begin, end, step = (call.read(index).item() for index in range(3))
    return np.arange(begin, end, step)
