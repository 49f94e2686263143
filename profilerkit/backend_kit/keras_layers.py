"""The layers inside of a layer or model of Keras, their names, and the private names of Keras by which they are found.

Keras' private names that several backends need are here, and no others in profilerkit; those of one backend are in its
``compat``.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .keras_kinds import is_keras, is_legacy_keras, is_shipped
from .private_names import field, make_refusal

__all__ = [
    "OF_CALLS",
    "collect_without_values",
    "direct_layers",
    "find_keras_state",
    "flat_layers",
    "hides_its_cell",
    "is_keras_unbuilt",
    "keras_bookkeeping",
    "list_children",
    "list_own_variables",
    "list_seed_states",
    "list_stored_variables",
    "read_input_structure",
    "read_keras_attribute",
    "read_variable_value",
    "set_variable_value",
    "write_settings",
]

#: All layers inside of one. Without it a model of Keras is refused.
_FLATTEN = field("_flatten_layers")
#: The layers right inside of one, in Keras 3. Without it a model is refused.
_INSIDE = field("_layers")
#: In which lists a layer has its own variables. Without one of them a model is refused.
_LISTS = {
    "keras": {"trainable": field("_trainable_variables"), "non_trainable": field("_non_trainable_variables")},
    "tf_keras": {"trainable": field("_trainable_weights"), "non_trainable": field("_non_trainable_weights")},
}
#: The generators of random numbers of a layer of Keras 3. Without them a model is refused.
_SEEDS = field("_seed_generators")
#: What a variable of Keras 3 holds: that of its framework. Without it a model is refused.
_VALUE = field("_value")
#: The state that Keras keeps in each thread. Without it that of an optimizer which is not built is said to be missing.
_STATE = field("keras.src.backend.common.global_state")
#: The variables in that state whose values are made when the outermost stateless scope ends.
_WITHOUT_VALUES = field("uninitialized_variables")
#: The structure of the inputs that a model declares. Without it they are given to the model by their positions.
_STRUCTURES = {"keras": field("_inputs_struct"), "tf_keras": field("_nested_inputs")}
#: Prefixes of Keras' internal attributes, which also hold layers, but under names that are not the user's.
_BOOKS = ("_self_", "_tracker", "_layers", "_inbound", "_outbound", "_functional", "_operations", "_modules")
#: The public attributes that say how one of Keras' own layers was set up.
_SETTINGS = ("filters", "units", "kernel_size", "pool_size", "strides", "dilation_rate", "groups", "padding")
#: Attributes of a Keras layer that lead to its graph, and to what trains it: a forward pass needs none of them. Where
#: they have other names, these are walked too, which takes longer.
_NOT_CALLED = frozenset(
    (
        *("_inbound_nodes", "_outbound_nodes", "_nodes", "_nodes_by_depth", "_operations", "_operations_by_depth"),
        *("optimizer", "_optimizer", "_metrics", "_loss_tracker", "_compile_loss", "_compile_metrics"),
    )
)
#: What Keras keeps in a layer about its calls: of no matter to what it will do.
OF_CALLS: frozenset[str] = frozenset({"_called", "_losses", "_loss_ids", "_tracker"})


def flat_layers(model: Any) -> list[Any]:
    """Return a Keras layer or model and all layers inside of it."""
    return list(_read(model, _FLATTEN, "finds the layers of a model")())


def direct_layers(layer: Any) -> list[Any]:
    """Return the layers directly inside a Keras layer, with input layers and cells."""
    if is_legacy_keras(layer):
        return list(_read(layer, _FLATTEN, "finds the layers of a model")(recursive=False, include_self=False))
    return list(_read(layer, _INSIDE, "finds the layers of a model"))


def list_stored_variables(layer: Any, *lists: str) -> list[Any]:
    """Return the variables in the lists in which Keras stores the layer's own variables."""
    names = _LISTS[_library_of(layer)]
    return [variable for which in lists for variable in _read(layer, names[which], "finds the weights of a layer")]


def list_seed_states(layer: Any) -> list[Any]:
    """Return the variables that the random generators of a layer itself write to."""
    return [generator.state for generator in _read(layer, _SEEDS, "finds the weights of a layer")]


def list_own_variables(layer: Any) -> list[Any]:
    """Return all variables of a layer itself: trained, not trained, and those of its random generators."""
    return [*list_stored_variables(layer, "trainable", "non_trainable"), *list_seed_states(layer)]


def read_variable_value(variable: Any) -> Any:
    """Return what a variable of Keras holds now, in its own dtype, whatever scope is open; None before it has a value.

    On torch and JAX that is an array, on TensorFlow a variable of TensorFlow.
    """
    return _read(variable, _VALUE, "finds the variables of Keras models")


def set_variable_value(variable: Any, value: Any) -> None:
    """Have a variable of Keras hold something else, whatever scope is open."""
    setattr(variable, _VALUE, value)


def read_input_structure(model: Any) -> Any:
    """Return the structure of the inputs that a model declares; None where this release of Keras has none."""
    return getattr(model, _STRUCTURES[_library_of(model)], None)


