"""What the caller has switched on around a profile of TensorFlow that changes its numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.backend_kit.keras_layers import flat_layers
from profilerkit.backend_kit.settings import list_changes

from ..compat.keras import is_compiled
from ..untouched.settings import SETTINGS

__all__ = ["conditions"]


def conditions(model: Any) -> Iterator[str]:
    """Yield what is switched on, in words: a policy of mixed precision, XLA, and functions that run eagerly."""
    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            policy = _name_policy(sys.modules[name])
            if "mixed" in policy:
                yield f"the policy {policy} of {name} for new layers"
    policies = {str(getattr(getattr(layer, "dtype_policy", None), "name", "")) for layer in _list_keras_layers(model)}
    for policy in sorted(name for name in policies if "mixed" in name):
        yield f"layers of the policy {policy}"
    if tf.config.optimizer.get_jit():
        yield "XLA for all functions (tf.config.optimizer.set_jit)"
    # Not the property: reading it settles what "auto" means, and writes that to the model.
    if is_compiled(model):
        yield "jit_compile of the model"
    if tf.config.functions_run_eagerly():
        yield "functions that run eagerly (tf.config.run_functions_eagerly)"
    if getattr(model, "run_eagerly", False) is True:
        yield "run_eagerly of the model"
    yield from list_changes(SETTINGS, counts=True)


def _name_policy(keras: Any) -> str:
    try:
        return str(keras.mixed_precision.global_policy().name)
    except AttributeError:  # a Keras that has no such policies, or keeps them elsewhere
        find = getattr(getattr(keras, "config", None), "dtype_policy", None)
        return str(find().name) if find is not None else ""


def _list_keras_layers(model: Any) -> list[Any]:
    return flat_layers(model) if is_any_keras(model) else []
