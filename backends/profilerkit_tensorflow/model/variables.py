"""The parameters of a model, and a fingerprint that changes when they do."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_keras, is_layer_class
from profilerkit.backend_kit.keras_layers import direct_layers, flat_layers, read_variable_value

from ..compat.saved_models import is_saved_model
from ..untouched.held_state import HeldState, Visit

__all__ = [
    "ModelParts",
    "Weight",
    "count_packed_elements",
    "find_stored_variable",
    "fingerprint",
    "keras_variables",
    "list_weights",
    "read_weight_list",
]

#: Classes whose variables are no parameters, by their packages.
_NO_PARAMETERS = {
    "keras": ("Metric", "Optimizer", "random.SeedGenerator"),
    "tf_keras": ("metrics.Metric", "optimizers.Optimizer", "optimizers.legacy.Optimizer"),
    "tensorflow": ("random.Generator",),
}
_FUNCTIONS = (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)
_FOUR_BIT_MODES = ("int4", "gptq", "awq")
#: Where Keras' layers keep kernels with two 4-bit numbers in a byte.
_PACKED = ("_kernel", "_embeddings", "reverse_embeddings", "quantized_kernel")


@dataclass(frozen=True)
class Weight:
    """One parameter of a model.

    ``elements`` counts the numbers that it stands for, ``bytes`` what is stored, by the dtype of the variable. The two
    differ for a kernel quantised to 4 bits by Keras (``layer.quantize("int4")``, GPTQ and AWQ): two numbers lie in
    each element of an int8 (or uint8) variable, an odd last axis padded. A (6, 5) kernel is a (6, 3) variable: 30
    elements, 18 bytes. Its scales, zero points and group indices are separate weights. Layers
    quantised to float8 keep their kernel as it was, with scales and histories beside it.
    """

    variable: Any
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
        for key, weight in _list_layer_weights(layer):
            weights.setdefault(key, weight)
    others = {id(find_stored_variable(variable)) for holder in parts.others for variable in _list_variables(holder)}
    declared = _read_declared_trainable(model)
    for variable in parts.plain:
        key = id(find_stored_variable(variable))
        if key not in others and key not in weights and not _is_seed_state(variable):
            is_trainable = variable.trainable if declared is None else key in declared
            weights[key] = _describe_weight(variable, bool(is_trainable))
    return list(weights.values())


def _list_layer_weights(layer: Any) -> Iterator[tuple[int, Weight]]:
    """Yield the parameters of a Keras layer, each with the id of its variable."""
    trainable = {id(find_stored_variable(variable)) for variable in read_weight_list(layer, "trainable_weights")}
    packed = dict(count_packed_elements(layer))
    for variable in read_weight_list(layer, "weights"):
        key = id(find_stored_variable(variable))
        yield key, _describe_weight(variable, key in trainable, packed.get(key))


def fingerprint(model: Any, values: bool = True) -> object:
    """Return what changes when the model's parameters do: identities, shapes, dtypes, flags and, optionally, values.

    Variables do not count their changes, so their values are summed up by CRC-32: some 15 ms for 100 MB where zlib
    uses the processor's instructions for it, some 100 ms where not. Values that lie elsewhere than in the memory of
    the CPU are not fetched: those weights count as changed only where the variable is another.
    """
    return [
        (
            id(find_stored_variable(weight.variable)),
            weight.shape,
            weight.dtype,
            weight.trainable,
            _checksum(weight.variable) if values else None,
        )
        for weight in list_weights(model)
    ]


class ModelParts(HeldState):
    """The outermost Keras layers of a model, and the variables beside them."""

    def __init__(self, model: Any) -> None:
        self.layers: list[Any] = []
        self.plain: list[Any] = []
        self.others: list[Any] = []
        self._root = model
        self._no_parameters = tuple(_list_loaded_classes())
        declared = getattr(model, "variables", None) if is_saved_model(model) else None
        super().__init__(*(declared if declared is not None else (model,)))

    def find_visit(self, kind: type) -> Visit | None:
        """Return how objects of a class are visited: layers, variables and what has none of its own are noted."""
        if issubclass(kind, self._no_parameters):
            return self._note_in(self.others)
        if is_layer_class(kind):
            return self._note_in(self.layers)
        if issubclass(kind, (tf.Variable, *keras_variables())):
            return self._note_in(self.plain)
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


def read_weight_list(layer: Any, which: str) -> list[Any]:
    """Return the weights that a Keras layer lists under a name, ``trainable_weights`` for instance."""
    try:
        return list(getattr(layer, which))
    except ValueError:  # tf_keras raises it for a model that is not built
        return [variable for child in direct_layers(layer) for variable in read_weight_list(child, which)]


def _list_variables(holder: Any) -> list[Any]:
    variables = getattr(holder, "variables", ())
    return list(variables() if callable(variables) else variables)


def _read_declared_trainable(model: Any) -> set[int] | None:
    declared = getattr(model, "trainable_variables", None) if is_saved_model(model) else None
    return None if declared is None else {id(find_stored_variable(variable)) for variable in declared}


def _describe_weight(variable: Any, trainable: bool, elements: int | None = None) -> Weight:
    """Return what is said of a parameter; ``elements`` are the numbers that it stands for, where it is packed."""
    shape = tuple(int(size) for size in variable.shape)
    dtype = tf.as_dtype(find_stored_variable(variable).dtype)
    stored = math.prod(shape)
    name = str(getattr(variable, "path", variable.name))
    return Weight(variable, name, shape, dtype.name, trainable, elements or stored, stored * dtype.size)


def find_stored_variable(variable: Any) -> Any:
    """Return the TensorFlow variable of a Keras variable, or the Keras variable itself if it has none yet."""
    inner = read_variable_value(variable) if isinstance(variable, keras_variables()) else None
    return variable if inner is None else inner


def keras_variables() -> tuple[Any, ...]:
    """Return the class of Keras 3's variables, which are no TensorFlow variables; nothing if Keras is not imported."""
    variable = getattr(sys.modules.get("keras"), "Variable", None)
    return (variable,) if isinstance(variable, type) else ()


