"""The state of a compiled Keras model's optimizer, with variables of TensorFlow that have no memory."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.keras_optimizers import count_state_bytes

from ..compat.graphs import FuncGraph
from ..compat.keras import find_optimizer_build
from ..model.unallocated import collect_unallocated
from ..untouched.preservation import preserve

__all__ = ["optimizer_state_bytes"]


def optimizer_state_bytes(model: Any) -> int | str:
    """Return the bytes of a compiled model's optimizer state, of Keras 3 or ``tf_keras``, as `count_state_bytes`."""
    return count_state_bytes(model, _make_variables)


def _make_variables(model: Any, optimizer: Any) -> list[Any]:
    """Return the variables that another optimizer with the same settings makes for the model, without values."""
    with preserve(model):
        copy = type(optimizer).from_config(optimizer.get_config())
        with collect_unallocated() as made, FuncGraph("build").as_default():  # it may read the weights
            find_optimizer_build(copy)(model.trainable_variables)
    return made
