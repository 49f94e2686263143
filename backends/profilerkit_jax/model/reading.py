"""Numbers of a model's parameters that no pass over it is needed for: their zeros, and what an optimizer stores."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax

from profilerkit.backend_kit.optimizers import OptimizerBytes
from profilerkit.error_text import shown
from profilerkit.trace.records import WeightRecord, distinct

from .arrays import count_nonzero, is_float
from .subject import Subject

__all__ = ["optimizer_bytes", "zero_weights"]


def zero_weights(subject: Subject) -> tuple[int, int]:
    """Return how many elements of the float parameters are zero, and how many there are; tied ones count once.

    Raises `WithoutValuesError` if the parameters have no values.
    """
    subject.require_values()
    parameters = [leaf.value for leaf in subject.leaves if leaf.is_parameter and is_float(leaf.value)]
    arrays = {id(array): array for array in parameters}.values()
    total = sum(prod(array.shape) for array in arrays)
    return total - sum(count_nonzero(array) for array in arrays), total


def optimizer_bytes(optimizer: Any, weights: Sequence[WeightRecord]) -> OptimizerBytes | str:
    """Return the bytes that an optimizer of optax stores for weights, found on shapes alone; or why not."""
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        return f"the state of {shown(optimizer)}: it is no optimizer of optax, which has init and update"
    shapeless = [weight.name for weight in weights if weight.trainable and prod(weight.shape) != weight.count]
    if shapeless:
        return f"the state of the optimizer for weights of unknown shape ({', '.join(shapeless[:5])})"
    trained = [weight for weight in distinct(weights) if weight.trainable]
    parameters = [jax.ShapeDtypeStruct(weight.shape, jax.numpy.dtype(weight.dtype)) for weight in trained]
    state = jax.eval_shape(optimizer.init, parameters)
    return OptimizerBytes(sum(prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)))
