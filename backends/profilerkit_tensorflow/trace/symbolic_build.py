"""Building a Keras model, whose weights its first call would make, without memory for them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_calls import call_arguments
from profilerkit.backend_kit.keras_kinds import is_keras, is_legacy_keras

from ..compat.graphs import FuncGraph
from ..compat.variables import can_make_unallocated
from ..model.unallocated import collect_unallocated, make_without_values
from .fed_tensors import list_fed_types, put_back
from .first_call import as_before_the_call

__all__ = ["build_symbolically"]


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
