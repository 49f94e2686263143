"""The parameters of a model: the variables of its Keras layers, and those beside them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_layer_class

from ..compat.saved_models import is_saved_model
from ..untouched.held_state import HeldState, Visit
from .packed_kernels import count_packed_elements
from .stored_variables import find_id, find_stored_variable, keras_variable_classes, read_weight_list

__all__ = ["ModelParts", "Weight", "list_weights"]

#: Classes whose variables are no parameters, by their packages.
_NO_PARAMETERS = {
    "keras": ("Metric", "Optimizer", "random.SeedGenerator"),
    "tf_keras": ("metrics.Metric", "optimizers.Optimizer", "optimizers.legacy.Optimizer"),
    "tensorflow": ("random.Generator",),
}
_FUNCTIONS = (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)


@dataclass(frozen=True)
class Weight:
    """One parameter of a model.

    A kernel that Keras has quantised to 4 bits (``layer.quantize("int4")``, GPTQ and AWQ) has two numbers in each
    element of an int8 (or uint8) variable, an odd last axis padded. A (6, 5) kernel is a (6, 3) variable: 30 elements,
    18 bytes. Its scales, zero points and group indices are separate weights. Layers quantised to float8 keep their
    kernel as it was, with scales and histories beside it.

    Attributes:
        variable: The variable, of TensorFlow or Keras.
        identity: The id of TensorFlow's variable.
        name: Its name, in Keras 3 its path.
        shape: The shape of the variable.
        dtype: The name of its dtype.
        trainable: Whether training changes it.
        elements: How many numbers it stands for.
        bytes: The bytes that are stored.
    """

    variable: Any
    identity: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    elements: int
    bytes: int


def list_weights(model: Any) -> list[Weight]:
    """Return the parameters of a model, each once.

    A Keras layer has its ``weights``, trainable where they are among its ``trainable_weights``; a module, the
    variables and Keras layers that its attributes lead to; a function, those that it names, closes over or captured
    when it was traced; a loaded SavedModel its ``variables``. The states of random generators are no parameters, nor
    are the variables of metrics and optimizers. A layer that is not built yet has none.
    """
    parts = ModelParts(model)
    weights: dict[int, Weight] = {}
    for layer in parts.layers:
        for weight in _list_layer_weights(layer):
            weights.setdefault(weight.identity, weight)
    no_weights = {find_id(variable) for holder in parts.without_weights for variable in _list_variables(holder)}
    declared = _read_declared_trainable(model)
    for variable in parts.variables_beside:
        key = find_id(variable)
        if key not in no_weights and key not in weights and not _is_seed_state(variable):
            is_trainable = variable.trainable if declared is None else key in declared
            weights[key] = _describe_weight(variable, bool(is_trainable))
    return list(weights.values())


def _list_layer_weights(layer: Any) -> Iterator[Weight]:
    """Yield the parameters of a Keras layer."""
    trainable = set(map(find_id, read_weight_list(layer, "trainable_weights")))
    packed = dict(count_packed_elements(layer))
    for variable in read_weight_list(layer, "weights"):
        key = find_id(variable)
        yield _describe_weight(variable, key in trainable, packed.get(key))


def _describe_weight(variable: Any, trainable: bool, elements: int | None = None) -> Weight:
    """Return what is said of a parameter; ``elements`` are the numbers that it stands for, where it is packed."""
    shape = tuple(int(size) for size in variable.shape)
    stored = find_stored_variable(variable)
    dtype = tf.as_dtype(stored.dtype)
    count = math.prod(shape)
    return Weight(
        variable=variable,
        identity=id(stored),
        name=str(getattr(variable, "path", variable.name)),
        shape=shape,
        dtype=dtype.name,
        trainable=trainable,
        elements=elements or count,
        bytes=count * dtype.size,
    )


def _is_seed_state(variable: Any) -> bool:
    """Return whether a variable has the name that seed generators of Keras give theirs, which saving keeps."""
    return str(variable.name).partition(":")[0].endswith("seed_generator_state")


def _list_variables(holder: Any) -> list[Any]:
    variables = getattr(holder, "variables", ())
    return list(variables() if callable(variables) else variables)


def _read_declared_trainable(model: Any) -> set[int] | None:
    declared = getattr(model, "trainable_variables", None) if is_saved_model(model) else None
    return None if declared is None else set(map(find_id, declared))


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
