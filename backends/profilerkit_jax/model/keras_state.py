"""What a call may change in a Keras model: the values of variables, and the attributes of its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

from profilerkit.backend_kit.keras_layers import (
    flat_layers,
    list_own_variables,
    read_variable_value,
    set_variable_value,
)
from profilerkit.process.restoring import assign_dict

__all__ = ["keras_variables", "save_state"]


def save_state(model: Any) -> Callable[[], None]:
    """Return what puts a Keras model back: variables, the attributes of each layer, and the containers in them."""
    values = [(variable, read_variable_value(variable)) for variable in keras_variables(model)]
    layers = [(layer, dict(vars(layer))) for layer in flat_layers(model)]
    contents: dict[int, tuple[Any, Any]] = {}
    waiting = [value for _, attributes in layers for value in attributes.values()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (list, dict, set, tuple)) and id(value) not in contents:
            contents[id(value)] = value, _copy(value)
            waiting += value.values() if isinstance(value, dict) else value

    def restore() -> None:
        for layer, attributes in layers:
            for name in vars(layer).keys() - attributes.keys():
                object.__delattr__(layer, name)
            for name, value in attributes.items():
                if vars(layer).get(name, restore) is not value:
                    object.__setattr__(layer, name, value)
        for container, copied in contents.values():
            _refill(container, copied)
        for variable, value in values:
            set_variable_value(variable, value)

    return restore


def keras_variables(model: Any) -> list[Any]:
    """Return every variable of a Keras model once, the states of its random generators among them."""
    return list({id(variable): variable for variable in _every_variable(model)}.values())


def _every_variable(model: Any) -> Iterator[Any]:
    for layer in flat_layers(model):
        yield from list_own_variables(layer)


def _copy(container: Any) -> Any:
    """Return what a container holds: its items, or its elements in order."""
    return dict(container) if isinstance(container, dict) else list(container)


def _refill(container: Any, copied: Any) -> None:
    """Put what a container held back, by the methods of the built-in types: those of Keras' own note every change."""
    if isinstance(container, dict):
        assign_dict(container, copied)
    elif isinstance(container, list):
        if len(container) != len(copied) or not all(map(is_, container, copied)):
            list.__setitem__(container, slice(None), copied)
    elif isinstance(container, set) and container != set(copied):
        set.clear(container)
        set.update(container, copied)
