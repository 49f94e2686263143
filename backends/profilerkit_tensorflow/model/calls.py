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
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import InputError, ModelInputs, WithoutValuesError
from profilerkit.backend_kit.keras_layers import call_arguments, is_keras, is_legacy_keras
from profilerkit.unfinished import require_finished

from ..compat import is_from_sigmoid
from ..untouched.preservation import preserve

__all__ = [
    "CompiledCall",
    "call_model",
    "check_outputs",
    "compute_outputs",
    "is_keras",
    "is_legacy_keras",
    "is_saved_for_inference",
    "read_served_signature",
    "takes_training",
]

#: Operators that return the elements of their input unchanged.
_VIEWS = ("Identity", "Cast", "Reshape", "Squeeze", "ExpandDims")


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
        return _without_side_effects(model, args, {"training": False, **kwargs})
    if is_legacy_keras(model):
        _require_built(model)
        args, kwargs = call_arguments(model, args, kwargs)
        return model(*args, **{"training": False, **kwargs})
    if not callable(model):
        return _call_signature(model, args, kwargs)
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
    return check_outputs(_without_side_effects(model, inputs.args, inputs.kwargs, functools.partial(function, model)))


def check_outputs(outputs: Any) -> Any:
    """Return the outputs of a model; raises `InputError` for a generator and the like, which has done no work yet."""
    for output in tf.nest.flatten(outputs):
        require_finished(output)
    return outputs


class CompiledCall:
    """Calls a model repeatedly in inference mode: a Keras model by one private ``tf.function``, others directly.

    The variables are read at each call, so training in between has its effect. A Keras model that cannot be traced runs
    eagerly from then on. Others are not traced: their Python code may depend on being run, and a callable around a
    Keras model would leave graph tensors in its losses.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        #: Whether the output is that of a sigmoid; None where that is not known.
        self.ends_in_sigmoid: bool | None = None
        compiles = is_keras(model) or is_legacy_keras(model)
        # A new partial for each evaluation: TensorFlow would warn of retracing if they shared one function.
        call = functools.partial(self._call)
        self._function: Any = tf.function(call, autograph=False, reduce_retracing=True) if compiles else None
        #: The types of the inputs that it was traced for.
        self._traced: set[Any] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the model's outputs in inference mode."""
        if self._function is not None:
            try:
                with self._trace_apart(args, kwargs):
                    return self._function(args, kwargs)
            except MemoryError:
                raise
            except Exception:  # of tracing; an error of the model itself is raised again below
                self._function = None
        return self._call(args, kwargs)

    def _trace_apart(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> AbstractContextManager[Any]:
        """Restore the model after a call that may trace it: a cache would keep tensors of the trace."""
        leaves = tf.nest.flatten((args, dict(kwargs)))
        kinds = tuple(tf.type_spec_from_value(leaf) if tf.is_tensor(leaf) else repr(leaf) for leaf in leaves)
        if kinds in self._traced:
            return nullcontext()
        self._traced.add(kinds)
        return preserve(self.model)

    def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        outputs = call_model(self.model, args, kwargs)
        self.ends_in_sigmoid = _from_sigmoid(outputs)
        return outputs


def _require_built(model: Any) -> None:
    if not model.built:
        raise WithoutValuesError(
            f"the model {model.name!r} is not built: its weights have no values yet, and calling it would make them; "
            "call it once with real inputs, or give its shape to model.build(), before running it"
        )


def _without_side_effects(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], call: Callable[..., Any] | None = None
) -> Any:
    with sys.modules["keras"].StatelessScope():
        return (call or model)(*args, **kwargs)


def _call_signature(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call what a saved model without ``__call__`` serves: the ``serve`` of Keras, or its signature."""
    serve = getattr(model, "serve", None)
    if callable(serve):
        return serve(*args, **kwargs)
    signatures = getattr(model, "signatures", None) or {}
    chosen = "serving_default" if "serving_default" in signatures else next(iter(signatures), None)
    if chosen is None:
        raise InputError(
            f"a {type(model).__name__} as the model cannot be called: it has neither __call__ nor signatures; give a "
            "callable that runs it"
        )
    names = sorted(signatures[chosen].structured_input_signature[1])
    if len(args) > 1 or (args and len(names) != 1):
        raise InputError(
            f"the signature {chosen!r} of the saved model takes its inputs by name: {', '.join(names)}; give a mapping "
            "with these names"
        )
    return signatures[chosen](**dict(zip(names, args, strict=False)), **kwargs)


def read_served_signature(model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the types of the arguments of a saved model without ``__call__``; none where it serves nothing."""
    serve = getattr(model, "serve", None)
    if callable(serve):
        functions = getattr(serve, "concrete_functions", ())
        return (tuple(functions[0].structured_input_signature[0]), {}) if functions else ((), {})
    signatures = getattr(model, "signatures", None) or {}
    chosen = "serving_default" if "serving_default" in signatures else next(iter(signatures), None)
    return ((), {}) if chosen is None else ((), dict(signatures[chosen].structured_input_signature[1]))


def takes_training(model: Callable[..., Any]) -> bool:
    """Return whether the call has a parameter ``training``; of a saved function, whether it was saved with it."""
    saved = getattr(model, "__call__", None)  # noqa: B004 - what a saved model restores there holds its signatures
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
    if "training" in keywords:
        return keywords["training"] is False
    index = parameters.index("training") if "training" in parameters else len(positional)
    return index < len(positional) and positional[index] is False


def _from_sigmoid(outputs: Any) -> bool | None:
    """Return whether an output is the result of a sigmoid; None for an eager tensor, which does not show it."""
    if is_from_sigmoid(outputs):
        return True
    operator = getattr(outputs, "op", None)  # an eager tensor has none
    while operator is not None and operator.type in _VIEWS:
        operator = operator.inputs[0].op
    return None if operator is None else operator.type == "Sigmoid"
