"""The state of a Keras model, to restore it after a call: attributes of layers, containers, values of variables.

Beside Python's containers, the attributes of the user's objects are restored, and arrays, buffers of bytes and
generators of random numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from profilerkit.backend_kit.keras_layers import (
    flat_layers,
    list_own_variables,
    read_variable_value,
    set_variable_value,
)
from profilerkit.process.containers import CONTAINERS, refill
from profilerkit.process.inner_states import note_inner_state
from profilerkit.process.object_facts import copy_content, is_installed
from profilerkit.process.restoring import call_each, for_each

__all__ = ["list_all_variables", "save_state"]


def save_state(model: Any) -> Callable[[], None]:
    """Return a function that restores a Keras model."""
    reached = _list_reached(vars(layer) for layer in flat_layers(model))
    contents = [(value, copy_content(value)) for value in reached if isinstance(value, CONTAINERS)]
    states = [step for value in reached if (step := note_inner_state(value)) is not None]
    values = [(variable, read_variable_value(variable)) for variable in list_all_variables(model)]

    def restore() -> None:
        for_each(refill, contents)
        call_each(states)
        for_each(set_variable_value, values)

    return restore


def list_all_variables(model: Any) -> list[Any]:
    """Return every variable of a Keras model once, the states of its random generators among them."""
    variables = (variable for layer in flat_layers(model) for variable in list_own_variables(layer))
    return list({id(variable): variable for variable in variables}.values())


def _list_reached(values: Iterable[Any]) -> list[Any]:
    """Return values, the items of containers and of arrays of objects among them, and the attributes of the user's.

    They are followed at any depth; each comes once.
    """
    reached: dict[int, Any] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if id(value) in reached:
            continue
        reached[id(value)] = value
        if isinstance(value, (*CONTAINERS, tuple)):  # a tuple cannot change; its items may
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, np.ndarray) and value.dtype.hasobject:
            waiting += value.flat
        elif hasattr(value, "__dict__") and _is_users_own(type(value)):
            waiting.append(vars(value))
    return list(reached.values())


def _is_users_own(kind: type) -> bool:
    """Return whether a class is of the user's code: neither of Python nor of an installed package."""
    return kind.__module__.partition(".")[0] not in sys.stdlib_module_names and not is_installed(kind)
