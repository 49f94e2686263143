"""What a variable is to its model: which elements, how many bytes, whether training changes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from .calling import is_keras, is_legacy_keras
from .kinds import own_variables

__all__ = ["Weight", "identity_of", "trainable_variables_of", "weight_of"]


@dataclass(frozen=True, slots=True)
class Weight:
    """One variable of a layer: its name, identity, logical elements, stored bytes and dtype."""

    name: str
    identity: int
    count: int
    bytes: int
    dtype: str


def weight_of(name: str, variable: Any) -> Weight:
    """Read a variable; one without a size yet counts nothing."""
    shape = tuple(variable.shape)
    count = 0 if None in shape else math.prod(int(size) for size in shape)
    dtype = tf.dtypes.as_dtype(variable.dtype)
    return Weight(name, identity_of(variable), count, count * _bits(dtype) // 8, dtype.name)


def identity_of(variable: Any) -> int:
    """Return what is equal for one variable and for what Keras wraps around it."""
    native = None if isinstance(variable, tf.Variable) else getattr(variable, "_value", None)
    return id(variable if native is None else native)


def _bits(dtype: Any) -> int:
    return {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(dtype.name, 8 * int(dtype.size))


def trainable_variables_of(layers: Iterable[tuple[str, Any]], captured: Iterable[Any] = ()) -> list[Any]:
    """Return the variables that training changes.

    A Keras model says itself which these are; of what modules and saved models hold and functions capture, it is those
    that are marked so. ``layers`` are the model's, itself first.
    """
    known = list(layers)
    model = known[0][1]
    if is_keras(model) or is_legacy_keras(model):
        return list(model.trainable_variables)
    held = [variable for _, layer in known for _, variable in own_variables(layer)]
    frozen = {identity_of(v) for _, layer in known for v in _frozen(layer)}
    distinct = {identity_of(variable): variable for variable in (*held, *captured)}
    return [variable for key, variable in distinct.items() if variable.trainable and key not in frozen]


def _frozen(layer: Any) -> Iterator[Any]:
    """Yield the variables that a Keras layer inside another kind of model says are not trained."""
    if is_keras(layer) or is_legacy_keras(layer):
        trained = set(map(identity_of, layer.trainable_variables))
        yield from (variable for variable in layer.variables if identity_of(variable) not in trained)
