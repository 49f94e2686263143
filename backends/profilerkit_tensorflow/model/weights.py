"""The weights of a model: the variables that are its parameters, and those of them that training changes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_any_keras, is_layer_class
from profilerkit.backend_kit.keras_layers import direct_layers, flat_layers
from profilerkit.backend_kit.keras_variables import lacks_weights

from ..compat.saved_models import is_saved_model
from ..untouched.held_state import Follow, HeldState
from .kinds import TRACED_FUNCTIONS, is_function, list_layers, name_own_weights
from .stored_variables import find_id, holds_random_state, identify, keras_variable_classes

__all__ = ["ModelParts", "describe_unmade_weights", "list_trainable_variables", "list_weights"]

#: Classes whose variables are no parameters, by their packages.
_NO_PARAMETERS = {
    "keras": ("Metric", "Optimizer", "random.SeedGenerator"),
    "tf_keras": ("metrics.Metric", "optimizers.Optimizer", "optimizers.legacy.Optimizer"),
    "tensorflow": ("random.Generator",),
}


def list_weights(model: Any) -> list[Any]:
    """Return the variables, of TensorFlow or Keras, that are the parameters of a model, each once.

    A Keras layer has its ``weights``; a module the variables and Keras layers that its attributes lead to; a function
    the variables that it names, closes over or captured when it was traced; a loaded SavedModel its ``variables``. The
    states of random generators are no parameters, nor are the variables of metrics and optimizers. A layer that is not
    built yet has no parameters.
    """
    parts = ModelParts(model)
    of_layers = (variable for layer in parts.layers for variable in _read_weight_list(layer, "weights"))
    weights = {find_id(variable): variable for variable in of_layers}
    no_weights = {find_id(variable) for holder in parts.without_weights for variable in _list_variables(holder)}
    for variable in parts.variables_beside:
        if find_id(variable) not in no_weights and not holds_random_state(variable):
            weights.setdefault(find_id(variable), variable)
    return list(weights.values())


def _list_variables(holder: Any) -> list[Any]:
    variables = getattr(holder, "variables", ())
    return list(variables() if callable(variables) else variables)


def list_trainable_variables(layers: Iterable[tuple[str, Any]], captured: Iterable[Any] = ()) -> list[Any]:
    """Return the variables that training changes.

    A Keras model lists them; of the variables of modules and saved models, and of captures of functions, they are the
    variables marked as trainable. ``layers`` are the model's layers, the model itself first.
    """
    named = list(layers)
    model = named[0][1]
    if is_any_keras(model):
        return _read_weight_list(model, "trainable_weights")
    variables = [variable for _, layer in named for _, variable in name_own_weights(layer)]
    frozen = {identify(v) for _, layer in named for v in _list_frozen(layer)}
    distinct = {identify(variable): variable for variable in (*variables, *captured)}
    return [variable for key, variable in distinct.items() if variable.trainable and key not in frozen]


def _list_frozen(layer: Any) -> Iterator[Any]:
    """Yield the variables that a Keras layer inside another kind of model lists as not trainable."""
    if is_any_keras(layer):
        trained = set(map(identify, _read_weight_list(layer, "trainable_weights")))
        yield from (variable for variable in _read_weight_list(layer, "weights") if identify(variable) not in trained)


def _read_weight_list(layer: Any, which: str) -> list[Any]:
    """Return the weights that a Keras layer lists under a name, ``trainable_weights`` for instance."""
    try:
        return list(getattr(layer, which))
    except ValueError:  # tf_keras raises it for a model that is not built
        return [variable for child in direct_layers(layer) for variable in _read_weight_list(child, which)]


def describe_unmade_weights(model: Any) -> str:
    """Return in words which Keras layers have no weights before the model's first call; empty if all have theirs."""
    inside = {id(layer): layer for outer in _list_keras_layers(model) for layer in flat_layers(outer)}
    names = [layer.name for layer in inside.values() if lacks_weights(layer)]
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"the weights of {shown}, which the first call makes: give inputs or input_shape"


def _list_keras_layers(model: Any) -> list[Any]:
    """Return the Keras layers of a model: the model itself, layers inside a module, or layers that a function names."""
    if is_any_keras(model):
        return [model]
    if is_function(model):
        return ModelParts(model).layers
    return [layer for _, layer in list_layers(model) if is_any_keras(layer)]


class ModelParts(HeldState):
    """The outermost Keras layers of a model, and the variables beside them.

    Attributes:
        layers: The layers; the layers inside them are not followed.
        variables_beside: The variables that no layer holds.
        without_weights: The metrics, optimizers and generators, whose variables are no parameters.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.layers: list[Any] = []
        self.variables_beside: list[Any] = []
        self.without_weights: list[Any] = []
        self._root = model
        self._no_parameters = tuple(_list_loaded_classes())
        declared = getattr(model, "variables", None) if is_saved_model(model) else None
        self.visit(*([model] if declared is None else declared))

    def find_follow(self, kind: type) -> Follow | None:
        """Return how objects of a class are followed: layers, variables and objects without parameters are noted."""
        if issubclass(kind, self._no_parameters):
            return self._note_in(self.without_weights)
        if is_layer_class(kind):
            return self._note_in(self.layers)
        if issubclass(kind, (tf.Variable, *keras_variable_classes())):
            return self._note_in(self.variables_beside)
        # A module's functions may capture variables of others, such as the state of the optimizer of its training step.
        if issubclass(kind, TRACED_FUNCTIONS) and not isinstance(self._root, TRACED_FUNCTIONS):
            return None
        return super().find_follow(kind)

    def _note_in(self, parts: list[Any]) -> Follow:
        """Return a function that notes an object among these, and does not follow it."""

        def note(value: Any) -> Iterable[Any]:
            parts.append(value)
            return ()

        return note


def _list_loaded_classes() -> Iterator[type]:
    """Yield the classes of variables that are no parameters, of the packages that are imported."""
    for package, names in _NO_PARAMETERS.items():
        if package in sys.modules:
            yield from (attrgetter(name)(sys.modules[package]) for name in names)
