"""The settings of TensorFlow and of a model that change numbers: how each is read, its default, those that are on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_any_keras
from profilerkit.backend_kit.keras_layers import flat_layers
from profilerkit.backend_kit.settings import Setting, list_changes

from ..compat.keras import is_compiled
from ..compat.process_state import is_deterministic, read_promotion, stop_being_deterministic

__all__ = ["SETTINGS", "SWITCHES", "Switch", "conditions", "put_graph_options"]

_config = tf.config
_experimental = tf.config.experimental


class Switch(NamedTuple):
    """A setting of TensorFlow's, which is restored after each call.

    Attributes:
        read: Returns its value.
        put: Sets it to a value that was read.
        name: How a user sets it; empty if no report names it.
        default: Its value unless it was set.
    """

    read: Callable[[], Any]
    put: Callable[[Any], Any]
    name: str = ""
    default: Any = None


def _put_determinism(on: bool) -> None:
    (_experimental.enable_op_determinism if on else stop_being_deterministic)()


def _read_graph_options() -> dict[str, Any]:
    """Return the options of the graph optimizer that the user has set; two are always there, and off."""
    options: dict[str, Any] = _config.optimizer.get_experimental_options()
    return {name: value for name, value in options.items() if value or not name.startswith("disable_")}


def put_graph_options(options: dict[str, Any]) -> None:
    """Set the options of the graph optimizer to these, and to no others: None takes one away."""
    optimizer = _config.optimizer
    optimizer.set_experimental_options({**dict.fromkeys(optimizer.get_experimental_options()), **options})


def _put_traceback_filtering(on: bool) -> None:
    (tf.debugging.enable_traceback_filtering if on else tf.debugging.disable_traceback_filtering)()


def _floatx(module: str) -> str:
    """Return the dtype of new layers; the usual one if that Keras is not imported."""
    keras = sys.modules.get(module)
    return "float32" if keras is None else str(keras.backend.floatx())


#: The settings that have functions to read and to set them; others are attributes of modules, in `compat`.
SWITCHES: tuple[Switch, ...] = (
    Switch(is_deterministic, _put_determinism, "tf.config.experimental.enable_op_determinism", False),
    Switch(
        _experimental.tensor_float_32_execution_enabled,
        _experimental.enable_tensor_float_32_execution,
        "tf.config.experimental.enable_tensor_float_32_execution",
        True,
    ),
    Switch(
        _config.get_soft_device_placement,
        _config.set_soft_device_placement,
        "tf.config.set_soft_device_placement",
        True,
    ),
    Switch(
        _experimental.get_synchronous_execution,
        _experimental.set_synchronous_execution,
        "tf.config.experimental.set_synchronous_execution",
        True,
    ),
    Switch(
        _experimental.get_device_policy,
        _experimental.set_device_policy,
        "tf.config.experimental.set_device_policy",
        "silent",
    ),
    Switch(_read_graph_options, put_graph_options, "tf.config.optimizer.set_experimental_options", {}),
    Switch(tf.debugging.get_log_device_placement, tf.debugging.set_log_device_placement),
    Switch(_config.optimizer.get_jit, _config.optimizer.set_jit),  # `conditions` names it
    Switch(tf.debugging.is_traceback_filtering_enabled, _put_traceback_filtering),
)
#: The settings that reports name if they are changed.
SETTINGS: tuple[Setting, ...] = (
    Setting("keras.config.set_floatx", partial(_floatx, "keras"), "float32", counts=True),
    Setting("tf_keras.backend.set_floatx", partial(_floatx, "tf_keras"), "float32", counts=True),
    Setting("tf.experimental.numpy.experimental_enable_numpy_behavior", read_promotion, "off", counts=True),
    *(Setting(switch.name, switch.read, switch.default) for switch in SWITCHES if switch.name),
)


def conditions(model: Any) -> Iterator[str]:
    """Yield the settings that are on, in words: policies of dtypes, XLA, and functions that run eagerly."""
    usual = {module: _floatx(module) for module in ("keras", "tf_keras")}
    for module, floatx in usual.items():
        policy = _name_policy(sys.modules[module]) if module in sys.modules else ""
        if _is_of_floats(policy) and policy != floatx:
            yield f"the policy {policy} of {module} for new layers"
    layers = flat_layers(model) if is_any_keras(model) else []
    policies = {str(getattr(getattr(layer, "dtype_policy", None), "name", "")) for layer in layers}
    for policy in sorted(filter(_is_of_floats, policies - set(usual.values()))):
        yield f"layers of the policy {policy}"
    if tf.config.optimizer.get_jit():
        yield "XLA for all functions (tf.config.optimizer.set_jit)"
    # The property is not read: it would decide the meaning of "auto", and write the result to the model.
    if is_compiled(model):
        yield "jit_compile of the model"
    if tf.config.functions_run_eagerly():
        yield "functions that run eagerly (tf.config.run_functions_eagerly)"
    if getattr(model, "run_eagerly", False) is True:
        yield "run_eagerly of the model"
    yield from list_changes(SETTINGS, counts=True)


def _is_of_floats(policy: str) -> bool:
    """Return whether a policy computes with floats; a layer of integers or texts has a policy of another name."""
    return "float" in policy


def _name_policy(keras: Any) -> str:
    try:
        return str(keras.mixed_precision.global_policy().name)
    except AttributeError:  # a Keras that has no such policies, or keeps them elsewhere
        find = getattr(getattr(keras, "config", None), "dtype_policy", None)
        return str(find().name) if find is not None else ""
