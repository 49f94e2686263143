"""Keras models on JAX: variables by layers, scopes by the calls of layers, values by a scope without state."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import jax

from profilerkit import WithoutValuesError
from profilerkit.backend_kit.call_stack import CallStack, list_layers
from profilerkit.backend_kit.keras_layers import (
    call_arguments,
    is_keras_unbuilt,
    is_shipped,
    list_children,
    own_states,
    own_variables,
    read_declared_shapes,
)
from profilerkit.backend_kit.layouts import in_declared_layout
from profilerkit.process.locks import Lock
from profilerkit.process.restoring import restored

from ..compat import flat_layers, read_value
from .arrays import is_array
from .keras_state import as_it_is, keras_variables
from .scope_names import Marks
from .subject import Leaf, Pass, Subject

__all__ = ["keras_subject"]

#: The classes of Keras are changed while a model is traced, so only one thread does that at a time.
_one_at_a_time = Lock()


def keras_subject(model: Any) -> Subject:
    """Return the subject of a Keras model: what Keras counts as its weights are parameters, statistics too.

    Raises `WithoutValuesError` for a model that is not built: its first call makes its variables.
    """
    name = str(model.name) if is_shipped(model) else type(model).__name__
    if is_keras_unbuilt(model):
        raise WithoutValuesError(
            f"the Keras model {name} is not built: it has no weights yet. On JAX only its first call makes them; call "
            "it once with real inputs before"
        )
    named = list_layers(model, list_children)
    leaves, variables = _leaves(model, named)
    changing = [index for index, leaf in enumerate(leaves) if not leaf.trainable]

    def call(values: Sequence[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], how: Pass) -> tuple[Any, Any]:
        positional: Sequence[Any] = args
        if how.function is None:
            positional, named_ones = _as_keras_calls(model, args, kwargs)
            kwargs = {"training": how.training, **named_ones}
        mapping = list(zip(variables, values, strict=True))
        stateless = sys.modules["keras"].StatelessScope(state_mapping=mapping)
        with restored(as_it_is(model), in_child=False), stateless as scope, _follow_layers(named, how.marks):
            outputs = how.call(model, positional, kwargs)
        return outputs, [scope.get_current_value(variables[index]) for index in changing]

    layers: dict[str, Any] = dict(named)
    first: dict[int, str] = {}
    for path, layer in named:
        first.setdefault(id(layer), path)
    types = {path: type(layer).__name__ for path, layer in named if first[id(layer)] == path}
    scopes = frozenset(str(layer.name) for layer in flat_layers(model))
    return Subject("keras", name, leaves, call, {**types, "": type(model).__name__}, layers, scopes)


def _leaves(model: Any, named: Sequence[tuple[str, Any]]) -> tuple[list[Leaf], list[Any]]:
    """Return the arrays of a model and the variables that hold them; those of random generators count as nothing."""
    trained = {id(variable) for variable in model.trainable_variables}
    leaves: list[Leaf] = []
    variables: list[Any] = []
    met: set[int] = set()

    def add(variable: Any, keys: tuple[str, ...], **facts: Any) -> None:
        if id(variable) not in met:
            met.add(id(variable))
            leaves.append(Leaf(keys, read_value(variable), trainable=id(variable) in trained, **facts))
            variables.append(variable)

    for path, layer in named:
        keys = tuple(path.split(".")) if path else ()
        for name, variable in own_variables(layer):
            add(variable, (*keys, name), is_parameter=True)
        for name, variable, is_saved in own_states(layer):
            add(variable, (*keys, name), is_parameter=False, persistent=is_saved)
    for index, variable in enumerate(keras_variables(model)):
        add(variable, (f"state_{index}",), is_parameter=False, persistent=False, is_counted=False)
    return leaves, variables


def _as_keras_calls(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments of a call as Keras takes them; images with the channels first have them last."""
    positional: Sequence[Any] = args
    if not kwargs:
        positional = in_declared_layout(args, read_declared_shapes(model), _find_shape, jax.numpy.transpose)
    return call_arguments(model, positional, kwargs)


def _find_shape(value: Any) -> Sequence[int] | None:
    return tuple(value.shape) if is_array(value) else None


@contextmanager
def _follow_layers(named: Sequence[tuple[str, Any]], marks: Marks | None) -> Iterator[None]:
    """Open the scope of each layer that is called in this thread, by replacing ``__call__`` of their classes."""
    if marks is None:
        yield
        return
    stack, thread = CallStack(named), threading.get_ident()

    def follow(call: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
        is_ours = threading.get_ident() == thread and stack.knows(layer) and not stack.is_innermost(layer)
        if not is_ours:
            return call(layer, *args, **kwargs)
        stack.begin(layer)
        try:
            return marks.run(stack.current, layer, lambda: call(layer, *args, **kwargs), (args, kwargs))
        finally:
            stack.end()

    classes = {next(cls for cls in type(layer).__mro__ if "__call__" in cls.__dict__) for _, layer in named}
    with _one_at_a_time, ExitStack() as patches:
        for cls in classes:
            patches.enter_context(_patch(cls, follow))
        yield


@contextmanager
def _patch(cls: type, follow: Callable[..., Any]) -> Iterator[None]:
    original = cls.__dict__["__call__"]

    def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
        return follow(original, layer, args, kwargs)

    __call__.__wrapped__ = original  # type: ignore[attr-defined]
    with restored(partial(type.__setattr__, cls, "__call__", original)):
        type.__setattr__(cls, "__call__", __call__)
        yield
