"""Keras: its private attributes of models and optimizers."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.private_names import field

#: Makes the state of an optimizer of ``tf_keras.optimizers.legacy``. Without it the state is reported as unknown.
_MAKE_STATE = field("_create_all_weights")
#: Whether XLA compiles a Keras model. Without it a note is left out that changes no number.
_COMPILED = field("_jit_compile")


def find_optimizer_build(optimizer: Any) -> Any:
    """Return the method of an optimizer that makes its state; None if ``optimizers.legacy`` has another method."""
    return getattr(optimizer, "build", None) or getattr(optimizer, _MAKE_STATE, None)


def is_compiled(model: Any) -> bool:
    """Return whether a Keras model is compiled by XLA."""
    return getattr(model, _COMPILED, False) is True
