"""Arrays and their stand-ins without values, and the trees in which they are: what is one, its bytes, its path."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding

__all__ = [
    "ArrayTree",
    "count_bytes",
    "is_array",
    "is_float",
    "is_weight",
    "list_items",
    "make_struct",
    "name_path",
]


def is_array(value: Any) -> bool:
    """Return whether a value is an array of JAX or numpy, or the shape of one."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biufcV"
    return isinstance(value, (jax.Array, jax.ShapeDtypeStruct))


def is_float(value: Any) -> bool:
    """Return whether the elements of an array are floating-point or complex numbers."""
    return bool(jax.numpy.issubdtype(value.dtype, jax.numpy.inexact))


def is_weight(value: Any) -> bool:
    """Return whether an array is a parameter by its type: floats, or quantized ones, integers of at most 8 bits."""
    is_integer = jax.numpy.issubdtype(value.dtype, jax.numpy.integer)
    return is_float(value) or (is_integer and value.dtype.itemsize == 1)


def count_bytes(shape: Sequence[int], dtype: Any) -> int:
    """Return the bytes of an array on a device, where XLA packs numbers of 2 and 4 bits; 0 for a token."""
    itemsize = int(getattr(dtype, "itemsize", 0))
    bits = jax.dtypes.itemsize_bits(dtype) if itemsize == 1 else 8 * itemsize
    return -(-math.prod(shape) * bits // 8)  # rounded up, exactly


def make_struct(value: Any) -> jax.ShapeDtypeStruct:
    """Return shape and dtype of an array as JAX has it: without 64-bit numbers unless they are enabled.

    How the array is spread over explicit axes of a mesh belongs to its type: a ``shard_map`` over them asks for it.
    """
    dtype, sharding = value.dtype, getattr(value, "sharding", None)
    if isinstance(dtype, np.dtype):
        dtype = jax.dtypes.canonicalize_dtype(dtype)
    is_explicit = isinstance(sharding, NamedSharding) and AxisType.Explicit in sharding.mesh.axis_types
    weak_type = bool(getattr(value, "weak_type", False))
    return jax.ShapeDtypeStruct(
        tuple(value.shape), dtype, weak_type=weak_type, sharding=sharding if is_explicit else None
    )


# Trees of values: the arrays among their leaves can be replaced, and their paths have names ---------------------------


class _PlacedArray(NamedTuple):
    """An array of a tree, and the names of the keys that lead to it."""

    path: tuple[str, ...]
    value: Any


class ArrayTree:
    """A tree of values: tuples, lists, dictionaries and the classes that JAX knows, with arrays among their leaves.

    Attributes:
        arrays: The arrays in it with their paths, in JAX's order.
    """

    def __init__(self, values: Any) -> None:
        leaves, self._structure = jax.tree_util.tree_flatten_with_path(values)
        self._leaves = [leaf for _, leaf in leaves]
        self._places = [index for index, leaf in enumerate(self._leaves) if is_array(leaf)]
        self.arrays = [_PlacedArray(name_path(keys), leaf) for keys, leaf in leaves if is_array(leaf)]

    def replace_arrays(self, arrays: Sequence[Any]) -> Any:
        """Return the tree with these arrays in the places of its own."""
        leaves = list(self._leaves)
        for index, array in zip(self._places, arrays, strict=True):
            leaves[index] = array
        return jax.tree_util.tree_unflatten(self._structure, leaves)


def list_items(container: Any) -> list[tuple[str, Any]] | None:
    """Return the values of a mapping or a sequence with the texts of their keys; None for anything else."""
    if isinstance(container, Mapping):
        return [(str(key), value) for key, value in container.items()]
    if isinstance(container, Sequence):
        return [(str(index), value) for index, value in enumerate(container)]
    return None


def name_path(keys: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of the keys of a path in a pytree."""
    return tuple(map(_name_key, keys))


def _name_key(key: Any) -> str:
    """Return the text of one key of a path in a pytree: the name of an attribute, an index, or a mapping's key."""
    for name in ("name", "key", "idx"):
        if hasattr(key, name):
            return str(getattr(key, name)).replace(".", "_")
    return str(key).replace(".", "_")
