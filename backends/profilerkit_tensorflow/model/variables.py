"""The parameters of a model: the variables of its Keras layers, and those beside them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_layer_class

from ..compat.saved_models import is_saved_model
from ..untouched.held_state import HeldState, Visit
from .stored_variables import find_id, keras_variable_classes, read_weight_list

__all__ = ["ModelParts", "list_weights"]

#: Classes whose variables are no parameters, by their packages.
_NO_PARAMETERS = {
    "keras": ("Metric", "Optimizer", "random.SeedGenerator"),
    "tf_keras": ("metrics.Metric", "optimizers.Optimizer", "optimizers.legacy.Optimizer"),
    "tensorflow": ("random.Generator",),
}
_FUNCTIONS = (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)


def list_weights(model: Any) -> list[Any]:
    """Return the variables, of TensorFlow or Keras, that are the parameters of a model, each once.

    A Keras layer has its ``weights``; a module, the variables and Keras layers that its attributes lead to; a function,
    those that it names, closes over or captured when it was traced; a loaded SavedModel its ``variables``. The states
    of random generators are no parameters, nor are the variables of metrics and optimizers. A layer that is not built
    yet has none.
    """
    parts = ModelParts(model)
    of_layers = (variable for layer in parts.layers for variable in read_weight_list(layer, "weights"))
    weights = {find_id(variable): variable for variable in of_layers}
    no_weights = {find_id(variable) for holder in parts.without_weights for variable in _list_variables(holder)}
    for variable in parts.variables_beside:
        if find_id(variable) not in no_weights and not _is_seed_state(variable):
            weights.setdefault(find_id(variable), variable)
    return list(weights.values())


def _is_seed_state(variable: Any) -> bool:
    """Return whether a variable has the name that seed generators of Keras give theirs, which saving keeps."""
    return str(variable.name).partition(":")[0].endswith("seed_generator_state")


def _list_variables(holder: Any) -> list[Any]:
    variables = getattr(holder, "variables", ())
    return list(variables() if callable(variables) else variables)


class ModelParts(HeldState):
    """The outermost Keras layers of a model, and the variables beside them.

    Attributes:
        layers: The layers; what is inside of them is not followed.
        variables_beside: The variables that no layer holds.
        without_weights: The metrics, optimizers and generators, whose variables are no parameters.
    """

    def __init__(self, model: Any) -> None:
        self.layers: list[Any] = []
        self.variables_beside: list[Any] = []
        self.without_weights: list[Any] = []
        self._root = model
        self._no_parameters = tuple(_list_loaded_classes())
        declared = getattr(model, "variables", None) if is_saved_model(model) else None
        super().__init__(*(declared if declared is not None else (model,)))  # which walks, and calls `find_visit`

    def find_visit(self, kind: type) -> Visit | None:
        """Return how objects of a class are visited: layers, variables and what has none of its own are noted."""
        if issubclass(kind, self._no_parameters):
            return self._note_in(self.without_weights)
        if is_layer_class(kind):
            return self._note_in(self.layers)
        if issubclass(kind, (tf.Variable, *keras_variable_classes())):
            return self._note_in(self.variables_beside)
        # A module's functions may capture variables of others, such as the state of the optimizer of its training step.
        if issubclass(kind, _FUNCTIONS) and not isinstance(self._root, _FUNCTIONS):
            return None
        return super().find_visit(kind)

    def _note_in(self, parts: list[Any]) -> Visit:
        """Return a visit that notes an object among these, and does not follow it."""

        def note(value: Any) -> Iterable[Any]:
            parts.append(value)
            return ()

        return Visit(note, is_part_of_model=True)


def _list_loaded_classes() -> Iterator[type]:
    """Yield the classes of variables that are no parameters, of the packages that are imported."""
    for package, names in _NO_PARAMETERS.items():
        if package in sys.modules:
            yield from (attrgetter(name)(sys.modules[package]) for name in names)