def _is_seed_state(variable: Any) -> bool:
    """Return whether a variable has the name that seed generators of Keras give theirs, which saving keeps."""
    return str(variable.name).partition(":")[0].endswith("seed_generator_state")


def count_packed_elements(layer: Any) -> Iterator[tuple[int, int]]:
    """Yield the variables of a layer that hold two 4-bit numbers in a byte, by id, with how many numbers they hold."""
    for part in flat_layers(layer) if is_keras(layer) else ():
        if getattr(part, "quantization_mode", None) not in _FOUR_BIT_MODES:
            continue
        for name in _PACKED:
            variable = getattr(part, name, None)
            if isinstance(variable, keras_variables()):
                yield id(find_stored_variable(variable)), _count_unpacked(part, name, tuple(variable.shape))


def _count_unpacked(layer: Any, name: str, stored: tuple[int, ...]) -> int:
    """Return how many numbers a packed variable stands for; the number stored where its layer does not record it."""
    attributes = vars(layer)
    candidates = [
        math.prod(attributes[key]) for key in ("original_kernel_shape", "kernel_shape") if attributes.get(key)
    ]
    if name == "reverse_embeddings":
        candidates.append(layer.input_dim * layer.output_dim)
    if attributes.get("_orig_output_dim"):
        candidates.append(math.prod(stored[:-1]) * int(attributes["_orig_output_dim"]))
    if attributes.get("_orig_input_dim"):
        candidates.append(int(attributes["_orig_input_dim"]) * math.prod(stored[1:]))
    count = math.prod(stored)
    return next((candidate for candidate in candidates if count <= candidate <= 2 * count), count)


def _checksum(variable: Any) -> int | None:
    """Return a number that changes with the elements of a variable; None where they are not in memory of the CPU."""
    stored = find_stored_variable(variable)
    if not hasattr(getattr(stored, "handle", None), "numpy"):  # in a graph, spread over devices, or not made yet
        return None
    try:
        with tf.init_scope():
            value = stored.read_value()
    except tf.errors.OpError:  # it has no value
        return None
    if "CPU" not in value.backing_device:
        return None
    array = np.asarray(value)
    if array.dtype.hasobject:
        return hash(tuple(array.ravel().tolist()))
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _list_loaded_classes() -> Iterator[type]:
    """Yield the classes of variables that are no parameters, of the packages that are imported."""
    for package, names in _NO_PARAMETERS.items():
        if package in sys.modules:
            yield from (attrgetter(name)(sys.modules[package]) for name in names)