def _read(layer: Any, name: str, purpose: str) -> Any:
    """Return a private attribute of a layer; raise `NotOfferedError` where this release of Keras has none."""
    try:
        return getattr(layer, name)
    except AttributeError:
        raise make_refusal(_library_of(layer), name, purpose) from None


def _library_of(layer: Any) -> str:
    return "tf_keras" if is_legacy_keras(layer) else "keras"


def keras_bookkeeping(layer: Any) -> frozenset[str]:
    """Return the names of the attributes in which a Keras layer keeps what does not belong to its forward pass."""
    return _NOT_CALLED if is_keras(layer) else frozenset()


def hides_its_cell(layer: Any) -> bool:
    """Return whether a layer is one of Keras' recurrent layers, which are shown as one layer, without the cell."""
    return is_shipped(layer) and hasattr(layer, "cell") and type(layer).__name__ != "RNN"


def is_keras_unbuilt(model: Any) -> bool:
    """Return whether a Keras model lacks variables that its first call would create."""
    return not all(layer.built for layer in flat_layers(model))


def write_settings(layer: Any) -> str:
    """Return the settings of one of Keras' own layers, as torch prints them: "filters=32, kernel_size=(3, 3)"."""
    if not is_shipped(layer):
        return ""
    settings = {name: getattr(layer, name, None) for name in _SETTINGS}
    return ", ".join(f"{name}={value}" for name, value in settings.items() if isinstance(value, (int, str, tuple)))


def list_children(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and layers directly inside a Keras layer; a layer with several names is yielded under each.

    Inside a layer of the user's own class, the names are those of its attributes (``blocks[0]`` in a list); inside a
    layer of Keras, they are the layers' own names. Input layers, which compute nothing, are left out, and so are the
    cells of Keras' recurrent layers.
    """
    if hides_its_cell(layer):
        return
    inside = [child for child in direct_layers(layer) if not _is_input(child)]
    names = {} if is_shipped(layer) else _attribute_names(layer, {id(child) for child in inside})
    yield from _give_names(inside, names)


def _is_input(layer: Any) -> bool:
    return is_shipped(layer) and type(layer).__name__ == "InputLayer"


def _give_names(layers: Sequence[Any], names: Mapping[int, list[str]]) -> Iterator[tuple[str, Any]]:
    """Yield each layer under each of its names, which are given by the layers' ids; without any, under its own."""
    names_in_use: set[str] = set()
    for layer in layers:
        for name in names.get(id(layer)) or [getattr(layer, "name", None) or type(layer).__name__]:
            unique = _make_unique(name.replace(".", "_"), names_in_use)
            names_in_use.add(unique)
            yield unique, layer


def _make_unique(name: str, names_in_use: Collection[str]) -> str:
    """Return a name, with a number if it is in use: ``dense``, ``dense#2``, ``dense#3``."""
    numbered = (f"{name}#{number}" for number in itertools.count(2))
    return next(unique for unique in itertools.chain([name], numbered) if unique not in names_in_use)


def _attribute_names(layer: Any, inside: Collection[int]) -> dict[int, list[str]]:
    """Return, by the ``id`` of each inner layer, the attributes that hold it, also in lists and mappings."""
    names: dict[int, list[str]] = {}

    def look(name: str, value: Any, depth: int) -> None:
        if id(value) in inside:
            names.setdefault(id(value), []).append(name)
        elif depth and isinstance(value, Mapping):
            for key, item in value.items():
                look(f"{name}[{key}]", item, depth - 1)
        elif depth and isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                look(f"{name}[{index}]", item, depth - 1)

    # On torch, `vars` lacks the layers that were set as attributes: modules store these in ``_modules``.
    for name, value in {**vars(layer), **vars(layer).get("_modules", {})}.items():
        if not name.startswith(_BOOKS):
            look(name, value, 3)
    return names


def find_keras_state() -> Any:
    """Return Keras' module of its state in this thread; None where Keras is not imported, or has it elsewhere."""
    return sys.modules.get(_STATE)


def read_keras_attribute(name: str) -> Any:
    """Return a part of Keras' state in this thread, such as its scopes; None where there is none."""
    read = getattr(find_keras_state(), "get_global_attribute", None)
    return None if read is None else read(name)


@contextmanager
def collect_without_values() -> Iterator[list[Any]]:
    """Yield a list that has, at the end, the variables that Keras 3 has made in this context: they have no values.

    Raises `NotOfferedError` where a release of Keras does not show them.
    """
    if not hasattr(find_keras_state(), "get_global_attribute"):
        raise make_refusal("keras", _STATE, "finds the variables that are made without values")
    made: list[Any] = []
    before = set(map(id, read_keras_attribute(_WITHOUT_VALUES) or ()))
    try:
        with sys.modules["keras"].StatelessScope(initialize_variables=False):
            yield made
    finally:  # Keras makes the values of those that are listed at the end of another scope
        listed = read_keras_attribute(_WITHOUT_VALUES) or []
        made += [variable for variable in listed if id(variable) not in before]
        listed[:] = [variable for variable in listed if id(variable) in before]
