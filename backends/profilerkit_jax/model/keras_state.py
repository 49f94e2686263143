"""What a call may change in a Keras model, put back: attributes of layers, what containers hold, values of variables.

Containers are those of Python, bytearrays and numpy arrays.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any

import numpy as np

from profilerkit.backend_kit.keras_layers import (
    flat_layers,
    list_own_variables,
    read_variable_value,
    set_variable_value,
)
from profilerkit.process.restoring import assign_dict, for_each

__all__ = ["list_all_variables", "save_state"]

#: Each before its base class. A tuple cannot change; what it holds may.
_CONTAINERS = (list, OrderedDict, dict, set, deque, tuple, bytearray)
#: Larger arrays are not copied.
_MOST_ARRAY_BYTES = 2**20


def save_state(model: Any) -> Callable[[], None]:
    """Return what puts a Keras model back."""
    reached = _list_reached(vars(layer) for layer in flat_layers(model))
    contents = [(value, _copy(value)) for value in reached if isinstance(value, _CONTAINERS)]
    arrays = [(value, value.copy()) for value in reached if _is_small_array(value)]
    values = [(variable, read_variable_value(variable)) for variable in list_all_variables(model)]

    def restore() -> None:
        for_each(_refill, contents)
        for_each(np.copyto, arrays)
        for_each(set_variable_value, values)

    return restore


def list_all_variables(model: Any) -> list[Any]:
    """Return every variable of a Keras model once, the states of its random generators among them."""
    variables = (variable for layer in flat_layers(model) for variable in list_own_variables(layer))
    return list({id(variable): variable for variable in variables}.values())


def _list_reached(values: Iterable[Any]) -> list[Any]:
    """Return values, and what containers among them hold at any depth, each once."""
    reached: dict[int, Any] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if id(value) in reached:
            continue
        reached[id(value)] = value
        if isinstance(value, _CONTAINERS) and not isinstance(value, bytearray):
            waiting += value.values() if isinstance(value, dict) else value
    return list(reached.values())


def _is_small_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.flags.writeable and value.nbytes <= _MOST_ARRAY_BYTES


def _copy(container: Any) -> Any:
    """Return what a container holds, in one of Python's own types."""
    kind: Any = next(kind for kind in _CONTAINERS if isinstance(container, kind))
    return kind(container)


def _refill(container: Any, content: Any) -> None:
    """Give a container its content back, by the methods of Python's own types: those of Keras note every change."""
    if isinstance(content, dict):
        assign_dict(container, content, type(content))
    elif isinstance(content, (list, deque, bytearray)):
        if len(container) != len(content) or not all(map(is_, container, content)):
            kind = type(content)
            kind.clear(container)
            kind.extend(container, content)
    elif isinstance(content, set) and container != content:
        set.clear(container)
        set.update(container, content)
