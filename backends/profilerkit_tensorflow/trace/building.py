"""A model that is not built is called once to build it, without memory for its weights if possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.failures import note_raising_layer
from profilerkit.backend_kit.keras_calls import call_arguments
from profilerkit.backend_kit.keras_kinds import is_keras, is_legacy_keras

from ..compat.graphs import FuncGraph
from ..compat.variables import can_make_unallocated
from ..model.kinds import list_layers
from ..model.unallocated import collect_unallocated, make_without_values

__all__ = ["build_symbolically", "call_to_build", "list_fed_types", "put_back"]


def build_symbolically(model: Any, inputs: ModelInputs) -> list[Any]:
    """Build a Keras model without allocating its weights; return the variables that were made without a value.

    If this release of TensorFlow or Keras has no such variables, the model is called, and its weights get values.

    Except for the missing value, which no trace needs, they are like all variables: gradients are taken by them, also
    inside functions with custom gradients (``keras.remat``, ``tf.recompute_grad``).
    """
    if not can_make_unallocated():
        call_to_build(model, inputs)
        return []
    making = collect_unallocated() if is_legacy_keras(model) else make_without_values()
    with making as made, FuncGraph("build").as_default():  # it may read variables of the layers it builds
        model_inputs = put_back(inputs, list(map(_make_placeholder, list_fed_types(inputs))))
        if inputs.function is None and is_keras(model):
            args, kwargs = call_arguments(model, model_inputs.args, model_inputs.kwargs)
            model_inputs = ModelInputs(*args, **kwargs)
        call_to_build(model, model_inputs)
    return made


def call_to_build(model: Any, inputs: ModelInputs) -> None:
    """Call a model, which builds it; an error gets the path of the layer in which it was raised."""
    try:
        inputs.run(model)
    except Exception as error:  # any error of the model
        note_raising_layer(error, {id(layer): path for path, layer in reversed(list_layers(model))})
        raise


def _make_placeholder(spec: Any) -> Any:
    """Return a stand-in for a tensor of any type: a sparse or ragged one has several parts."""
    if isinstance(spec, tf.TensorSpec):
        return tf.compat.v1.placeholder(spec.dtype, spec.shape)
    parts = [tf.compat.v1.placeholder(part.dtype, part.shape) for part in tf.nest.flatten(spec, expand_composites=True)]
    return tf.nest.pack_sequence_as(spec, parts, expand_composites=True)


# Tensors among the inputs, which a traced program takes; other inputs are part of the program -------------------------


def list_fed_types(inputs: ModelInputs) -> list[Any]:
    """Return the types of the tensors among the inputs, sparse and ragged ones and variables included."""
    return [tf.type_spec_from_value(leaf) for leaf in inputs.leaves() if tf.is_tensor(leaf)]


def put_back(inputs: ModelInputs, tensors: Sequence[Any]) -> ModelInputs:
    """Return the inputs with other tensors in the place of theirs, in the same order."""
    remaining = iter(tensors)
    return inputs.map(lambda leaf: next(remaining) if tf.is_tensor(leaf) else leaf)
