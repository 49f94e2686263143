"""Keras models on JAX: variables by layers, scopes by the calls of layers, values by a scope without state."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from profilerkit import WithoutValuesError
from profilerkit.backend_kit.call_stack import list_layers
from profilerkit.backend_kit.keras_calls import call_arguments, read_declared_shapes
from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.backend_kit.keras_layers import flat_layers, list_children, read_variable_value
from profilerkit.backend_kit.keras_packing import list_packed_variables
from profilerkit.backend_kit.keras_variables import lacks_weights, own_states, own_variables
from profilerkit.backend_kit.layouts import in_declared_layout
from profilerkit.process.restoring import restored

from .arrays import is_array
from .keras_calls import follow_layers
from .keras_state import list_variables, save_state
from .subject import Leaf, Pass, Subject

__all__ = ["keras_subject"]


class _Variables(NamedTuple):
    """The variables of a model, and the array of each."""

    leaves: list[Leaf]
    variables: list[Any]


def keras_subject(model: Any) -> Subject:
    """Return the subject of a Keras model: what Keras counts as its weights are parameters, statistics too.

    Raises `WithoutValuesError` for a model that is not built: its first call makes its variables.
    """
    name = str(model.name) if is_shipped(model) else type(model).__name__
    if any(map(lacks_weights, flat_layers(model))):
        raise WithoutValuesError(
            f"the Keras model {name} is not built: it has no weights yet. On JAX only its first call makes them; call "
            "it once with real inputs before"
        )
    layers = list_layers(model, list_children)
    leaves, variables = _list_variables(model, layers)
    changing = [variable for leaf, variable in zip(leaves, variables, strict=True) if not leaf.trainable]

    def call(values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass) -> tuple[Any, Any]:
        positional: Sequence[Any] = args
        keywords = kwargs
        if how.function is None:  # otherwise the function calls the model, with arguments of its own choice
            positional, keywords = _arrange_arguments(model, args, kwargs)
            keywords = {"training": how.training, **keywords}
        mapping = list(zip(variables, values, strict=True))
        stateless = sys.modules["keras"].StatelessScope(state_mapping=mapping)
        with restored(save_state(model), in_child=False), stateless as scope, follow_layers(layers, how.marks):
            outputs = how.call(model, positional, keywords)
        return outputs, [scope.get_current_value(variable) for variable in changing]

    types = {"": type(model).__name__, **_name_types(layers)}
    scopes = frozenset(str(layer.name) for layer in flat_layers(model))
    return Subject("keras", name, leaves, call, types, dict(layers), scopes)


def _name_types(layers: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """Return the type of each layer by the first of its paths."""
    first_places: dict[int, tuple[str, Any]] = {}
    for path, layer in layers:
        first_places.setdefault(id(layer), (path, layer))
    return {path: type(layer).__name__ for path, layer in first_places.values()}


def _list_variables(model: Any, layers: Sequence[tuple[str, Any]]) -> _Variables:
    """Return the variables of a model once each; those of random generators count as nothing."""
    trained = {id(variable) for variable in model.trainable_variables}
    collected = _Variables([], [])
    seen: set[int] = set()

    def add(variable: Any, path: tuple[str, ...], **facts: Any) -> None:
        if id(variable) not in seen:
            seen.add(id(variable))
            leaf = Leaf(path, read_variable_value(variable), trainable=id(variable) in trained, **facts)
            collected.leaves.append(leaf)
            collected.variables.append(variable)

    for layer_path, layer in layers:
        keys = tuple(layer_path.split(".")) if layer_path else ()
        packed = {id(variable): count for variable, count in list_packed_variables(layer)}
        for name, variable in own_variables(layer):
            add(variable, (*keys, name), is_parameter=True, numbers=packed.get(id(variable)))
        for name, variable, is_saved in own_states(layer):
            add(variable, (*keys, name), is_parameter=False, persistent=is_saved)
    for index, variable in enumerate(list_variables(model)):
        add(variable, (f"state_{index}",), is_parameter=False, persistent=False, is_counted=False)
    return collected


def _arrange_arguments(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments of a call as Keras takes them; images with the channels first have them last."""
    positional: Sequence[Any] = args
    if not kwargs:
        positional = in_declared_layout(args, read_declared_shapes(model), _find_shape, jax.numpy.transpose)
    return call_arguments(model, positional, kwargs)


def _find_shape(value: Any) -> Sequence[int] | None:
    return tuple(value.shape) if is_array(value) else None
