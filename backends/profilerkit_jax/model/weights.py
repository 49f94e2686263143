"""The arrays of a model as records: each belongs to the innermost layer whose path leads to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

import jax

from profilerkit.costs import Shape
from profilerkit.trace.records import WeightRecord

from .subject import Leaf

__all__ = ["constant_records", "weight_records"]

Lists = dict[str, tuple[list[WeightRecord], list[WeightRecord]]]


def weight_records(leaves: Iterable[Leaf], types: Mapping[str, str]) -> Lists:
    """Return the parameters and buffers of each layer. An array that stands in several places is one weight."""
    identities: dict[int, int] = {}
    records: Lists = {}
    for index, leaf in enumerate(leaves):
        if not leaf.is_counted:
            continue
        path = _find_layer(leaf, types)
        name = ".".join(leaf.path[len(path.split(".")) if path else 0 :]) or "value"
        is_shape = isinstance(leaf.value, jax.ShapeDtypeStruct)  # one may stand for many arrays
        identity = index if is_shape else identities.setdefault(id(leaf.value), index)
        trainable = (
            leaf.is_parameter and leaf.trainable and not str(leaf.value.dtype).startswith(("int", "uint", "bool"))
        )
        record = _record(name, identity, leaf.value, trainable, leaf.persistent)
        records.setdefault(path, ([], []))[0 if leaf.is_parameter else 1].append(record)
    return records


def constant_records(constants: Iterable[Any], first: int) -> list[WeightRecord]:
    """Return the arrays that a function holds itself, which are no parameters."""
    return [_record(f"constant_{index}", first + index, value, False, True) for index, value in enumerate(constants)]


def _record(name: str, identity: int, value: Any, trainable: bool, persistent: bool) -> WeightRecord:
    shape, dtype = Shape(int(size) for size in value.shape), value.dtype
    size = shape.numel * int(getattr(dtype, "itemsize", 0))
    return WeightRecord(name, identity, shape.numel, size, str(dtype), trainable, persistent, tuple(shape))


def _find_layer(leaf: Leaf, types: Mapping[str, str]) -> str:
    around = list(accumulate(leaf.path[:-1], lambda outer, inner: f"{outer}.{inner}"))
    return next((path for path in reversed(around) if path in types), "")
