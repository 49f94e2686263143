"""What goes wrong while a Keras model runs, at the first or the third call of its trap.

The models of `keras_subjects` call `fire` on the way. What counts the calls is an iterator, so that a model that is
handed back as it was goes on counting.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from attack_cases import NO_FAULT
from odd_errors import Custom, Outside, Unspeakable, make_raising, recursion, warn

__all__ = ["FAULTS", "fire", "plant", "pull"]


def _change_a_weight(owner: Any, x: Any) -> None:
    for variable in getattr(owner, "variables", ()):
        variable.assign(variable * 0 + 7)
        break
    raise RuntimeError("after changing a weight")


def _change_attributes(owner: Any, x: Any) -> None:
    if not callable(getattr(owner, "func", owner)) or isinstance(owner, keras.layers.Layer):
        owner.added = [x]
        owner.trainable = not getattr(owner, "trainable", True)
    raise RuntimeError("after changing attributes")


def _change_settings(owner: Any, x: Any) -> None:
    keras.config.set_floatx("float16")
    keras.config.set_dtype_policy("mixed_bfloat16")
    keras.config.set_image_data_format("channels_first")
    keras.utils.set_random_seed(77)
    tf.config.run_functions_eagerly(True)
    tf.config.set_soft_device_placement(not tf.config.get_soft_device_placement())
    tf.config.optimizer.set_jit(True)
    np.seterr(over="ignore")
    raise RuntimeError("after changing settings")


def _bad_gradient(owner: Any, x: Any) -> Any:
    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def passing(y: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            raise RuntimeError("in the backward pass")

        return tf.identity(y), gradient

    return passing(x)


_ACTS: dict[str, Callable[[Any, Any], Any]] = {
    "value error": make_raising(lambda: ValueError("planted")),
    "custom error": make_raising(lambda: Custom(1, two=2)),
    "unspeakable error": make_raising(Unspeakable),
    "interrupt": make_raising(KeyboardInterrupt),
    "exit": make_raising(lambda: SystemExit(3)),
    "outside error": make_raising(Outside),
    "end of iteration": make_raising(StopIteration),
    "out of memory": make_raising(lambda: tf.errors.ResourceExhaustedError(None, None, "planted")),
    "recursion": recursion,
    "weight changed": _change_a_weight,
    "attributes changed": _change_attributes,
    "settings changed": _change_settings,
    "warning as error": warn,
    "in the backward pass": _bad_gradient,
}
FAULTS = [f"{name}@{at}" for at in (1, 3) for name in _ACTS]

#: The fault that is planted: what acts, at which call, and what counts the calls.
_planted: list[tuple[Callable[[Any, Any], Any], int, Iterator[int]]] = []


def plant(fault: str) -> None:
    """Have a fault happen in the trap of whatever model runs."""
    _planted.clear()
    if fault != NO_FAULT:
        name, _, at = fault.partition("@")
        _planted.append((_ACTS[name], int(at), itertools.count(1)))


def pull() -> None:
    """Take the fault away."""
    _planted.clear()


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def fire(owner: Any, x: Any) -> Any:
    """Return what is given, unless a fault is planted and its turn has come."""
    for act, at, calls in _planted:
        if next(calls) == at:
            found = act(owner, x)
            return x if found is None else found
    return x
