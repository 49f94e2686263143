"""The user's Python code as TensorFlow's autograph converts it: ``if`` and ``for`` over tensors become operators."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.backend_kit.replaced_attributes import replace_attribute
from profilerkit.process.restoring import restored

from ..compat.graphs import convert, make_twin

__all__ = ["convert_callable", "functions_traced_anew", "quietly"]


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
    """Have ``tf.function``s traced anew where the graph that is being traced calls them.

    The layers inside are then called, and the shapes are those of the caller, whatever their ``input_signature`` is.
    One that XLA compiles stays one, as Keras' grouped convolutions on a CPU are: it runs as it would without the
    trace. Functions of a saved model have no Python code to run and are not traced anew.
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
        return original(twin, *args, **kwargs)

    with replace_attribute(function_class, "__call__", __call__):
        yield


@contextmanager
def quietly() -> Iterator[None]:
    """Have TensorFlow log no warnings, as of what autograph cannot convert: such code is run as it is."""
    log = logging.getLogger("tensorflow")
    with restored(partial(log.setLevel, log.level), in_child=False):
        log.setLevel(max(log.level, logging.ERROR))
        yield
