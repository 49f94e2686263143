"""Keras models on JAX: variables by layers, scopes by the calls of layers, values by a scope without state."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import is_
from typing import Any, NamedTuple

import jax

from profilerkit import WithoutValuesError
from profilerkit.backend_kit.call_stack import CallStack, follow_calls, list_layers
from profilerkit.backend_kit.keras_calls import call_arguments, read_declared_shapes
from profilerkit.backend_kit.keras_kinds import is_shipped
from profilerkit.backend_kit.keras_layers import (
    flat_layers,
    list_children,
    list_own_variables,
    read_variable_value,
    set_variable_value,
)
from profilerkit.backend_kit.keras_variables import (
    lacks_weights,
    list_own_states,
    list_packed_variables,
    name_own_weights,
)
from profilerkit.backend_kit.layouts import in_declared_layout
from profilerkit.process.locks import Lock
from profilerkit.process.restoring import assign_dict, restored

from .arrays import is_array
from .scope_names import Marks
from .subject import Leaf, Pass, Subject

__all__ = ["keras_subject", "save_state"]


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
        with restored(save_state(model), in_child=False), stateless as scope, _follow_layers(layers, how.marks):
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
        for name, variable in name_own_weights(layer):
            add(variable, (*keys, name), is_parameter=True, numbers=packed.get(id(variable)))
        for name, variable, is_saved in list_own_states(layer):
            add(variable, (*keys, name), is_parameter=False, persistent=is_saved)
    for index, variable in enumerate(_list_all_variables(model)):
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


# The scopes of Keras layers: opened by replacing __call__ of their classes --------------------------------------------


#: The classes of Keras are changed while a model is traced, so only one thread does that at a time.
_one_at_a_time = Lock()


@contextmanager
def _follow_layers(layers: Sequence[tuple[str, Any]], marks: Marks | None) -> Iterator[None]:
    """Open the scope of each of these layers that is called in this thread; none without marks."""
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
            return marks.run(stack.current, layer, lambda: call(layer, *args, **kwargs), (args, kwargs))
        finally:
            stack.end()

    with _one_at_a_time.block(), follow_calls((layer for _, layer in layers), follow):
        yield


# What a call may change in a Keras model ------------------------------------------------------------------------------


#: A tuple cannot change; what it holds may.
_CONTAINERS = (list, dict, set, deque, tuple)


def save_state(model: Any) -> Callable[[], None]:
    """Return what puts a Keras model back: the attributes of each layer, the containers in them, and variables."""
    layers = list(flat_layers(model))
    containers = _list_containers(value for layer in layers for value in vars(layer).values())
    steps = [
        *[partial(_restore_attributes, layer, dict(vars(layer))) for layer in layers],
        *[partial(_refill, container, _copy(container)) for container in containers],
        *[
            partial(set_variable_value, variable, read_variable_value(variable))
            for variable in _list_all_variables(model)
        ],
    ]

    def restore() -> None:
        for step in steps:
            step()

    return restore


def _list_all_variables(model: Any) -> list[Any]:
    """Return every variable of a Keras model once, the states of its random generators among them."""
    variables = (variable for layer in flat_layers(model) for variable in list_own_variables(layer))
    return list({id(variable): variable for variable in variables}.values())


def _list_containers(values: Iterable[Any]) -> list[Any]:
    """Return the containers among values, and those inside of them at any depth, each once."""
    containers: dict[int, Any] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, _CONTAINERS) and id(value) not in containers:
            containers[id(value)] = value
            waiting += value.values() if isinstance(value, dict) else value
    return list(containers.values())


def _copy(container: Any) -> Any:
    """Return what a container holds, in one of Python's own types."""
    kind: Any = next(kind for kind in _CONTAINERS if isinstance(container, kind))
    return kind(container)


# Attributes are set, and containers filled, by the methods of Python's own types: those of Keras note every change.


def _restore_attributes(layer: Any, attributes: Mapping[str, Any]) -> None:
    now = vars(layer)
    for name in now.keys() - attributes.keys():
        object.__delattr__(layer, name)
    for name, value in attributes.items():
        if name not in now or now[name] is not value:
            object.__setattr__(layer, name, value)


def _refill(container: Any, content: Any) -> None:
    if isinstance(content, dict):
        assign_dict(container, content)
    elif isinstance(content, (list, deque)):
        if len(container) != len(content) or not all(map(is_, container, content)):
            kind = type(content)
            kind.clear(container)
            kind.extend(container, content)
    elif isinstance(content, set) and container != content:
        set.clear(container)
        set.update(container, content)
