"""The settings of TensorFlow and Keras that change numbers: how each is read, its default, and what depends on it."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import config, ops

from profilerkit.backend_kit.settings import Setting

__all__ = ["SETTINGS"]


def _graph_options() -> dict[str, Any]:
    """Return the options of the graph optimizer that the user has set."""
    return dict(context.context()._optimizer_experimental_options)


def _promotion() -> str:
    """Return how operators convert the dtypes of their arguments."""
    return str(ops._dtype_conversion_mode.name).lower()


def _floatx(module: str) -> str:
    """Return the dtype of new layers; the usual one if that Keras is not imported."""
    keras = sys.modules.get(module)
    return "float32" if keras is None else str(keras.backend.floatx())


SETTINGS: tuple[Setting, ...] = (
    Setting("keras.config.set_floatx", partial(_floatx, "keras"), "float32", counts=True),
    Setting("tf_keras.backend.set_floatx", partial(_floatx, "tf_keras"), "float32", counts=True),
    Setting("tf.experimental.numpy.experimental_enable_numpy_behavior", _promotion, "off", counts=True),
    Setting("tf.config.experimental.enable_op_determinism", config.is_op_determinism_enabled, False),
    Setting("tf.config.experimental.enable_tensor_float_32_execution", config.tensor_float_32_execution_enabled, True),
    Setting("tf.config.set_soft_device_placement", config.get_soft_device_placement, True),
    Setting("tf.config.experimental.set_synchronous_execution", config.get_synchronous_execution, True),
    Setting("tf.config.experimental.set_device_policy", config.get_device_policy, "silent"),
    Setting("tf.config.optimizer.set_experimental_options", _graph_options, {}),
)
