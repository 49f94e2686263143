"""The user's Python code as TensorFlow's autograph converts it: ``if`` and ``for`` over tensors become operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ..compat import convert, make_twin
from ..model.calls import is_keras, is_legacy_keras
from .questions import replace_attribute

__all__ = ["convert_callable", "functions_traced_anew"]


def convert_callable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable as ``tf.function`` would run it: its Python code converted.

    A ``tf.function`` is returned unchanged, and so are layers: Keras does not convert them, ``tf_keras`` does itself.
    """
    owner = getattr(call, "__self__", call)
    if hasattr(call, "get_concrete_function") or is_keras(owner) or is_legacy_keras(owner):
        return call
    return convert(call)


@contextmanager
def functions_traced_anew() -> Iterator[None]:
    """Have ``tf.function``s traced anew where the graph that is being traced calls them.

    The layers inside are then called, and the shapes are those of the caller, whatever their ``input_signature`` is.
    One that XLA compiles stays one, as Keras' grouped convolutions on a CPU are: it runs as it would without the
    trace. Functions of a saved model have no Python code to run and are not traced anew.
    """
    function: Any = type(tf.function(lambda: None))
    original = function.__call__
    fresh: dict[int, Any] = {}

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self) is not function or id(self) in fresh or tf.executing_eagerly():
            return original(self, *args, **kwargs)
        twin = make_twin(self)
        if twin is None:
            return original(self, *args, **kwargs)
        fresh[id(twin)] = twin
        return original(twin, *args, **kwargs)

    with replace_attribute(function, "__call__", __call__):
        yield
