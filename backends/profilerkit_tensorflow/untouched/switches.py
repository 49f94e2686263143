"""Settings of TensorFlow and numpy that a call of a model can change: how each is read, and how it is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ..compat.process_state import is_deterministic, stop_being_deterministic

__all__ = ["note_switches", "put_graph_options"]


class _Switch(NamedTuple):
    """A setting: what reads it, and what sets it to what was read."""

    read: Callable[[], Any]
    put: Callable[[Any], Any]


def _put_determinism(on: bool) -> None:
    if on:
        tf.config.experimental.enable_op_determinism()
    else:
        stop_being_deterministic()


def put_graph_options(options: dict[str, Any]) -> None:
    """Set the options of the graph optimizer to these, and to no others: None takes one away."""
    optimizer = tf.config.optimizer
    optimizer.set_experimental_options({**dict.fromkeys(optimizer.get_experimental_options()), **options})


def _put_numpy_errors(how: dict[str, Any]) -> None:
    np.seterr(**how)


_config = tf.config
_experimental = tf.config.experimental
_SWITCHES: tuple[_Switch, ...] = (
    _Switch(is_deterministic, _put_determinism),
    _Switch(_experimental.tensor_float_32_execution_enabled, _experimental.enable_tensor_float_32_execution),
    _Switch(_config.get_soft_device_placement, _config.set_soft_device_placement),
    _Switch(tf.debugging.get_log_device_placement, tf.debugging.set_log_device_placement),
    _Switch(_config.optimizer.get_jit, _config.optimizer.set_jit),
    _Switch(_config.optimizer.get_experimental_options, put_graph_options),
    _Switch(_experimental.get_synchronous_execution, _experimental.set_synchronous_execution),
    _Switch(_experimental.get_device_policy, _experimental.set_device_policy),
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
