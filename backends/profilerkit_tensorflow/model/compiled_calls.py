"""Calling a model many times in inference mode, as an evaluation does."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_any_keras

from ..compat.keras import is_from_sigmoid
from ..untouched.preservation import preserve
from .calls import call_model

__all__ = ["CompiledCall"]

#: Operators that return the elements of their input unchanged.
_VIEWS = ("Identity", "Cast", "Reshape", "Squeeze", "ExpandDims")


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
        compiles = is_any_keras(model)
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
        self.ends_in_sigmoid = _is_from_sigmoid(outputs)
        return outputs


def _is_from_sigmoid(outputs: Any) -> bool | None:
    """Return whether an output is the result of a sigmoid; None for an eager tensor, which does not show it."""
    if is_from_sigmoid(outputs):
        return True
    operator = getattr(outputs, "op", None)  # an eager tensor has none
    while operator is not None and operator.type in _VIEWS:
        operator = operator.inputs[0].op
    return None if operator is None else operator.type == "Sigmoid"
