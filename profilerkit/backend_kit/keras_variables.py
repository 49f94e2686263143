"""The weights and states of a layer of Keras itself, without those of the layers inside of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .call_stack import tensors_in
from .keras_kinds import is_shipped_class
from .keras_layers import direct_layers, hides_its_cell, list_stored_variables

__all__ = [
    "find_quantization_data",
    "lacks_weights",
    "list_own_states",
    "list_packed_variables",
    "name_own_weights",
    "name_variable",
]

#: Classes of Keras whose own ``build`` makes no weights; nor does that of a layer which merges others.
_PLAIN = ("Layer", "Model", "Sequential", "Functional")
#: Names that Keras gives to what quantization adds to a layer.
_QUANTIZATION_DATA = re.compile(r"(_scales?|_zero|zero_point|_amax_history)$|^g_idx$")


def name_own_weights(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and weights of a Keras layer itself; for a recurrent layer also those of its cell."""
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


def find_quantization_data(variables: Iterable[Any]) -> list[Any]:
    """Return the scales, zero points and histories among variables that Keras made, of which the layers are not known.

    A name such as ``kernel_scale`` is one if the same layer has a kernel of integers, or a history of float8.
    """
    layers: dict[str, list[Any]] = {}
    for variable in variables:
        layers.setdefault(str(getattr(variable, "path", variable.name)).rpartition("/")[0], []).append(variable)
    return [
        variable
        for together in layers.values()
        if any(_is_quantized(one_variable) for one_variable in together)
        for variable in together
        if _QUANTIZATION_DATA.search(name_variable(variable))
    ]


def _is_quantized(variable: Any) -> bool:
    name, dtype = name_variable(variable), getattr(variable.dtype, "name", variable.dtype)
    return name.endswith("_amax_history") or (name in ("kernel", "embeddings", "reverse_embeddings") and "int" in dtype)


def _list_carried_states(layer: Any) -> Iterator[State]:
    """Yield what `list_own_states` does, for a layer without its cells."""
    if getattr(layer, "quantization_mode", None) is not None:
        for variable in list_stored_variables(layer, "trainable", "non_trainable"):
            if _QUANTIZATION_DATA.search(name_variable(variable)):
                yield State(name_variable(variable), variable, is_saved=True)
    # A stateful layer's states are among its variables too: each is told once.
    unsaved = {
        id(variable): variable for variable in (*_list_recurrent_states(layer), *_list_unlisted_variables(layer))
    }
    yield from (State(name_variable(variable), variable, is_saved=False) for variable in unsaved.values())


def _list_recurrent_states(layer: Any) -> list[Any]:
    """Return what a stateful recurrent layer carries from one call to the next."""
    carried = getattr(layer, "states", None) if getattr(layer, "stateful", False) else None
    return list(tensors_in(carried, lambda value: hasattr(value, "assign")))


def _list_unlisted_variables(layer: Any) -> list[Any]:
    """Return the untrained variables that the layer's ``weights`` leave out, as those of random numbers are."""
    untrained = list_stored_variables(layer, "non_trainable")
    weights = {id(weight) for weight in layer.weights} if untrained else set()
    return [variable for variable in untrained if id(variable) not in weights]


def _list_cells(layer: Any) -> list[Any]:
    """Return the layers inside one of Keras' recurrent layers, whose weights count as the layer's own."""
    if not hides_its_cell(layer):
        return []
    return [inside for child in direct_layers(layer) for inside in (child, *direct_layers(child))]


def name_variable(variable: Any) -> str:
    """Return the last part of a variable's name, without the number of its output."""
    return re.sub(r":\d+$", "", str(variable.name)).rpartition("/")[2]


# Weights with two numbers in each element -----------------------------------------------------------------------------


_FOUR_BIT_MODES = ("int4", "gptq", "awq")
#: Where layers keep such kernels.
_PACKED = ("_kernel", "_embeddings", "reverse_embeddings", "quantized_kernel")


def list_packed_variables(layer: Any) -> Iterator[tuple[Any, int]]:
    """Yield the variables of a Keras layer itself that hold two numbers in a byte, with how many numbers they hold."""
    if getattr(layer, "quantization_mode", None) not in _FOUR_BIT_MODES:
        return
    for name in _PACKED:
        variable: Any = getattr(layer, name, None)
        if hasattr(variable, "shape"):
            yield variable, _count_unpacked(layer, name, tuple(variable.shape))


def _count_unpacked(layer: Any, name: str, stored: tuple[int, ...]) -> int:
    """Return how many numbers a packed variable stands for; the number stored where its layer does not record it.

    ``stored`` is its shape. What a layer records may be of another of its variables: it must fit the number stored.
    """
    attributes = vars(layer)
    candidates = []
    for key in ("original_kernel_shape", "kernel_shape"):
        if attributes.get(key):
            candidates.append(math.prod(attributes[key]))
    if name == "reverse_embeddings":
        candidates.append(layer.input_dim * layer.output_dim)
    if attributes.get("_orig_output_dim"):  # of the last axis, before it was packed
        candidates.append(math.prod(stored[:-1]) * int(attributes["_orig_output_dim"]))
    if attributes.get("_orig_input_dim"):  # of the first one
        candidates.append(int(attributes["_orig_input_dim"]) * math.prod(stored[1:]))
    count = math.prod(stored)
    fitting = [candidate for candidate in candidates if count <= candidate <= 2 * count]
    return fitting[0] if fitting else count
