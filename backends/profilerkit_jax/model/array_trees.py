"""Trees of values as JAX sees them: the arrays among their leaves can be replaced, and their paths have names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from .arrays import is_array

__all__ = ["ArrayTree", "list_items", "name_path"]


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
