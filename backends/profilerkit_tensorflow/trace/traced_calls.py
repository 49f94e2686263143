"""The calls of a model that are traced and timed: a forward pass in inference mode, and a training step."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_calls import call_arguments
from profilerkit.backend_kit.keras_kinds import is_any_keras, is_keras
from profilerkit.backend_kit.replaced_attributes import replace_attribute
from profilerkit.process.restoring import restored

from ..compat.functions import convert, convert_arguments, make_twin
from ..model.calls import call_model, check_outputs, takes_training
from ..model.kinds import is_function
from ..model.weights import list_trainable_variables

__all__ = [
    "compute_loss_and_gradients",
    "compute_traced_outputs",
    "convert_callable",
    "functions_traced_anew",
    "quietly",
]


def compute_traced_outputs(model: Any, inputs: ModelInputs) -> Any:
    """Return the outputs of a forward pass in inference mode."""
    with _keep_variables(model):
        return check_outputs(_call(model, inputs, training=False))


def compute_loss_and_gradients(
    layers: Sequence[tuple[str, Any]], inputs: ModelInputs, between: Callable[[], object] = nullcontext
) -> Any:
    """Return the loss, its gradients, and the values that the forward pass would give to untrained variables.

    The loss is returned because a training step reports it: no gradient of a sum needs the last layer's outputs.
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
    """Return the object that stands for a variable on the tape: TensorFlow's variable, or its replacement."""
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
    twins: dict[int, Any] = {}  # by their ids; held, so that no other function gets the id of one

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_in_a_graph = type(self) is function_class and not tf.executing_eagerly()
        twin = make_twin(self) if is_in_a_graph and id(self) not in twins else None
        if twin is None:
            return original(self, *args, **kwargs)
        twins[id(twin)] = twin
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
