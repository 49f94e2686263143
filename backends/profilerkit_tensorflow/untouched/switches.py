"""Settings of TensorFlow and numpy that a call of a model can change: how each is read, and how it is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager
from tensorflow.python.framework import config

__all__ = ["note_switches", "put_graph_options"]


class _Switch(NamedTuple):
    read: Callable[[], Any]
    put: Callable[[Any], Any]


def _put_determinism(on: bool) -> None:
    (config.enable_op_determinism if on else config.disable_op_determinism)()


def _graph_options() -> dict[str, Any]:
    return dict(eager.context()._optimizer_experimental_options)


def put_graph_options(options: dict[str, Any]) -> None:
    """Set the options of the graph optimizer to these, and to no others."""
    context = eager.context()
    context._optimizer_experimental_options = options  # the public function only adds to them
    context._thread_local_data.function_call_options = None


def _callbacks() -> list[Any]:
    return list(eager.context().op_callbacks)


def _put_callbacks(callbacks: list[Any]) -> None:
    context = eager.context()
    for callback in _callbacks():
        context.remove_op_callback(callback)
    for callback in callbacks:
        context.add_op_callback(callback)


def _put_numpy_errors(how: dict[str, Any]) -> None:
    np.seterr(**how)


_SWITCHES: tuple[_Switch, ...] = (
    _Switch(config.is_op_determinism_enabled, _put_determinism),
    _Switch(config.tensor_float_32_execution_enabled, config.enable_tensor_float_32_execution),
    _Switch(config.get_soft_device_placement, config.set_soft_device_placement),
    _Switch(tf.debugging.get_log_device_placement, tf.debugging.set_log_device_placement),
    _Switch(config.get_optimizer_jit, config.set_optimizer_jit),
    _Switch(_graph_options, put_graph_options),
    _Switch(config.get_synchronous_execution, config.set_synchronous_execution),
    _Switch(config.get_device_policy, config.set_device_policy),
    _Switch(_callbacks, _put_callbacks),
    _Switch(np.geterr, _put_numpy_errors),
)


def note_switches() -> Callable[[], None]:
    """Record all settings, and return a function that restores those that have changed."""
    noted = [(switch, switch.read()) for switch in _SWITCHES]

    def restore() -> None:
        for switch, value in noted:
            if switch.read() != value:
                switch.put(value)

    return restore
