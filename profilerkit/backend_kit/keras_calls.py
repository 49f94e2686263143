"""How a model of Keras takes its inputs: the call that it declares, and the one that it understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .keras_layers import read_input_structure

__all__ = ["call_arguments", "read_declared_call", "read_declared_shapes"]


def call_arguments(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments of a Keras model's call: functional and sequential models take one structure of inputs."""
    if not any(base.__name__ in ("Functional", "Sequential") for base in type(model).__mro__):
        return args, kwargs
    if type(model).call.__module__.partition(".")[0] not in ("keras", "tf_keras"):  # a call of the user's own
        return args, kwargs
    settings = {name: value for name, value in kwargs.items() if name in ("training", "mask")}
    named = {name: value for name, value in kwargs.items() if name not in ("training", "mask", "inputs")}
    if "inputs" in kwargs:
        args = (*args, kwargs["inputs"])
    if not args and named:
        return (named,), settings
    return (list(args),) if len(args) > 1 else args, {**named, **settings}


def read_declared_shapes(model: Any) -> list[tuple[int | None, ...]]:
    """Return the shapes of the inputs that a Keras model declares; an empty list if it declares none."""
    try:
        symbolic = model.inputs
    except AttributeError:
        return []
    return [tuple(tensor.shape) for tensor in symbolic or ()]


def read_declared_call(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the symbolic tensors that a Keras model declares as its inputs: positional ones, and keyword ones."""
    try:
        symbolic = tuple(model.inputs or ())
    except AttributeError:
        return (), {}
    structure = read_input_structure(model)
    if isinstance(structure, Mapping) and {id(value) for value in structure.values()} == set(map(id, symbolic)):
        return (), dict(structure)
    return symbolic, {}
