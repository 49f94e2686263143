"""A model that is not built is called once to build it, without memory for its weights if possible."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.failures import note_layer
from profilerkit.backend_kit.keras_calls import call_arguments
from profilerkit.backend_kit.keras_kinds import is_any_keras, is_keras, is_legacy_keras
from profilerkit.backend_kit.keras_layers import direct_layers
from profilerkit.process.restoring import restored

from ..compat.graphs import FuncGraph
from ..compat.variables import can_make_unallocated
from ..model.kinds import is_layer, list_layers, name_own_weights
from ..model.unallocated import collect_unallocated, make_without_values
from ..untouched.snapshots import take_container

__all__ = ["FirstTrace", "as_before_the_call", "build_symbolically", "list_fed_types", "put_back"]


def build_symbolically(model: Any, inputs: ModelInputs) -> list[Any]:
    """Build a Keras model without allocating its weights; return the variables that were made without a value.

    Where this release of TensorFlow or Keras has no such variables, the model is called, and its weights get values.

    They are variables like all others but for the value, which a trace does not need: gradients are taken by them, also
    inside functions with gradients of their own (``keras.remat``, ``tf.recompute_grad``).
    """
    if not can_make_unallocated():
        with as_before_the_call(model):
            inputs.run(model)
        return []
    making = collect_unallocated() if is_legacy_keras(model) else make_without_values()
    with making as made, FuncGraph("build").as_default():  # it may read variables of the layers it builds
        model_inputs = put_back(inputs, list(map(_make_placeholder, list_fed_types(inputs))))
        if inputs.function is None and is_keras(model):
            args, kwargs = call_arguments(model, model_inputs.args, model_inputs.kwargs)
            model_inputs = ModelInputs(*args, **kwargs)
        with as_before_the_call(model):
            model_inputs.run(model)
    return made


def _make_placeholder(spec: Any) -> Any:
    """Return a stand-in for a tensor of any type: a sparse or ragged one has several parts."""
    if isinstance(spec, tf.TensorSpec):
        return tf.compat.v1.placeholder(spec.dtype, spec.shape)
    parts = [tf.compat.v1.placeholder(part.dtype, part.shape) for part in tf.nest.flatten(spec, expand_composites=True)]
    return tf.nest.pack_sequence_as(spec, parts, expand_composites=True)


# The tensors among the inputs, which a traced program takes; all else is a part of the program ------------------------


def list_fed_types(inputs: ModelInputs) -> list[Any]:
    """Return the types of the tensors among the inputs, sparse and ragged ones and variables included."""
    return [tf.type_spec_from_value(leaf) for leaf in inputs.leaves() if tf.is_tensor(leaf)]


def put_back(inputs: ModelInputs, tensors: Sequence[Any]) -> ModelInputs:
    """Return the inputs with other tensors in the place of theirs, in the same order."""
    remaining = iter(tensors)
    return inputs.map(lambda leaf: next(remaining) if tf.is_tensor(leaf) else leaf)


# The call that is counted after building is still the first -----------------------------------------------------------

# Some models count their calls, or do something special in the first one. Here their code runs once more than in a
# user's first call: to build a Keras model, or because TensorFlow traces a module twice that makes its variables when
# it is called. What the layers noted in that additional run is put back, so that the run that is counted is the first.

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, dict, set, deque)


@contextmanager
def as_before_the_call(model: Any) -> Iterator[None]:
    """Put numbers, texts and plain containers of the layers back to what they were when ``call`` of each began.

    The call in this block builds the model. What Keras runs before the ``call`` of a layer, to build it, happens in a
    user's first call too: its notes stay. Of a layer whose ``call`` made a layer or a variable only numbers are put
    back: its other notes may say that these exist. An error gets the path of the layer in which it was raised;
    nothing is put back here then, but by `preserve` around all.
    """
    layers = [(path, layer) for path, layer in list_layers(model) if is_layer(layer)]
    first_paths = {id(layer): path for path, layer in reversed(layers)}
    classes = {_find_users_class(layer) for _, layer in layers}
    states: dict[int, _State] = {}
    with ExitStack() as patches:
        for cls in filter(None, classes):
            patches.enter_context(_patch(cls, states, first_paths))
        yield
    for state in states.values():
        state.put_back()


def _find_users_class(layer: Any) -> type | None:
    """Return the class that defines ``call`` of a layer, unless it is one of Keras."""
    cls = next((cls for cls in type(layer).__mro__ if "call" in cls.__dict__), None)
    return None if cls is None or cls.__module__.partition(".")[0] in ("keras", "tf_keras") else cls


@contextmanager
def _patch(cls: type, states: dict[int, _State], paths: Mapping[int, str]) -> Iterator[None]:
    """Have ``call`` of a class note the state of each layer when it begins.

    The keys of ``states`` and ``paths`` are the ids of the layers. Keras may call a layer that is not built yet only to
    build it, also in a user's first call. What the layer and those inside of it note in such a call stays: their states
    are dropped.
    """
    original = cls.__dict__["call"]

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        is_built = getattr(layer, "built", True)
        noted_before = set(states)
        if is_built:
            states.setdefault(id(layer), _State(layer))
        try:
            outputs = original(layer, *args, **kwargs)
        except Exception as error:
            note_layer(error, paths.get(id(layer), ""))
            raise
        if not is_built:
            for key in states.keys() - noted_before:
                del states[key]
        return outputs

    call.__wrapped__ = original  # type: ignore[attr-defined]
    with restored(partial(type.__setattr__, cls, "call", original)):
        type.__setattr__(cls, "call", call)
        yield


class FirstTrace:
    """Puts back, when a program is traced for the second time, what its layers noted in the first."""

    def __init__(self, layers: Iterable[tuple[str, Any]]) -> None:
        self._layers = [layer for _, layer in layers if is_layer(layer)]
        self._states: list[_State] | None = None

    def begin(self) -> None:
        """Call this where each trace begins."""
        if self._states is None:
            self._states = [_State(layer) for layer in self._layers if getattr(layer, "built", True)]
        for state in self._states:
            state.put_back()


class _State:
    """What a layer held in plain attributes and containers of its own."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._parts = _count_parts(layer)
        self._plain = {name: value for name, value in vars(layer).items() if _is_plain(value)}
        self._contents = [
            take_container(value)
            for name, value in vars(layer).items()
            if isinstance(value, _CONTAINERS) and not name.startswith("_")
        ]

    def put_back(self) -> None:
        """Put it back; only numbers where layers or variables were made since: the rest may say that they exist."""
        has_new_parts = _count_parts(self._layer) != self._parts
        may_be_put_back = _is_number if has_new_parts else _is_plain
        attributes = vars(self._layer)
        for name, value in self._plain.items():
            if name in attributes and may_be_put_back(attributes[name]) and attributes[name] != value:
                attributes[name] = value
        if not has_new_parts:
            for content in self._contents:
                content.restore()


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _count_parts(layer: Any) -> tuple[int, ...]:
    """Return how many attributes, layers and variables a layer has."""
    inside = direct_layers(layer) if is_any_keras(layer) else ()
    return len(vars(layer)), len(inside), sum(1 for _ in name_own_weights(layer))
