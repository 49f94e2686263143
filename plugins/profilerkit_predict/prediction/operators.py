"""The bytes that an operator moves, and whether it moves any."""

from __future__ import annotations

import math
import re

from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import OpRecord

from .kinds import find_family
from .operator_names import plain_name

#: Operators that move no byte: a tensor of another shape, the tensor itself, and tensors without values. Traces have no
#: other views of torch; what other frameworks split, slice and expand they copy.
_FREE = re.compile(
    r"_unsafe_view|view|t|(un)?squeeze|expanddims|detach|alias|identity|empty(_like|_strided)?|new_empty|lift_fresh"
    r"|scalar_tensor"
)


def is_free(operator: OpRecord) -> bool:
    """Return whether an operator moves no bytes: a view, or a tensor without values."""
    return not operator.macs and _FREE.fullmatch(plain_name(operator.operator)) is not None


#: Products of each row with one of several matrices, as in experts. Which matrices are read depends on values.
_GROUPED = re.compile(r"grouped_?mm|grouped_?gemm|ragged_?dot|gather_?mm|mixtureofexperts|\bq?moe\b")
#: The bytes of a weight of onnxruntime's QMoE, which has 2 bits or more.
_QMOE_BYTES = 0.25
#: Operators that read chosen elements of a tensor.
_LOOKS_UP = re.compile(r"embedding|index|gather|take|dynamic_slice")


def is_selective(operator: OpRecord) -> bool:
    """Return whether an operator reads chosen parts of a tensor: rows of a table, or the matrices of chosen experts.

    >>> is_selective(OpRecord("aten.index_select.default", "", 0, 0, 0, 400, 8, ()))
    True
    """
    name = plain_name(operator.operator)
    return (_GROUPED if operator.macs else _LOOKS_UP).search(name) is not None


def count_least_read(operator: OpRecord) -> float:
    """Return the least bytes that an operator reads: of a table the rows that it returns, of experts one.

    A product of 3 rows with experts of 8 x 4 elements of four bytes has 96 multiply-accumulates, and reads at least one
    of the experts, 128 bytes:

    >>> from profilerkit.trace.records import TensorInfo
    >>> output = TensorInfo((3, 4), "float32")
    >>> count_least_read(OpRecord("aten._grouped_mm.default", "", 0, 96, 192, 10**6, 48, (output,)))
    128.0
    """
    if not is_selective(operator) or not operator.outputs:
        return float(operator.bytes_read)
    first, *others = operator.outputs
    if operator.macs:
        rows = math.prod(max(1, size) for size in first.shape[:-1])
        weight_bytes = _QMOE_BYTES if plain_name(operator.operator) == "qmoe" else element_bytes(first.dtype)
        return min(operator.bytes_read, operator.macs / rows * weight_bytes)
    beside = sum(math.prod(max(0, size) for size in other.shape) * element_bytes(other.dtype) for other in others)
    return min(operator.bytes_read, max(0.0, operator.bytes_written - beside))


def count_moved_bytes(operator: OpRecord) -> float:
    """Return the bytes that an operator moves: of a table that it looks up, the rows that it returns alone."""
    read, written = operator.bytes_read, operator.bytes_written
    looks_up = not operator.macs and find_family(operator) == "gather"
    return float(min(read, written) + written if looks_up else read + written)
