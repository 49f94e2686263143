"""The calls of a model that are traced and timed: a forward pass in inference mode, and a training step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_calls import call_arguments
from profilerkit.backend_kit.keras_kinds import is_keras

from ..model.call_signatures import takes_training
from ..model.calls import call_model, check_outputs
from ..model.kinds import is_function
from ..model.weights import list_trainable_variables
from .conversion import convert_callable

__all__ = ["compute_loss_and_gradients", "compute_traced_outputs"]


def compute_traced_outputs(model: Any, inputs: ModelInputs) -> Any:
    """Return the outputs of a forward pass in inference mode."""
    with _keep_variables(model):
        return check_outputs(_call(model, inputs, training=False))


def compute_loss_and_gradients(
    layers: Sequence[tuple[str, Any]], inputs: ModelInputs, between: Callable[[], object] = nullcontext
) -> Any:
    """Return the loss, its gradients, and the values that the forward pass would give to what is not trained.

    The loss is returned because a training step reports it: of a sum no gradient needs the last layer's outputs.
    ``between`` is called once the loss is there, before its gradients.
    """
    model = layers[0][1]
    with _keep_variables(model) as scope, tf.GradientTape() as tape:
        outputs = _call(model, inputs, training=True)
        floats = [leaf for leaf in tf.nest.flatten(outputs) if tf.is_tensor(leaf) and leaf.dtype.is_floating]
        loss = tf.add_n([tf.reduce_sum(tf.cast(leaf, tf.float32)) for leaf in floats])
        trained = list_trainable_variables(layers, tape.watched_variables())
        watched = [_find_current(variable, scope) for variable in trained]
    updates = [] if scope is None else [_find_current(v, scope) for v in model.non_trainable_variables]
    between()
    return loss, tape.gradient(loss, watched), updates


def _find_current(variable: Any, scope: Any) -> Any:
    """Return what stands for a variable on the tape: TensorFlow's variable, or the value that replaces it."""
    current = scope.get_current_value(variable) if scope is not None else None
    if current is not None:
        return current
    return variable.value if not isinstance(variable, tf.Variable) else variable


def _keep_variables(model: Any) -> AbstractContextManager[Any]:
    """Return a context that keeps a Keras model from writing to its variables, and initializes none of them."""
    if not is_keras(model):
        return nullcontext()
    scope: AbstractContextManager[Any] = sys.modules["keras"].StatelessScope(initialize_variables=False)
    return scope


def _call(model: Any, inputs: ModelInputs, training: bool) -> Any:
    """Return the outputs of one call: by the function that was given as ``call=``, or of the model itself."""
    called = convert_callable(model) if is_function(model) else model
    if inputs.function is not None:
        return convert_callable(inputs.function)(called, *inputs.args, **inputs.kwargs)
    if is_keras(model):
        args, kwargs = call_arguments(model, inputs.args, inputs.kwargs)
        return model(*args, **{"training": training, **kwargs})
    in_training = {"training": True} if training and takes_training(model) else {}
    return call_model(called, inputs.args, {**in_training, **inputs.kwargs})
