"""Calling a model of any kind once, in inference mode: its arguments, and the side effects; `preserve` undoes them.

| kind | takes ``training`` | side effects of a call |
|---|---|---|
| Keras 3 layer or model | always | losses; a ``keras.StatelessScope`` discards updates and seeds |
| tf_keras layer or model | always | its own |
| saved model, with a ``__call__`` | where a function saved with it has ``training=False`` | its own |
| saved model, signatures alone | no | its own |
| ``tf.Module``, ``tf.function``, callable | where its signature names it | its own |
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs, WithoutValuesError
from profilerkit.backend_kit.keras_calls import call_arguments
from profilerkit.backend_kit.keras_kinds import is_keras, is_legacy_keras
from profilerkit.unfinished import require_finished

from .call_signatures import call_served, takes_training

__all__ = ["call_model", "check_outputs", "compute_outputs"]


def call_model(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the model's outputs for the inputs, in inference mode unless ``kwargs`` have ``training=True``.

    Keras models are called as layers are (inputs cast to the model's dtype, masks passed on), not through
    ``stateless_call``, which leaves that out. Functional and sequential models take one structure: several positional
    inputs reach them as a list, keyword inputs as a dict. Raises `WithoutValuesError` for a Keras model that is not
    built, since a call would build it.
    """
    if is_keras(model):
        _require_built(model)
        args, kwargs = call_arguments(model, args, kwargs)
        return _run_without_side_effects(model, args, {"training": False, **kwargs})
    if is_legacy_keras(model):
        _require_built(model)
        args, kwargs = call_arguments(model, args, kwargs)
        return model(*args, **{"training": False, **kwargs})
    if not callable(model):
        return call_served(model, args, kwargs)
    if "training" in kwargs or not takes_training(model):
        return model(*args, **kwargs)
    return model(*args, training=False, **kwargs)


def compute_outputs(model: Any, inputs: ModelInputs) -> Any:
    """Return the outputs for the inputs: by `call_model`, or by the function that was given as ``call=``.

    Such a function may call the model in any way; Keras runs it in inference mode unless it says otherwise.
    """
    function = inputs.function
    if function is None:
        return check_outputs(call_model(model, inputs.args, inputs.kwargs))
    if not is_keras(model):
        return check_outputs(inputs.run(model))
    _require_built(model)
    run = functools.partial(function, model)
    return check_outputs(_run_without_side_effects(run, inputs.args, inputs.kwargs))


def check_outputs(outputs: Any) -> Any:
    """Return the outputs of a model; raises `InputError` for a generator and the like, which has done no work yet."""
    for output in tf.nest.flatten(outputs):
        require_finished(output)
    return outputs


def _require_built(model: Any) -> None:
    """Raise `WithoutValuesError` for a Keras model without weights: a call would build it."""
    if not model.built:
        raise WithoutValuesError(
            f"the model {model.name!r} is not built: its weights have no values yet, and calling it would make them; "
            "call it once with real inputs, or give its shape to model.build(), before running it"
        )


def _run_without_side_effects(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function, in which a Keras model updates none of its variables and seeds."""
    with sys.modules["keras"].StatelessScope():
        return function(*args, **kwargs)
