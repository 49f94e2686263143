"""What is read of the values of weights: zeros, and whether they were changed; and the bytes of optax's optimizers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any
from weakref import ref

import jax
import numpy as np

from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.error_text import shown
from profilerkit.trace.records import WeightRecord, distinct

from .arrays import is_float, nonzero
from .subject import Subject

__all__ = ["Fingerprint", "fingerprint", "optimizer_bytes", "zero_weights"]


def zero_weights(subject: Subject) -> tuple[int, int]:
    """Return how many elements of the float parameters are zero, and how many there are; tied ones count once.

    Raises `WithoutValuesError` if the parameters have no values.
    """
    subject.require_values()
    arrays = {id(leaf.value): leaf.value for leaf in subject.leaves if leaf.is_parameter and is_float(leaf.value)}
    zeros = sum(int(np.prod(value.shape)) - nonzero(value) for value in arrays.values())
    return zeros, sum(int(np.prod(value.shape)) for value in arrays.values())


class Fingerprint:
    """Arrays as they are now: JAX never changes an array, so a weight is the same while it is the same object."""

    def __init__(self, facts: Sequence[tuple[Any, ...]]) -> None:
        self._facts = list(facts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self._facts == other._facts

    __hash__ = None  # type: ignore[assignment]


def fingerprint(subject: Subject, values: bool) -> Fingerprint:
    """Return what changes with the parameters; without ``values``, with their shapes and dtypes alone."""
    facts: list[tuple[Any, ...]] = []
    for leaf in subject.leaves:
        if not leaf.is_parameter:
            continue
        fact: tuple[Any, ...] = (leaf.path, tuple(leaf.value.shape), str(leaf.value.dtype))
        if values:
            is_numpy = isinstance(leaf.value, np.ndarray)
            fact += (zlib.crc32(leaf.value.tobytes()),) if is_numpy else (_Identity(leaf.value),)
        facts.append(fact)
    return Fingerprint(facts)


class _Identity:
    """Equal for the same array alone; keeps none alive."""

    def __init__(self, value: Any) -> None:
        self._reference = ref(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity):
            return False
        mine = self._reference()
        return mine is not None and mine is other._reference()

    __hash__ = None  # type: ignore[assignment]


def optimizer_bytes(optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
    """Return the bytes that an optimizer of optax stores for weights, found on shapes alone; or why not."""
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        return f"the state of {shown(optimizer)}: it is no optimizer of optax, which has init and update"
    shapeless = [weight.name for weight in weights if weight.trainable and int(np.prod(weight.shape)) != weight.count]
    if shapeless:
        return f"the state of the optimizer for weights of unknown shape ({', '.join(shapeless[:5])})"
    trained = [weight for weight in distinct(weights) if weight.trainable]
    parameters = [jax.ShapeDtypeStruct(weight.shape, jax.numpy.dtype(weight.dtype)) for weight in trained]
    state = jax.eval_shape(optimizer.init, parameters)
    return OptimizerBytes(sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)))
