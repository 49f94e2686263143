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

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.keras_calls import call_arguments
from profilerkit.backend_kit.keras_kinds import is_any_keras, is_keras
from profilerkit.unfinished import require_finished

__all__ = [
    "call_model",
    "check_outputs",
    "compute_outputs",
    "discard_updates",
    "is_saved_for_inference",
    "read_served_signature",
    "takes_training",
]


def call_model(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the model's outputs for the inputs, in inference mode unless ``kwargs`` have ``training=True``.

    Keras models are called as layers are (inputs cast to the model's dtype, masks passed on), not through
    ``stateless_call``, which leaves that out. Functional and sequential models take one structure: several positional
    inputs reach them as a list, keyword inputs as a dict.
    """
    if is_any_keras(model):
        args, kwargs = call_arguments(model, args, kwargs)
        with discard_updates(model):
            return model(*args, **{"training": False, **kwargs})
    if not callable(model):
        return _call_served(model, args, kwargs)
    if "training" in kwargs or not takes_training(model):
        return model(*args, **kwargs)
    return model(*args, training=False, **kwargs)


def compute_outputs(model: Any, inputs: ModelInputs) -> Any:
    """Return the outputs for the inputs: by `call_model`, or by the function that was given as ``call=``.

    Such a function may call the model in any way; Keras runs it in inference mode unless it says otherwise.
    """
    if inputs.function is None:
        return check_outputs(call_model(model, inputs.args, inputs.kwargs))
    with discard_updates(model):
        return check_outputs(inputs.run(model))


def check_outputs(outputs: Any) -> Any:
    """Return the outputs of a model; raises `InputError` for a generator and the like, which has done no work yet."""
    for output in tf.nest.flatten(outputs):
        require_finished(output)
    return outputs


def discard_updates(model: Any, initialize: bool = True) -> AbstractContextManager[Any]:
    """Return a context in which a model of Keras 3 writes to none of its variables and seeds.

    It gives Keras' scope, which has the values that were to be written; None for other models. Variables that are made
    in it get their first values at its end, if ``initialize``.
    """
    if not is_keras(model):
        return nullcontext()
    scope: AbstractContextManager[Any] = sys.modules["keras"].StatelessScope(initialize_variables=initialize)
    return scope


# Served functions of saved models, and the parameter "training" -------------------------------------------------------


def _call_served(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call the function that a saved model without ``__call__`` serves: the ``serve`` of Keras, or its signature."""
    serve = getattr(model, "serve", None)
    if callable(serve):
        return serve(*args, **kwargs)
    name, signature = _find_signature(model)
    if signature is None:
        raise InputError(
            f"a {type(model).__name__} as the model cannot be called: it has neither __call__ nor signatures; give a "
            "callable that runs it"
        )
    names = sorted(signature.structured_input_signature[1])
    if len(args) > 1 or (args and len(names) != 1):
        raise InputError(
            f"the signature {name!r} of the saved model takes its inputs by name: {', '.join(names)}; give a mapping "
            "with these names"
        )
    return signature(**dict(zip(names, args, strict=False)), **kwargs)


def read_served_signature(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the types of the arguments of a saved model without ``__call__``; none if it serves no function."""
    serve = getattr(model, "serve", None)
    if callable(serve):
        functions = getattr(serve, "concrete_functions", ())
        positional = functions[0].structured_input_signature[0] if functions else ()
        return tuple(positional), {}
    _, signature = _find_signature(model)
    named = {} if signature is None else signature.structured_input_signature[1]
    return (), dict(named)


def _find_signature(model: Any) -> tuple[str, Any]:
    """Return the signature that a saved model serves, with its name: the usual one, or the first; None without any."""
    signatures = getattr(model, "signatures", None) or {}
    name = "serving_default" if "serving_default" in signatures else next(iter(signatures), "")
    return (name, signatures[name]) if signatures else ("", None)


def takes_training(model: Callable[..., Any]) -> bool:
    """Return whether the call has a parameter ``training``; of a saved function, whether it was saved with it."""
    saved = getattr(model, "__call__", None)  # noqa: B004 - the restored call of a saved model holds its signatures
    functions = getattr(saved, "concrete_functions", None) or getattr(model, "concrete_functions", None)
    if functions is not None:
        return any(is_saved_for_inference(function) for function in functions)
    try:
        parameter = inspect.signature(model).parameters.get("training")
    except (TypeError, ValueError):  # a callable without a signature, such as one of C's
        return False
    return parameter is not None and parameter.kind is not inspect.Parameter.POSITIONAL_ONLY


def is_saved_for_inference(function: Any) -> bool:
    """Return whether a saved function was saved with ``training=False``."""
    positional, keywords = function.structured_input_signature
    parameters = list(function.function_type.parameters) if hasattr(function, "function_type") else []
    arguments = {**dict(zip(parameters, positional, strict=False)), **keywords}
    return arguments.get("training") is False
