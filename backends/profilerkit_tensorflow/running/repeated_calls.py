"""A model that is called many times in inference mode, on inputs of any shapes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_kinds import is_any_keras

from ..model.calls import call_model
from ..trace.messages import explain_failures
from ..untouched.preservation import preserve
from .required_values import build_weightless

__all__ = ["RepeatedCall"]


class RepeatedCall:
    """Calls a Keras model by one private ``tf.function``, and other models directly.

    The variables are read at each call, so training in between has its effect. A Keras model that cannot be traced runs
    eagerly from then on. Others are not traced: their Python code may depend on being run, and a callable around a
    Keras model would leave graph tensors in its losses.

    Attributes:
        model: The model.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        # A new partial for each evaluation: TensorFlow would warn of retracing if they shared one function.
        self._call = functools.partial(call_model, model)
        compiles = is_any_keras(model)
        self._function: Any = tf.function(self._call, autograph=False, reduce_retracing=True) if compiles else None
        #: The types of the inputs that it was traced for.
        self._traced: set[Any] = set()

    def run_on(self, inputs: ModelInputs) -> Any:
        """Return the model's outputs for inputs; its errors name the inputs."""
        with explain_failures(self.model, inputs):
            build_weightless(self.model, inputs)
            return self._run(inputs.args, inputs.kwargs)

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if self._function is not None:
            try:
                with self._restore_after_trace(args, kwargs):
                    return self._function(args, kwargs)
            except MemoryError:
                raise
            except Exception:  # of tracing; an error of the model itself is raised again below
                self._function = None
        return self._call(args, kwargs)

    def _restore_after_trace(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> AbstractContextManager[Any]:
        """Return a context that restores the model after a call that may trace it: a cache would keep its tensors."""
        leaves = tf.nest.flatten((args, dict(kwargs)))
        kinds = tuple(tf.type_spec_from_value(leaf) if tf.is_tensor(leaf) else repr(leaf) for leaf in leaves)
        if kinds in self._traced:
            return nullcontext()
        self._traced.add(kinds)
        return preserve(self.model)
