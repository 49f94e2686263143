"""What a call may change in a Keras model: the values of variables, and the attributes of its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import is_
from typing import Any

from profilerkit.backend_kit.keras_layers import (
    flat_layers,
    list_own_variables,
    read_variable_value,
    set_variable_value,
)
from profilerkit.process.restoring import assign_dict

__all__ = ["list_variables", "save_state"]

#: A tuple cannot change; what it holds may.
_CONTAINERS = (list, dict, set, tuple)


def save_state(model: Any) -> Callable[[], None]:
    """Return what puts a Keras model back: the attributes of each layer, the containers in them, and variables."""
    layers = list(flat_layers(model))
    containers = _list_containers(value for layer in layers for value in vars(layer).values())
    steps = [
        *[partial(_restore_attributes, layer, dict(vars(layer))) for layer in layers],
        *[partial(_refill, container, _copy(container)) for container in containers],
        *[partial(set_variable_value, variable, read_variable_value(variable)) for variable in list_variables(model)],
    ]

    def restore() -> None:
        for step in steps:
            step()

    return restore


def list_variables(model: Any) -> list[Any]:
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
    elif isinstance(content, list):
        if len(container) != len(content) or not all(map(is_, container, content)):
            list.__setitem__(container, slice(None), content)
    elif isinstance(content, set) and container != content:
        set.clear(container)
        set.update(container, content)
