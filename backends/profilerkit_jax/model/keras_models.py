"""Keras models on JAX: variables by layers, scopes by the calls of layers, values by a scope without state."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax

from profilerkit import WithoutValuesError
from profilerkit.backend_kit.call_stack import CallStack, list_layers
from profilerkit.backend_kit.keras_calls import call_arguments, read_declared_shapes
from profilerkit.backend_kit.keras_children import list_children
from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.backend_kit.keras_layers import flat_layers, read_variable_value
from profilerkit.backend_kit.keras_quantization import list_packed_variables
from profilerkit.backend_kit.keras_variables import lacks_weights, list_own_states, name_own_weights
from profilerkit.backend_kit.layouts import in_declared_layout
from profilerkit.backend_kit.replaced_attributes import follow_calls
from profilerkit.process.locks import Lock
from profilerkit.process.restoring import restored

from .arrays import is_array
from .keras_state import list_all_variables, save_state
from .subject import Leaf, OpenedModel, Pass, Subject, join

__all__ = ["keras_subject"]


class _Placed(NamedTuple):
    """A variable, with its array and its place in the model."""

    variable: Any
    leaf: Leaf


def keras_subject(model: Any) -> Subject:
    """Return the subject of a Keras model: all weights that Keras counts are parameters, statistics too.

    Raises `WithoutValuesError` for a model that is not built: its first call makes its variables.
    """
    name = str(model.name) if is_shipped(model) else type(model).__name__
    if not model.built and any(map(lacks_weights, flat_layers(model))):  # a built model may have layers that it skips
        raise WithoutValuesError(
            f"the Keras model {name} is not built: it has no weights yet. On JAX only its first call makes them; call "
            "it once with real inputs before"
        )
    layers = list_layers(model, list_children)
    placed = _place_variables(model, layers)
    variables, leaves = [variable for variable, _ in placed], [leaf for _, leaf in placed]

    @contextmanager
    def open_scope(values: Sequence[Any], how: Pass) -> Iterator[OpenedModel]:
        values_of_pass = _give_values(variables, values)
        with restored(save_state(model), in_child=False), values_of_pass as scope, _follow_layers(layers, how):
            yield OpenedModel(model, lambda: map(scope.get_current_value, variables))

    first_paths = {id(layer): path for path, layer in reversed(layers)}
    types = {path: type(layer).__name__ for path, layer in layers if first_paths[id(layer)] == path}
    scopes = frozenset(str(layer.name) for layer in flat_layers(model))
    return Subject("keras", name, leaves, open_scope, types, dict(layers), scopes, partial(_arrange_arguments, model))


#: The innermost scope in which variables have the values of a pass, and these variables.
_innermost: ContextVar[tuple[Any, Sequence[Any]]] = ContextVar("profilerkit_jax_keras_values", default=(None, ()))


@contextmanager
def _give_values(variables: Sequence[Any], values: Sequence[Any]) -> Iterator[Any]:
    """Yield a scope in which variables have these values: a scope of Keras without state.

    Keras asks the innermost scope alone, so it has the variables of the scopes around it too, and hands on how they
    have changed.
    """
    outer_scope, outer_variables = _innermost.get()
    outer_values = [outer_scope.get_current_value(variable) for variable in outer_variables]
    all_variables = [*outer_variables, *variables]
    mapping = list(zip(all_variables, [*outer_values, *values], strict=True))
    scope = sys.modules["keras"].StatelessScope(state_mapping=mapping)
    token = _innermost.set((scope, all_variables))
    try:
        with scope:
            yield scope
    finally:
        _innermost.reset(token)
    for variable in outer_variables:
        outer_scope.add_update((variable, scope.get_current_value(variable)))


def _place_variables(model: Any, layers: Sequence[tuple[str, Any]]) -> list[_Placed]:
    """Return the variables of a model once each, in their first places."""
    first: dict[int, _Placed] = {}
    for placed in _list_places(model, layers):
        first.setdefault(id(placed.variable), placed)
    trained = {id(variable) for variable in model.trainable_variables}
    return [
        _Placed(placed.variable, replace(placed.leaf, trainable=number in trained)) for number, placed in first.items()
    ]


def _list_places(model: Any, layers: Sequence[tuple[str, Any]]) -> Iterator[_Placed]:
    """Yield the variables by layers, then those that count as nothing, such as the states of random generators."""
    for layer_path, layer in layers:
        keys = tuple(layer_path.split(".")) if layer_path else ()
        packed = {id(variable): count for variable, count in list_packed_variables(layer)}
        for name, variable in name_own_weights(layer):
            value, numbers = read_variable_value(variable), packed.get(id(variable))
            yield _Placed(variable, Leaf((*keys, name), value, is_parameter=True, numbers=numbers))
        for name, variable, is_saved in list_own_states(layer):
            value = read_variable_value(variable)
            yield _Placed(variable, Leaf((*keys, name), value, is_parameter=False, persistent=is_saved))
    for index, variable in enumerate(list_all_variables(model)):
        path, value = (f"state_{index}",), read_variable_value(variable)
        yield _Placed(variable, Leaf(path, value, is_parameter=False, persistent=False, is_counted=False))


def _arrange_arguments(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], training: bool
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments of a call as Keras takes them; images with the channels first have them last."""
    fitting: Sequence[Any] = args
    if not kwargs:
        fitting = in_declared_layout(args, read_declared_shapes(model), _find_shape, jax.numpy.transpose)
    positional, keywords = call_arguments(model, fitting, kwargs)
    return tuple(positional), {"training": training, **keywords}


def _find_shape(value: Any) -> Sequence[int] | None:
    return tuple(value.shape) if is_array(value) else None


# The scopes of Keras layers: opened by replacing __call__ of their classes --------------------------------------------


#: The classes of Keras are changed while a model is traced, so only one thread does that at a time.
_one_at_a_time = Lock()


@contextmanager
def _follow_layers(layers: Sequence[tuple[str, Any]], how: Pass) -> Iterator[None]:
    """Open the scope of each of these layers that is called in this thread; none without marks."""
    marks = how.marks
    if marks is None:
        yield
        return
    stack, thread = CallStack(layers), threading.get_ident()

    def follow(call: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
        is_ours = threading.get_ident() == thread and stack.knows(layer) and not stack.is_innermost(layer)
        if not is_ours:
            return call(layer, *args, **kwargs)
        stack.begin(layer)
        try:
            return marks.run(
                join(how.prefix, stack.current), layer, lambda: call(layer, *args, **kwargs), (args, kwargs)
            )
        finally:
            stack.end()

    with _one_at_a_time.block(), follow_calls((layer for _, layer in layers), follow):
        yield
