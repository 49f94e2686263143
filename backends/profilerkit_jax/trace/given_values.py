"""Values that follow from the inputs of a call and small arrays of the program: they decide branches and loops.

They are computed only where a condition depends on them, equation by equation. The model is not run, and no weight is
read: a value that depends on one, or that a loop carries, is not known.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..compat import evaluate
from .values import Value

__all__ = ["compute_elements", "is_small", "note_computable"]

#: The most elements of a value that is computed.
_LARGEST = 1 << 20
#: The most elements of an array of the program from which values are computed.
_LARGEST_STORED = 1 << 10


def is_small(stored: Any) -> bool:
    """Return whether values may be computed from an array that the program holds."""
    return bool(math.prod(stored.shape) <= _LARGEST_STORED)


def note_computable(equation: Any, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
    """Let the outputs of an equation be computed, if its inputs can be; not if it has an effect, or draws numbers."""
    is_random = equation.primitive.name.startswith(("random_", "rng_", "threefry"))
    is_unknown = any(value.compute is None and value.scalar is None for value in inputs)
    if equation.effects or is_random or is_unknown:
        return
    run = functools.cache(functools.partial(_run, equation, inputs))  # it runs once, for all outputs
    for index, value in enumerate(outputs):
        if value.compute is None and value.scalar is None and value.shape.numel <= _LARGEST:
            value.compute = functools.partial(_take, run, index)


def _run(equation: Any, inputs: Sequence[Value]) -> Sequence[Any]:
    # A GPU raises an error only when the results are requested.
    outputs: Sequence[Any] = jax.block_until_ready(evaluate(equation, [_compute(value) for value in inputs]))
    return outputs


def _take(run: Callable[[], Sequence[Any]], index: int) -> Any:
    return run()[index]


def compute_elements(value: Value) -> Any:
    """Return the elements of a value; None if they are not known before the model runs."""
    if value.scalar is None and value.compute is None:
        return None
    try:
        return _compute(value)
    except MemoryError:
        raise
    except Exception:  # a primitive that cannot be run by itself, or a chain of equations beyond Python's stack
        return None


def _compute(value: Value) -> Any:
    if value.compute is not None:
        return value.compute()
    return jnp.full(tuple(value.shape), value.scalar, value.dtype)
