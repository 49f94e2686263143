"""How a model of Keras takes its inputs: the call that it declares, and the one that it understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..declared_inputs import DeclaredInput
from ..inputs import ModelInputs
from .keras_layers import read_input_structure

__all__ = ["call_arguments", "read_declared_call", "read_declared_shapes"]


#: The parameters of Keras' ``call`` of functional and sequential models.
_PARAMETERS = frozenset({"inputs", "training", "mask"})


class CallArguments(NamedTuple):
    """The arguments of a call, by position and by name."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def call_arguments(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallArguments:
    """Return the arguments of a Keras model's call: functional and sequential models take one structure of inputs.

    A model may declare an input that has the name of a parameter, such as ``mask``: then the name stands for the input.
    """
    if not _takes_one_structure(model):
        return CallArguments(args, kwargs)
    parameters = _PARAMETERS - _list_input_names(model)
    options = {name: value for name, value in kwargs.items() if name in parameters and name != "inputs"}
    positional = (*args, kwargs["inputs"]) if "inputs" in kwargs and "inputs" in parameters else tuple(args)
    by_name = {name: value for name, value in kwargs.items() if name not in parameters}
    if by_name and not positional:
        return CallArguments((by_name,), options)
    structure = (list(positional),) if len(positional) > 1 else positional
    return CallArguments(structure, {**by_name, **options})


def read_declared_shapes(model: Any) -> list[tuple[int | None, ...]]:
    """Return the shapes of the inputs that a Keras model declares; an empty list if it declares none."""
    return [tuple(tensor.shape) for tensor in _list_symbolic(model)]


def read_declared_call(model: Any) -> ModelInputs | None:
    """Return the call that a Keras model declares, with a `DeclaredInput` for each tensor; None if it declares none."""
    symbolic = _list_symbolic(model)
    if not symbolic:
        return None
    structure = read_input_structure(model)
    if isinstance(structure, Mapping) and {id(tensor) for tensor in structure.values()} == {*map(id, symbolic)}:
        return ModelInputs(**structure).map(DeclaredInput.of)
    return ModelInputs(*symbolic).map(DeclaredInput.of)  # a structure may be nested, or leave inputs out


def _takes_one_structure(model: Any) -> bool:
    """Return whether a model has the ``call`` of Keras' functional or sequential models."""
    is_graph = any(base.__name__ in ("Functional", "Sequential") for base in type(model).__mro__)
    return is_graph and type(model).call.__module__.partition(".")[0] in ("keras", "tf_keras")


def _list_symbolic(model: Any) -> tuple[Any, ...]:
    """Return the symbolic tensors that a model declares as its inputs; none if it declares none."""
    try:
        return tuple(model.inputs or ())
    except AttributeError:
        return ()


def _list_input_names(model: Any) -> set[str]:
    """Return the names by which Keras takes the inputs of a model: their own, and the keys of a mapping of them."""
    structure = read_input_structure(model)
    return {tensor.name for tensor in _list_symbolic(model)} | set(structure if isinstance(structure, Mapping) else ())
