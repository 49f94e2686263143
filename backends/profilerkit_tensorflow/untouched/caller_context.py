"""Contexts in which nothing can be profiled: TensorFlow or Keras builds a graph, or gradients are recorded.

There a call does not run the model, but adds operators to the caller's graph or tape: a time would be that of building
it, and the caller's graph would keep the operators of the profiler.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit import TracingError
from profilerkit.backend_kit.keras_layers import read_keras_attribute

from ..compat.tapes import is_recorded, is_recording_stopped

__all__ = ["require_plain_context"]


class _Refusal(NamedTuple):
    """Where nothing can be profiled, and what to do instead, as parts of a sentence."""

    where: str
    instead: str


def require_plain_context() -> None:
    """Raise `TracingError` in a context where a call of the model would not just run it."""
    refusal = _find_keras_scope() or _find_graph() or _find_recording()
    if refusal is not None:
        raise TracingError(f"profilerkit was called {refusal.where}; {refusal.instead}")


def _find_keras_scope() -> _Refusal | None:
    outside = "call it outside, on a model that is built and with inputs that have values"
    if read_keras_attribute("symbolic_scope") is not None:
        return _Refusal("inside a keras.SymbolicScope, where Keras computes shapes alone", outside)
    if read_keras_attribute("stateless_scope") is not None:
        return _Refusal(
            "inside a keras.StatelessScope (a stateless_call, or Keras building a model from symbolic inputs), where "
            "variables have other values than their own",
            outside,
        )
    return None


def _find_graph() -> _Refusal | None:
    if tf.executing_eagerly():
        return None
    graph: Any = tf.compat.v1.get_default_graph()
    if not getattr(graph, "building_function", False):
        return _Refusal(
            "inside a tf.Graph, where TensorFlow runs nothing",
            "call it outside of `graph.as_default()`, and with eager execution on",
        )
    return _Refusal(
        f"while TensorFlow traces the function {graph.name!r}, which runs nothing",
        "call it outside of tf.function, Dataset.map, model.fit's train_step and the like, with inputs that have "
        "values; tf.py_function runs Python code inside of them",
    )


def _find_recording() -> _Refusal | None:
    if is_recording_stopped():
        return _Refusal(
            "inside tf.init_scope(), or where something else has stopped the recording of gradients",
            "call it outside: a training step cannot be profiled there",
        )
    if is_recorded():
        return _Refusal(
            "inside a tf.GradientTape (or a ForwardAccumulator, or a function with a custom gradient), which would "
            "record all of its passes",
            "call it outside, or inside `with tape.stop_recording():`",
        )
    return None
