"""Each setting of TensorFlow that changes numbers is named in the reports that it changes, and in no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf
from tensorflow.python.framework import config, ops

from profilerkit import profile
from profilerkit.backend_kit.settings import Setting
from profilerkit_tensorflow import TFBackend
from profilerkit_tensorflow.untouched.settings import SETTINGS, put_graph_options
from profilerkit_tensorflow.untouched.settings import conditions as read_conditions


def _put_determinism(on: bool) -> None:
    (config.enable_op_determinism if on else config.disable_op_determinism)()


def _put_legacy_floatx(dtype: str) -> None:
    pytest.importorskip("tf_keras").backend.set_floatx(dtype)


#: How each is set, and another value than its default.
WRITERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "keras.config.set_floatx": (keras.config.set_floatx, "float64"),
    "tf_keras.backend.set_floatx": (_put_legacy_floatx, "float64"),
    "tf.experimental.numpy.experimental_enable_numpy_behavior": (ops.set_dtype_conversion_mode, "legacy"),
    "tf.config.experimental.enable_op_determinism": (_put_determinism, True),
    "tf.config.experimental.enable_tensor_float_32_execution": (config.enable_tensor_float_32_execution, False),
    "tf.config.set_soft_device_placement": (config.set_soft_device_placement, False),
    "tf.config.experimental.set_synchronous_execution": (config.set_synchronous_execution, False),
    "tf.config.experimental.set_device_policy": (config.set_device_policy, "warn"),
    "tf.config.optimizer.set_experimental_options": (put_graph_options, {"constant_folding": False}),
}


def conditions(*metrics: str) -> tuple[str, ...]:
    weights = tf.ones((8, 4))
    few: Any = {"num_iters": 2, "warmup": 0} if "execution_time" in metrics else {}
    report = profile(lambda x: x @ weights, tf.zeros((2, 8)), metrics=metrics, backend="tensorflow", **few)
    return report.conditions


@pytest.fixture(params=SETTINGS, ids=lambda setting: setting.name)
def setting(request: pytest.FixtureRequest) -> Setting:
    setting: Setting = request.param
    return setting


@pytest.fixture
def value(setting: Setting) -> Iterator[Any]:
    write, value = WRITERS[setting.name]
    write(value)
    yield value
    write(setting.default)
    assert setting.read() == setting.default


def test_nothing_is_switched_at_first() -> None:
    assert conditions("macs", "execution_time") == ()


def test_a_setting_is_named_where_it_changes_something(setting: Setting, value: Any) -> None:
    words = f"{setting.name}: {value}"
    assert words in conditions("macs", "execution_time")
    assert (words in conditions("macs")) is setting.counts


@pytest.mark.parametrize("policy", ["bfloat16", "float16", "mixed_bfloat16", "float64"])
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_a_policy_is_named_for_new_layers_and_for_the_layers_of_a_model(package: str, policy: str) -> None:
    framework: Any = pytest.importorskip(package)
    layers, put = framework.layers, framework.mixed_precision.set_global_policy
    put(policy)
    try:
        model = framework.Sequential([layers.Input((4,)), layers.Dense(3)])
        words = {f"the policy {policy} of {package} for new layers", f"layers of the policy {policy}"}
        assert set(read_conditions(model)) == words
    finally:
        put("float32")
    assert list(read_conditions(model)) == [f"layers of the policy {policy}"]
    layers_of_integers = framework.Sequential([layers.Input((4,)), layers.Rescaling(2, dtype="int32")])
    assert list(read_conditions(layers_of_integers)) == []


def test_a_profiler_does_not_remember_values_under_another_setting(setting: Setting) -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    before = TFBackend().fingerprint(model)
    write, value = WRITERS[setting.name]
    write(value)
    try:
        assert TFBackend().fingerprint(model) != before
    finally:
        write(setting.default)


def test_every_setting_of_the_process_is_in_the_table_or_left_out() -> None:
    """A setting that a new release adds is noticed here."""
    left_out = {
        *("get_device_details", "get_logical_device_configuration", "get_memory_growth", "get_memory_info"),
        *("get_memory_usage", "get_visible_devices"),  # of a device
        *("get_inter_op_parallelism_threads", "get_intra_op_parallelism_threads"),  # in the environment of a report
        "get_optimizer_jit",  # has a note of its own
        "get_optimizer_experimental_options",  # in the table, without those that are switched on from the start
    }
    readers = {name for name in vars(config) if name.startswith(("get_", "is_")) or name.endswith("_enabled")}
    assert readers - left_out == {name for setting in SETTINGS if (name := _name(setting)) in vars(config)}


def _name(setting: Setting) -> str:
    return str(getattr(setting.read, "__name__", ""))
