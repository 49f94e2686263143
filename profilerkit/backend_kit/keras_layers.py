"""The contents of Keras layers and models, and Keras' own state, read by Keras' private names.

Private names that several backends need are here and nowhere else; those of one backend are in its ``compat``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .keras_kinds import is_keras, is_legacy_keras
from .private_names import field, make_refusal

__all__ = [
    "OF_CALLS",
    "PACKED_KERNELS",
    "UNPACKED_LENGTHS",
    "collect_without_values",
    "direct_layers",
    "find_keras_state",
    "flat_layers",
    "is_keras_unbuilt",
    "keras_bookkeeping",
    "list_own_variables",
    "list_seed_states",
    "list_stored_variables",
    "list_user_attributes",
    "read_input_structure",
    "read_keras_attribute",
    "read_variable_value",
    "set_variable_value",
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
#: The value of a Keras 3 variable, an object of its framework. Without this name a model is refused.
_VALUE = field("_value")
#: The state that Keras keeps in each thread. Without this name, the state of an unbuilt optimizer is named as missing.
_STATE = field("keras.src.backend.common.global_state")
#: The variables in that state whose values are made when the outermost stateless scope ends. Without this name, a model
#: that is not built is refused.
_WITHOUT_VALUES = field("uninitialized_variables")
#: The structure of the inputs that a model declares. Without it they are given to the model by their positions.
_STRUCTURES = {"keras": field("_inputs_struct"), "tf_keras": field("_nested_inputs")}
#: Prefixes of Keras' internal attributes, which also hold layers, but under names that are not the user's.
_BOOKS = ("_self_", "_tracker", "_layers", "_inbound", "_outbound", "_functional", "_operations", "_modules")
#: Where quantized layers keep kernels with two numbers in a byte. Of one with another name, the bytes are counted.
PACKED_KERNELS = ("_kernel", "_embeddings", "reverse_embeddings", "quantized_kernel")
#: Where they keep the length that an axis of such a kernel had before it was packed, with that axis.
UNPACKED_LENGTHS = {"_orig_output_dim": -1, "_orig_input_dim": 0}
#: Attributes of a Keras layer that lead to its graph, and to its optimizer and metrics: a forward pass needs none of
#: them. If they have other names, they are walked too, which takes longer.
_NOT_CALLED = frozenset(
    (
        *("_inbound_nodes", "_outbound_nodes", "_nodes", "_nodes_by_depth", "_operations", "_operations_by_depth"),
        *("optimizer", "_optimizer", "_metrics", "_loss_tracker", "_compile_loss", "_compile_metrics"),
    )
)
#: Attributes in which Keras notes the calls of a layer: they do not affect later calls.
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
    names = _LISTS[_name_library(layer)]
    return [variable for which in lists for variable in _read(layer, names[which], "finds the weights of a layer")]


def list_seed_states(layer: Any) -> list[Any]:
    """Return the variables that the random generators of a layer itself write to."""
    return [generator.state for generator in _read(layer, _SEEDS, "finds the weights of a layer")]


def list_own_variables(layer: Any) -> list[Any]:
    """Return all variables of a layer itself: trained, not trained, and of its random generators."""
    return [*list_stored_variables(layer, "trainable", "non_trainable"), *list_seed_states(layer)]


def read_variable_value(variable: Any) -> Any:
    """Return the present value of a Keras variable, in its own dtype, whatever scope is open; None if it has none yet.

    On torch and JAX that is an array, on TensorFlow a variable of TensorFlow.
    """
    return _read(variable, _VALUE, "finds the variables of Keras models")


def set_variable_value(variable: Any, value: Any) -> None:
    """Have a variable of Keras hold something else, whatever scope is open."""
    setattr(variable, _VALUE, value)


def read_input_structure(model: Any) -> Any:
    """Return the structure of the inputs that a model declares; None where this release of Keras has none."""
    return getattr(model, _STRUCTURES[_name_library(model)], None)


def _read(layer: Any, name: str, purpose: str) -> Any:
    """Return a private attribute of a layer; raise `NotOfferedError` where this release of Keras has none."""
    try:
        return getattr(layer, name)
    except AttributeError:
        raise make_refusal(_name_library(layer), name, purpose) from None


def _name_library(layer: Any) -> str:
    return "tf_keras" if is_legacy_keras(layer) else "keras"


def keras_bookkeeping(layer: Any) -> frozenset[str]:
    """Return the names of the attributes of a Keras layer that do not belong to its forward pass."""
    return _NOT_CALLED if is_keras(layer) else frozenset()


def list_user_attributes(layer: Any) -> dict[str, Any]:
    """Return the attributes of a layer by their names, without Keras' internal ones."""
    # On torch, `vars` lacks the layers that were set as attributes: modules store these in ``_modules``.
    attributes = {**vars(layer), **vars(layer).get("_modules", {})}
    return {name: value for name, value in attributes.items() if not name.startswith(_BOOKS)}


def is_keras_unbuilt(model: Any) -> bool:
    """Return whether a Keras model lacks variables that its first call would create."""
    return not all(layer.built for layer in flat_layers(model))


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
    purpose = "finds the variables that are made without values"
    if not hasattr(find_keras_state(), "get_global_attribute"):
        raise make_refusal("keras", _STATE, purpose)
    keras = sys.modules["keras"]
    made: list[Any] = []
    before = set(map(id, read_keras_attribute(_WITHOUT_VALUES) or ()))
    try:
        with keras.StatelessScope(initialize_variables=False):
            # A release that lists such variables lists this one.
            keras.Variable("zeros", shape=(), name="first")
            if read_keras_attribute(_WITHOUT_VALUES) is None:
                raise make_refusal("keras", _WITHOUT_VALUES, purpose)
            yield made
    finally:  # Keras makes the values of listed variables at the end of another scope
        listed = read_keras_attribute(_WITHOUT_VALUES) or []
        made += [variable for variable in listed if id(variable) not in before][1:]
        listed[:] = [variable for variable in listed if id(variable) in before]
