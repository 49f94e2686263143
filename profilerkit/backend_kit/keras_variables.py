"""The weights and states of a Keras layer itself, without the layers inside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..arguments.structures import tensors_in
from .keras_children import hides_its_cell
from .keras_kinds import is_shipped_class
from .keras_layers import direct_layers, list_stored_variables
from .keras_quantization import is_quantization_data, name_variable

__all__ = [
    "lacks_weights",
    "list_own_states",
    "name_own_weights",
]

#: Classes of Keras whose own ``build`` makes no weights. Neither does ``build`` of the layers that merge inputs.
_PLAIN = ("Layer", "Model", "Sequential", "Functional")


def name_own_weights(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and weights of a Keras layer itself; for a recurrent layer with the weights of its cell."""
    states = {id(state.variable) for state in _list_carried_states(layer)}
    variables = list_stored_variables(layer, "trainable", "non_trainable")
    yield from ((name_variable(variable), variable) for variable in variables if id(variable) not in states)
    for inside in _list_cells(layer):
        yield from name_own_weights(inside)


def lacks_weights(layer: Any) -> bool:
    """Return whether a layer will make weights in a ``build`` that has not run.

    A layer inside of another may have run, and not be marked as built, until the first call with real inputs.
    """
    if layer.built or any(True for _ in name_own_weights(layer)):
        return False
    build = type(layer).build
    plain = [
        vars(base).get("build") for base in type(layer).__mro__ if base.__name__ in _PLAIN and is_shipped_class(base)
    ]
    return build not in plain and ".layers.merging." not in build.__module__


class State(NamedTuple):
    """A variable of a layer that is no parameter: its name, the variable, and whether the layer saves it."""

    name: str
    variable: Any
    is_saved: bool


def list_own_states(layer: Any) -> Iterator[State]:
    """Yield the variables of a Keras layer itself that are no parameters.

    It saves the scales, zero points and histories of a quantized layer. It does not save the states of a stateful
    recurrent layer, and variables that the layer's ``weights`` leave out.
    """
    yield from _list_carried_states(layer)
    for inside in _list_cells(layer):
        yield from list_own_states(inside)


def _list_carried_states(layer: Any) -> Iterator[State]:
    """Yield the same as `list_own_states` for a layer without its cells."""
    if getattr(layer, "quantization_mode", None) is not None:
        for variable in list_stored_variables(layer, "trainable", "non_trainable"):
            if is_quantization_data(variable):
                yield State(name_variable(variable), variable, is_saved=True)
    # A stateful layer's states are among its variables too: each is told once.
    unsaved = {
        id(variable): variable for variable in (*_list_recurrent_states(layer), *_list_unlisted_variables(layer))
    }
    yield from (State(name_variable(variable), variable, is_saved=False) for variable in unsaved.values())


def _list_recurrent_states(layer: Any) -> list[Any]:
    """Return the states that a stateful recurrent layer carries from one call to the next."""
    carried = getattr(layer, "states", None) if getattr(layer, "stateful", False) else None
    return list(tensors_in(carried, lambda value: hasattr(value, "assign")))


def _list_unlisted_variables(layer: Any) -> list[Any]:
    """Return the untrained variables that the layer's ``weights`` leave out, such as states of random generators."""
    untrained = list_stored_variables(layer, "non_trainable")
    weights = {id(weight) for weight in layer.weights} if untrained else set()
    return [variable for variable in untrained if id(variable) not in weights]


def _list_cells(layer: Any) -> list[Any]:
    """Return the layers inside one of Keras' recurrent layers, whose weights count as the layer's own."""
    if not hides_its_cell(layer):
        return []
    return [inside for child in direct_layers(layer) for inside in (child, *direct_layers(child))]
