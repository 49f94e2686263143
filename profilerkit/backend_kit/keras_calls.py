"""How a model of Keras takes its inputs: the call that it declares, and the one that it understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..declared_inputs import DeclaredInput
from ..inputs import ModelInputs
from .keras_layers import read_input_structure

__all__ = ["call_arguments", "read_declared_call", "read_declared_shapes"]


class CallArguments(NamedTuple):
    """The arguments of a call, by position and by name."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def call_arguments(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallArguments:
    """Return the arguments of a Keras model's call: functional and sequential models take one structure of inputs."""
    takes_one_structure = any(base.__name__ in ("Functional", "Sequential") for base in type(model).__mro__)
    if not takes_one_structure:
        return CallArguments(args, kwargs)
    has_own_call = type(model).call.__module__.partition(".")[0] not in ("keras", "tf_keras")
    if has_own_call:
        return CallArguments(args, kwargs)
    settings = {name: value for name, value in kwargs.items() if name in ("training", "mask")}
    named = {name: value for name, value in kwargs.items() if name not in ("training", "mask", "inputs")}
    positional = (*args, kwargs["inputs"]) if "inputs" in kwargs else args
    if not positional and named:
        return CallArguments((named,), settings)
    if len(positional) > 1:
        positional = (list(positional),)
    return CallArguments(positional, {**named, **settings})


def read_declared_shapes(model: Any) -> list[tuple[int | None, ...]]:
    """Return the shapes of the inputs that a Keras model declares; an empty list if it declares none."""
    try:
        symbolic = model.inputs
    except AttributeError:
        return []
    return [tuple(tensor.shape) for tensor in symbolic or ()]


def read_declared_call(model: Any) -> ModelInputs | None:
    """Return the call that a Keras model declares, with a `DeclaredInput` for each tensor; None if it declares none."""
    try:
        symbolic = tuple(model.inputs or ())
    except AttributeError:
        return None
    structure = read_input_structure(model)
    if isinstance(structure, Mapping) and {id(value) for value in structure.values()} == set(map(id, symbolic)):
        return ModelInputs(**structure).map(DeclaredInput.of) if structure else None
    return ModelInputs(*symbolic).map(DeclaredInput.of) if symbolic else None
