"""The shapes of results whose elements are moved, made or looked up, and the values of sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import EllipsisType
from typing import Any

import numpy as np

from profilerkit.backend_kit.operator_calls import UnknownCostError

from ..costs import LiteRTCall
from .values import Array

__all__ = ["RULES"]

#: The most elements that FILL makes here.
_MOST_FILLED = 64


def _move(call: LiteRTCall, function: Callable[[Array], Array]) -> Any:
    """Return the first input, moved by a function of numpy's: its values, or the shape of the result."""
    moved = function(call.array())
    return moved if call.is_known(0) else np.shape(moved)


def _reshape(call: LiteRTCall) -> Any:
    sizes = call.list_numbers(1) if call.has_input(1) else call.option("newShape")
    if sizes is None:
        raise UnknownCostError
    return _move(call, lambda array: array.reshape([int(size) for size in sizes]))


def _slice_strided(call: LiteRTCall) -> Any:
    """Move the slice of three lists of numbers; the lowest bit of each mask says what the first of them mean."""
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


def _slice(call: LiteRTCall) -> Any:
    begins, sizes = call.list_numbers(1), call.list_numbers(2)
    index = tuple(slice(begin, None if size == -1 else begin + size) for begin, size in zip(begins, sizes, strict=True))
    return _move(call, lambda array: array[index])


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


def _unpack(call: LiteRTCall) -> Any:
    axis, sizes = call.option("axis", 0), list(call.inputs[0])
    count = sizes.pop(axis)
    if call.is_known(0):
        return [np.take(call.array(), index, axis) for index in range(count)]
    return [tuple(sizes)] * count


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


def _gather(call: LiteRTCall) -> Any:
    axis, batch = call.option("axis", 0), call.option("batchDims", 0)
    values, indices = call.inputs[0], call.inputs[1]
    axis %= max(len(values), 1)
    if call.is_known(0, 1) and not batch:
        return np.take(call.array(0), call.array(1), axis)
    return (*values[:axis], *indices[batch:], *values[axis + 1 :])


def _pad(call: LiteRTCall) -> Any:
    pads = call.read(1).reshape(-1, 2)
    return tuple(size + int(before) + int(after) for size, (before, after) in zip(call.inputs[0], pads, strict=True))


def _squeeze(call: LiteRTCall) -> Any:
    axes = call.option("squeezeDims")
    chosen = None if axes is None or not len(axes) else tuple(int(axis) for axis in axes)
    return _move(call, lambda array: np.squeeze(array, chosen))


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


def _fill(call: LiteRTCall) -> Any:
    sizes = tuple(call.list_numbers(0))
    if call.type == "FILL" and call.is_known(1) and math.prod(sizes) <= _MOST_FILLED:
        return np.full(sizes, call.array(1))
    return sizes


def _one_hot(call: LiteRTCall) -> Any:
    sizes, axis = list(call.inputs[0]), call.option("axis", -1)
    sizes.insert(len(sizes) if axis == -1 else axis, call.list_numbers(1)[0])
    return tuple(sizes)


def _count_up(call: LiteRTCall) -> Any:
    begin, end, step = (call.read(index).item() for index in range(3))
    return np.arange(begin, end, step)


#: The rule of each operator: its result, values or only their shape, in a list if there are several.
RULES: dict[str, Callable[[LiteRTCall], Any]] = {
    "BROADCAST_ARGS": lambda call: np.asarray(np.broadcast_shapes(call.list_numbers(0), call.list_numbers(1))),
    "BROADCAST_TO": lambda call: tuple(call.list_numbers(1)),
    "CAST": lambda call: call.array() if call.is_known(0) else call.inputs[0],
    "EMBEDDING_LOOKUP": lambda call: (*call.inputs[0], *call.inputs[1][1:]),
    "EXPAND_DIMS": lambda call: _move(call, lambda array: np.expand_dims(array, call.list_numbers(1)[0])),
    "GATHER_ND": lambda call: (*call.inputs[1][:-1], *call.inputs[0][call.inputs[1][-1] :]),
    "MATRIX_DIAG": lambda call: (*call.inputs[0], call.inputs[0][-1]),
    "RANK": lambda call: np.asarray(len(call.inputs[0])),
    "SCATTER_ND": lambda call: tuple(call.list_numbers(2)),
    "SHAPE": lambda call: np.asarray(call.inputs[0], np.int64),
    "SPARSE_TO_DENSE": lambda call: tuple(call.list_numbers(1)),
    "TILE": lambda call: tuple(size * n for size, n in zip(call.inputs[0], call.list_numbers(1), strict=True)),
    "TRANSPOSE": lambda call: _move(call, lambda array: np.transpose(array, call.list_numbers(1))),
    "RESHAPE": _reshape,
    "STRIDED_SLICE": _slice_strided,
    "SLICE": _slice,
    "CONCATENATION": _join,
    "PACK": _join,
    "UNPACK": _unpack,
    "SPLIT": _split,
    "SPLIT_V": _split,
    "GATHER": _gather,
    "MIRROR_PAD": _pad,
    "PAD": _pad,
    "PADV2": _pad,
    "SQUEEZE": _squeeze,
    "DEPTH_TO_SPACE": _move_channels,
    "SPACE_TO_DEPTH": _move_channels,
    "BATCH_TO_SPACE_ND": _move_samples,
    "SPACE_TO_BATCH_ND": _move_samples,
    "FILL": _fill,
    "RANDOM_STANDARD_NORMAL": _fill,
    "RANDOM_UNIFORM": _fill,
    "ONE_HOT": _one_hot,
    "RANGE": _count_up,
}
