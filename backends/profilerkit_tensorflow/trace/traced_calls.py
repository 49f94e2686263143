"""The calls of a model that are traced and timed: a forward pass in inference mode, and a training step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_calls import call_arguments
from profilerkit.backend_kit.keras_kinds import is_any_keras, is_keras
from profilerkit.backend_kit.replaced_attributes import replace_attribute
from profilerkit.process.restoring import restored

from ..compat.functions import convert, convert_arguments, make_twin
from ..model.calls import call_model, check_outputs, discard_updates, takes_training
from ..model.kinds import is_function
from ..model.weights import list_trainable_variables

__all__ = [
    "TrainingStep",
    "compute_traced_outputs",
    "compute_training_step",
    "convert_callable",
    "functions_traced_anew",
    "quietly",
]


class TrainingStep(NamedTuple):
    """The tensors that a training step computes.

    Attributes:
        outputs: The outputs of floats. Without such an output, the tensors that the model returns: the step is then the
            forward pass.
        gradients: The gradient of the sum of the outputs' elements for each trainable variable; None if no output
            depends on it.
        updates: The values that the forward pass would give to the untrained variables of a Keras model.
    """

    outputs: list[Any]
    gradients: list[Any]
    updates: list[Any]

    @property
    def has_gradients(self) -> bool:
        """Whether there is a backward pass."""
        return any(gradient is not None for gradient in self.gradients)


def compute_traced_outputs(model: Any, inputs: ModelInputs) -> Any:
    """Return the outputs of a forward pass in inference mode."""
    with discard_updates(model, initialize=False):
        return check_outputs(_call(model, inputs, training=False))


def compute_training_step(
    layers: Sequence[tuple[str, Any]], inputs: ModelInputs, between: Callable[[], object] = nullcontext
) -> TrainingStep:
    """Return the results of one training step of a model.

    Args:
        layers: The model's layers by their paths, the model itself first.
        inputs: The inputs of the call.
        between: Called after the forward pass, before the gradients.
    """
    model = layers[0][1]
    with discard_updates(model, initialize=False) as scope, tf.GradientTape() as tape:
        tensors = [leaf for leaf in tf.nest.flatten(_call(model, inputs, training=True)) if tf.is_tensor(leaf)]
        floats = [tensor for tensor in tensors if tensor.dtype.is_floating or tensor.dtype.is_complex]
        trained = [_find_current(v, scope) for v in list_trainable_variables(layers, tape.watched_variables())]
    updates = [] if scope is None else [_find_current(v, scope) for v in model.non_trainable_variables]
    between()
    if not floats:
        return TrainingStep(tensors, [None] * len(trained), updates)
    return TrainingStep(floats, tape.gradient(floats, trained), updates)


def _find_current(variable: Any, scope: Any) -> Any:
    """Return the object that stands for a variable on the tape: TensorFlow's variable, or its replacement."""
    current = scope.get_current_value(variable) if scope is not None else None
    if current is not None:
        return current
    return variable if isinstance(variable, tf.Variable) else variable.value


def _call(model: Any, inputs: ModelInputs, training: bool) -> Any:
    """Return the outputs of one call: by the function that was given as ``call=``, or of the model itself."""
    if inputs.function is None and is_keras(model):
        args, kwargs = call_arguments(model, inputs.args, inputs.kwargs)
        return model(*args, **{"training": training, **kwargs})
    model_or_function = convert_callable(model) if is_function(model) else model
    if inputs.function is not None:
        return convert_callable(inputs.function)(model_or_function, *inputs.args, **inputs.kwargs)
    kwargs = {"training": True, **inputs.kwargs} if training and takes_training(model) else inputs.kwargs
    return call_model(model_or_function, inputs.args, kwargs)


# The user's code, converted by TensorFlow's autograph: if and for over tensors become operators -----------------------


def convert_callable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable as ``tf.function`` would run it: its Python code converted.

    A ``tf.function`` is returned unchanged, and so are layers: Keras does not convert them, ``tf_keras`` does itself.
    """
    owner = getattr(call, "__self__", call)
    if hasattr(call, "get_concrete_function") or is_any_keras(owner):
        return call
    return convert(call)


@contextmanager
def functions_traced_anew() -> Iterator[None]:
    """Have ``tf.function``s traced anew if the graph that is being traced calls them.

    The layers inside are then called, and the shapes are the caller's shapes, for any ``input_signature``. A function
    that XLA compiles stays compiled, for example a grouped convolution of Keras on a CPU: it runs as it would without
    the trace. Functions of a saved model have no Python code to run and are not traced anew.
    """
    function_class: Any = type(tf.function(lambda: None))
    original = function_class.__call__
    twins: set[Any] = set()

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_traced_anew = type(self) is function_class and not tf.executing_eagerly() and self not in twins
        twin = make_twin(self) if is_traced_anew else None
        if twin is None:
            return original(self, *args, **kwargs)
        twins.add(twin)
        args, kwargs = convert_arguments(self, args, kwargs)
        return original(twin, *args, **kwargs)

    with replace_attribute(function_class, "__call__", __call__):
        yield


@contextmanager
def quietly() -> Iterator[None]:
    """Have TensorFlow log no warnings, for example of code that autograph cannot convert: it is run as it is."""
    log = logging.getLogger("tensorflow")
    with restored(partial(log.setLevel, log.level), in_child=False):
        log.setLevel(max(log.level, logging.ERROR))
        yield
