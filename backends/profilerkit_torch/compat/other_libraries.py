"""Keras' layers on torch, and configurations of transformers."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.private_names import field

from .names import read_attribute

_VALUE = field("_value")


def _read_keras(owner: Any, name: str) -> Any:
    return read_attribute(owner, name, f"{type(owner).__name__}.{name}", "finds the weights of a layer", "keras")


def list_keras_weights(layer: Any) -> list[Any]:
    """Return the variables of a Keras layer itself that training may change."""
    return list(_read_keras(layer, field("_trainable_variables")))


def list_keras_states(layer: Any) -> list[Any]:
    """Return the variables of a Keras layer itself that it writes to while it runs, those of random numbers too."""
    generators = _read_keras(layer, field("_seed_generators"))
    return [*_read_keras(layer, field("_non_trainable_variables")), *(generator.state for generator in generators)]


def read_keras_value(variable: Any) -> Any:
    """Return the tensor that a variable of Keras' has now, in its own dtype; None before there is any."""
    return _read_keras(variable, _VALUE)


def set_keras_value(variable: Any, value: Any) -> None:
    """Give a variable of Keras' another tensor."""
    setattr(variable, _VALUE, value)


def read_attention(config: Any) -> str:
    """Return by what a model of transformers runs its attention; empty where the configuration does not tell."""
    name = getattr(config, field("_attn_implementation"), "")
    return "eager" if name is None else str(name)


def read_origin(config: Any) -> str:
    """Return the name or folder that a configuration of transformers was read from; empty where it does not tell."""
    return str(getattr(config, field("_name_or_path"), "") or "")


def read_experts(config: Any) -> str:
    """The same for the experts of a model; before transformers 5 that is torch's operators one by one."""
    return str(getattr(config, field("_experts_implementation"), None) or "eager")
