"""The state of the process around a Keras model: what profilerkit answers for, and what a model may change itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import attack_process
import keras
import tensorflow as tf
import tf_keras
from keras.src.backend.common import global_state
from keras_fingerprint import Facts, Same
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context as eager
from tensorflow.python.eager import def_function, record
from tensorflow.python.framework import config, ops

from profilerkit_tensorflow.costs import registry as costs
from profilerkit_tensorflow.untouched.preservation import _one_at_a_time

__all__ = ["PROCESS", "SURROUNDINGS", "pristine", "process_facts"]


def _legacy() -> Any:
    package = tf_keras.backend
    return (
        package.floatx(),
        package.epsilon(),
        package.image_data_format(),
        tf_keras.mixed_precision.global_policy().name,
    )


def _keras() -> Any:
    package = keras.config
    return package.floatx(), package.epsilon(), package.image_data_format(), package.dtype_policy().name


def _operators() -> Any:
    """Return the random operators' next seeds: the global one, and the state of what makes those of operators."""
    context = eager.context()
    made = getattr(context, "_rng", None)
    return context._seed, made.getstate() if made else None


def _keras_state() -> Any:
    """Return what Keras keeps for this thread: names, seeds, scopes."""
    tracker = global_state.GLOBAL_STATE_TRACKER.__dict__
    settings = global_state.GLOBAL_SETTINGS_TRACKER.__dict__
    return {name: _plainly(value) for name, value in {**settings, **tracker}.items()}


def _plainly(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): content for key, content in value.items()}
    if isinstance(value, keras.random.SeedGenerator):
        return value.state.numpy().tolist()
    return value if isinstance(value, (int, float, str, bool, type(None))) else Same(value)


def _switches() -> Any:
    return (
        config.is_op_determinism_enabled(),
        config.tensor_float_32_execution_enabled(),
        config.get_soft_device_placement(),
        tf.debugging.get_log_device_placement(),
        config.get_optimizer_jit(),
        dict(eager.context()._optimizer_experimental_options),
        tf.config.functions_run_eagerly(),
        config.get_synchronous_execution(),
        len(eager.context().op_callbacks),
    )


def _graph() -> Any:
    graph = ops.get_default_graph() if not tf.executing_eagerly() else None
    return None if graph is None else (Same(graph), len(graph.get_operations()))


#: What profilerkit promises to leave as it was, even where the model itself does not.
PROCESS: dict[str, Callable[[], Any]] = {
    **attack_process.PROCESS,
    "tensorflow random state": _operators,
    "keras settings": _keras,
    "keras state": _keras_state,
    "tf_keras settings": _legacy,
    "tf_keras names": lambda: sum(
        sum(value.values()) for value in getattr(tf_keras.src.backend, "PER_GRAPH_OBJECT_NAME_UIDS", {}).values()
    ),
    "global generator": lambda: tf.random.get_global_generator().state.numpy().tolist(),
    "tensorflow settings": _switches,
    "default device": lambda: eager.context().device_name,
    "default graph": _graph,
    "eager execution": tf.executing_eagerly,
    "name scope": lambda: eager.context().scope_name,
    "tapes": lambda: (pywrap_tfe.TFE_Py_TapeSetIsEmpty(), pywrap_tfe.TFE_Py_TapeSetIsStopped()),
    "strategy": lambda: Same(tf.distribute.get_strategy()),
    "patched functions": lambda: [
        Same(item)
        for item in (
            def_function.Function.__call__,
            keras.layers.Layer.__call__,
            keras.layers.Dense.__call__,
            keras.layers.Dense.call,
            tf_keras.layers.Layer.__call__,
            tf_keras.layers.Dense.call,
            tf.Module.__dict__.get("__call__"),
            tf.matmul,
        )
    ],
    "profilerkit's cost formulas": lambda: [
        [(key, Same(value)) for key, value in table.items()] for table in vars(costs).values() if type(table) is dict
    ],
    "profilerkit's lock": lambda: _one_at_a_time.is_held,
}

#: What a model may change for reasons of its own: a difference counts where its plain call makes none.
SURROUNDINGS = attack_process.SURROUNDINGS


def process_facts() -> tuple[Facts, Facts]:
    """Return the facts that profilerkit answers for, and those that a model may change itself."""
    here = ("default graph", "eager execution", "tapes", "name scope", "default device", "strategy")
    found = {f"process {name}": PROCESS[name]() for name in here}
    with eager.eager_mode(), record.stop_recording():
        found |= {f"process {name}": read() for name, read in PROCESS.items() if name not in here}
    return found, {f"process {name}": read() for name, read in SURROUNDINGS.items()}


@contextlib.contextmanager
def pristine() -> Iterator[None]:
    """Put the process back after a case, whatever the model, the fault or the library have made of it."""
    keras_was, legacy_was = _keras(), _legacy()
    jit, soft = config.get_optimizer_jit(), config.get_soft_device_placement()
    with attack_process.put_back():
        try:
            yield
        finally:
            for package, was in ((keras, keras_was), (tf_keras, legacy_was)):
                package.backend.set_floatx(was[0])
                package.backend.set_epsilon(was[1])
                package.backend.set_image_data_format(was[2])
                package.mixed_precision.set_global_policy(was[3])
            tf.config.run_functions_eagerly(False)
            config.set_optimizer_jit(jit or False)
            config.set_soft_device_placement(soft)
