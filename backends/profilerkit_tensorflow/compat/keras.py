"""Keras: its state in this thread, and what it leaves on tensors and models."""

from __future__ import annotations

import sys
from typing import Any

from profilerkit.backend_kit.private_names import field

#: What the sigmoid of Keras leaves on its result. Without it its operator shows it, where there is a graph.
_LOGITS = field("_keras_logits")
#: What makes the state of an optimizer of ``tf_keras.optimizers.legacy``. Without it that is not known, and said.
_MAKE_STATE = field("_create_all_weights")
#: Whether XLA compiles a Keras model. Without it a note is left out that changes no number.
_COMPILED = field("_jit_compile")


def find_keras_state() -> Any:
    """Return Keras' module of its state in this thread; None where Keras is not imported, or has it elsewhere."""
    return sys.modules.get(field("keras.src.backend.common.global_state"))


def read_keras_attribute(name: str) -> Any:
    """Return a part of Keras' state in this thread, such as its scopes; None where there is none.

    Without it a profile inside of a scope of Keras is not refused, and an unbuilt model is built with values.
    """
    read = getattr(find_keras_state(), "get_global_attribute", None)
    return None if read is None else read(name)


def find_optimizer_build(optimizer: Any) -> Any:
    """Return the method of an optimizer that makes its state; None where one of ``optimizers.legacy`` has another."""
    return getattr(optimizer, "build", None) or getattr(optimizer, _MAKE_STATE, None)


def is_from_sigmoid(tensor: Any) -> bool:
    """Return whether Keras says of a tensor that a sigmoid has made it."""
    return hasattr(tensor, _LOGITS)


def is_compiled(model: Any) -> bool:
    """Return whether a Keras model is compiled by XLA."""
    return getattr(model, _COMPILED, False) is True
