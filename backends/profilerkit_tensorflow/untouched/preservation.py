"""Restoring the user's model and the process to exactly their earlier state, without copying the model.

`preserve` records the contents of every layer, module, tracker, metric and optimizer, and the state of the process, and
restores everything that changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit import TracingError
from profilerkit.backend_kit.keras_layers import read_keras_attribute
from profilerkit.process.locks import Lock
from profilerkit.process.restoring import call_each, for_each, restored

from ..compat.process_state import is_recorded, is_recording_stopped, list_module_state
from .held_state import HeldState
from .process_state import change_seed, note_process

__all__ = ["preserve", "require_plain_context"]

#: Variables of at most so many elements that are not trained are counters and states of random generators.
_SMALL_ELEMENTS = 16
#: Held while a model is profiled: two profiles at once would mix the states of their models and of the process.
_one_at_a_time = Lock()


@contextmanager
def preserve(model: Any, variable_values: bool = False) -> Iterator[None]:
    """Restore the structure of the model and the state of the process at the end of the block, after errors too.

    With ``variable_values`` every variable is restored as well: weights, statistics, states, metrics, the optimizer's
    variables. Without, only untrained variables of at most 16 elements are restored: the states of random generators,
    and counters. No value is copied: TensorFlow itself copies a variable when it is written to while its value is
    referenced elsewhere, so keeping the values takes memory only for variables that are written to.

    Not restored, because nothing can set them: the state of random operators with their own seed inside a
    ``tf.function``, and lookup tables. One model is profiled at a time in a process: another thread waits here.

    Raises `TracingError` while a graph is built or gradients are recorded.
    """
    require_plain_context()
    with _one_at_a_time.block():
        reached = HeldState().visit(model, *(state.value for state in list_module_state()))
        values = _read_values(reached.variables, all_of_them=variable_values)
        process = note_process()
        restore_model = partial(call_each, reached.steps)
        # No operator runs in a forked child of TensorFlow's.
        with restored(*process, restore_model, partial(_write_back, values), in_child=restore_model):
            change_seed()
            yield


def _read_values(variables: list[Any], all_of_them: bool) -> list[tuple[Any, Any]]:
    """Return variables' handles with their values."""
    values: list[tuple[Any, Any]] = []
    with tf.init_scope():  # out of a graph that is being traced, and off the user's gradient tapes
        for variable in variables:
            is_small_state = not variable.trainable and (variable.shape.num_elements() or 0) <= _SMALL_ELEMENTS
            if not (all_of_them or is_small_state):
                continue
            handle = variable.handle
            if hasattr(handle, "numpy"):  # else it belongs to a graph
                try:
                    values.append((handle, tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.dtype)))
                except tf.errors.OpError:  # it has no value yet, or its device is gone
                    continue
    return values


def _write_back(values: list[tuple[Any, Any]]) -> None:
    """Restore the values of variables, without a copy: the variable takes over the kept value."""
    with tf.init_scope():
        for_each(lambda handle, value: tf.raw_ops.AssignVariableOp(resource=handle, value=value), values)


# Contexts in which nothing can be profiled ----------------------------------------------------------------------------

# There a call does not run the model, but adds operators to the caller's graph or tape: a time would measure the
# building of the graph, and the caller's graph would keep the operators of the profiler. Each function returns where
# that is, and what to do instead, as the end of a sentence; "" elsewhere.


def require_plain_context() -> None:
    """Raise `TracingError` in a context where a call of the model would not just run it."""
    refusal = _find_keras_scope() or _find_graph() or _find_recording()
    if refusal:
        raise TracingError(f"profilerkit was called {refusal}")


def _find_keras_scope() -> str:
    outside = "call it outside, on a model that is built and with inputs that have values"
    if read_keras_attribute("symbolic_scope") is not None:
        return f"inside a keras.SymbolicScope, where Keras computes shapes alone; {outside}"
    if read_keras_attribute("stateless_scope") is not None:
        return (
            "inside a keras.StatelessScope (a stateless_call, or Keras building a model from symbolic inputs), where "
            f"variables have other values than their own; {outside}"
        )
    return ""


def _find_graph() -> str:
    if tf.executing_eagerly():
        return ""
    graph: Any = tf.compat.v1.get_default_graph()
    if not getattr(graph, "building_function", False):
        return (
            "inside a tf.Graph, where TensorFlow runs nothing; call it outside of `graph.as_default()`, and with eager "
            "execution on"
        )
    return (
        f"while TensorFlow traces the function {graph.name!r}, which runs nothing; call it outside of tf.function, "
        "Dataset.map, model.fit's train_step and the like, with inputs that have values; tf.py_function runs Python "
        "code inside of them"
    )


def _find_recording() -> str:
    if is_recording_stopped():
        return (
            "inside tf.init_scope(), or where something else has stopped the recording of gradients; call it outside: "
            "a training step cannot be profiled there"
        )
    if is_recorded():
        return (
            "inside a tf.GradientTape (or a ForwardAccumulator, or a function with a custom gradient), which would "
            "record all of its passes; call it outside, or inside `with tape.stop_recording():`"
        )
    return ""
