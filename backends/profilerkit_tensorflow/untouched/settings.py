"""The settings of TensorFlow that change numbers: how each is read, its default, and whether counts depend on it."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.settings import Setting

from ..compat.process_state import is_deterministic, read_promotion

__all__ = ["SETTINGS"]

_config = tf.config
_experimental = tf.config.experimental


def _graph_options() -> dict[str, Any]:
    """Return the options of the graph optimizer that the user has set; two are always there, and off."""
    options: dict[str, Any] = tf.config.optimizer.get_experimental_options()
    return {name: value for name, value in options.items() if value or not name.startswith("disable_")}


def _floatx(module: str) -> str:
    """Return the dtype of new layers; the usual one if that Keras is not imported."""
    keras = sys.modules.get(module)
    return "float32" if keras is None else str(keras.backend.floatx())


SETTINGS: tuple[Setting, ...] = (
    Setting("keras.config.set_floatx", partial(_floatx, "keras"), "float32", counts=True),
    Setting("tf_keras.backend.set_floatx", partial(_floatx, "tf_keras"), "float32", counts=True),
    Setting("tf.experimental.numpy.experimental_enable_numpy_behavior", read_promotion, "off", counts=True),
    Setting("tf.config.experimental.enable_op_determinism", is_deterministic, False),
    Setting(
        "tf.config.experimental.enable_tensor_float_32_execution", _experimental.tensor_float_32_execution_enabled, True
    ),
    Setting("tf.config.set_soft_device_placement", _config.get_soft_device_placement, True),
    Setting("tf.config.experimental.set_synchronous_execution", _experimental.get_synchronous_execution, True),
    Setting("tf.config.experimental.set_device_policy", _experimental.get_device_policy, "silent"),
    Setting("tf.config.optimizer.set_experimental_options", _graph_options, {}),
)
