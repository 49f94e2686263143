"""Types of ONNX values: names and sizes of dtypes, and the shapes that a type declares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from onnx import OperatorSetIdProto, TensorProto, TypeProto, helper

__all__ = [
    "LARGEST",
    "STANDARD",
    "common_type",
    "count_bytes",
    "dtype_name",
    "read_dims",
    "read_opsets",
    "tensor_type",
]

#: Returns the type of a tensor, of its dtype and sizes; a size may be a name, or not known.
tensor_type: Callable[[int, Sequence[int | str | None] | None], TypeProto] = helper.make_tensor_type_proto
#: The most elements that a constant has which is read or computed: shapes, indices and scales have fewer.
LARGEST = 4096
#: The names of the domain of the standard's operators.
STANDARD = ("", "ai.onnx")
#: The names that exporters give a size without a name: two sizes of such a name may differ.
_NAMELESS = ("", "?", "-1", "None")
#: The bits of dtypes whose elements are packed.
_PACKED = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}


@cache
def dtype_name(element: int) -> str:
    """Return the name of a dtype as numpy has it: "float32", "bfloat16", "int4"; "string" for texts."""
    if element in (TensorProto.UNDEFINED, TensorProto.STRING):
        return "string" if element else ""
    return str(helper.tensor_dtype_to_np_dtype(element).name)


@cache
def _bits(element: int) -> int:
    name = TensorProto.DataType.Name(element)
    if name in ("UNDEFINED", "STRING"):
        return 0
    return _PACKED.get(name) or 8 * helper.tensor_dtype_to_np_dtype(element).itemsize


def read_opsets(entries: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the version of each operator set by its domain; the standard's domain is "", however a file names it."""
    return {("" if entry.domain in STANDARD else entry.domain): entry.version for entry in entries}


def count_bytes(sizes: Iterable[int], element: int) -> int:
    """Return the bytes that a tensor of a dtype takes, packed elements rounded up; texts have no size."""
    return -(-math.prod(sizes) * _bits(element) // 8)


def read_dims(declared: TypeProto) -> tuple[int | str | None, ...] | None:
    """Return the sizes of a tensor's type: numbers, names, or None for a size without either; None without a rank."""
    kind = declared.tensor_type
    if not kind.HasField("shape"):
        return None
    dims: list[int | str | None] = []
    for dim in kind.shape.dim:
        if dim.HasField("dim_value"):  # some exporters write -1 for an open size, as onnxruntime takes it too
            dims.append(dim.dim_value if dim.dim_value >= 0 else None)
        else:
            dims.append(None if dim.dim_param in _NAMELESS else dim.dim_param)
    return tuple(dims)


def common_type(first: TypeProto, second: TypeProto) -> TypeProto:
    """Return the common type of two types: with the sizes that are equal in both, without a shape if ranks differ."""
    if first == second:
        return first
    kinds = [item.WhichOneof("value") for item in (first, second)]
    if kinds != ["tensor_type", "tensor_type"] or first.tensor_type.elem_type != second.tensor_type.elem_type:
        return TypeProto()
    sizes, others = read_dims(first), read_dims(second)
    if sizes is None or others is None or len(sizes) != len(others):
        return tensor_type(first.tensor_type.elem_type, None)
    shape = [one if one == other else None for one, other in zip(sizes, others, strict=True)]
    return tensor_type(first.tensor_type.elem_type, shape)
