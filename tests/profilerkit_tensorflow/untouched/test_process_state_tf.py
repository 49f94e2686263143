"""The process comes back as it was, and so do values however they are written; what is not the model's stays."""

from __future__ import annotations

import random
from array import array
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from time_limits import run_python

pytest.importorskip("tf_keras")
import keras
import tensorflow as tf
import tf_keras
from keras_runs import call, train, use_keras
from keras_subjects import X, build

from profilerkit_tensorflow.untouched.preservation import preserve


@pytest.mark.parametrize(
    "kind",
    [*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("fitted", "legacy_fitted", "stateful")), "module"],
)
def test_what_came_back_works_as_it_did(kind: str) -> None:
    twice = []
    for measured in (False, True):
        model = build(kind).model
        for _ in range(2):
            if measured:
                with preserve(model, variable_values=True):
                    train(model)
                    use_keras(model)
            out = call(model, tf.constant(X), training=True).numpy()
        if "fitted" in kind:
            model.fit(X, np.ones((2, 3)), verbose=0)
            out = model.predict(X, verbose=0)
        twice.append(out)
    np.testing.assert_array_equal(*twice)


def set_seed(seed: int) -> None:
    """Set the seeds of the process, Keras' own generator too, which `set_random_seed` leaves as it is in Keras 3.6."""
    keras.utils.clear_session()
    tf_keras.utils.set_random_seed(seed)
    keras.utils.set_random_seed(seed)


def draws() -> list[Any]:
    """Draw from every generator of the process."""
    operators = [tf.random.normal((2,)).numpy().tolist() for _ in range(2)]
    drawn = [tf.random.get_global_generator().normal((2,)).numpy().tolist(), keras.random.normal((2,)).numpy().tolist()]
    legacy = tf_keras.backend.random_uniform((2,)).numpy().tolist()
    return [operators, drawn, legacy, np.random.rand(2).tolist(), random.random()]


def test_the_next_random_numbers_are_what_they_would_have_been() -> None:
    found = []
    for measured in (False, True):
        set_seed(7)
        tf.random.set_global_generator(tf.random.Generator.from_seed(7))
        draws()
        layer = keras.layers.Dropout(0.5)
        if measured:
            with preserve(layer):
                draws()
                draws()
        found.append([draws(), draws()])
    assert found[0] == found[1]


def test_a_seed_that_is_set_inside_does_not_stay() -> None:
    found = []
    for measured in (False, True):
        set_seed(7)
        layer = keras.layers.Dropout(0.5)
        if measured:
            with preserve(layer):
                keras.utils.set_random_seed(3)
                tf.random.normal((1,))
        found.append([tf.random.normal((2,)).numpy().tolist(), keras.random.normal((2,)).numpy().tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize("package", [keras, tf_keras], ids=["keras", "tf_keras"])
def test_layers_are_named_as_they_would_have_been(package: Any) -> None:
    package.layers.Dense(1)  # the first of a process has no number
    number = int(package.layers.Dense(1).name.rpartition("_")[2])
    with preserve(package.layers.Dense(1)):
        for _ in range(3):
            package.layers.Dense(1).build((None, 2))
        package.layers.Conv2D(1, 1)
    assert package.layers.Dense(1).name == f"dense_{number + 2}"


def test_without_values_only_small_states_come_back() -> None:
    model = keras.Sequential([keras.Input((40,)), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 40)), np.ones((2, 40)), verbose=0)
    norm, drop = model.layers
    seed, steps = drop.seed_generator.state.numpy().tolist(), int(model.optimizer.iterations.numpy())
    mean = norm.moving_mean.numpy()
    with preserve(model):
        model.fit(np.ones((2, 40)), np.ones((2, 40)), verbose=0)
    assert drop.seed_generator.state.numpy().tolist() == seed
    assert int(model.optimizer.iterations.numpy()) == steps == 1
    assert not np.array_equal(norm.moving_mean.numpy(), mean)


WRITES: dict[str, Callable[[Any], Any]] = {
    "assign": lambda v: v.assign(tf.ones_like(v) * 7),
    "assign_add": lambda v: v.assign_add(tf.ones_like(v)),
    "scatter": lambda v: v.scatter_nd_update([[0, 0]], [9.0]),
    "graph": lambda v: tf.function(lambda: v.assign_add(v * 2))(),
    "xla": lambda v: tf.function(lambda: v.assign_add(v * 2), jit_compile=True)(),
    "adam": lambda v: keras.optimizers.Adam().apply([tf.ones_like(v)], [keras.Variable(v)]),
    "sparse then dense": lambda v: (v.scatter_nd_update([[0, 0]], [9.0]), v.assign_add(tf.ones_like(v))),
}


@pytest.mark.parametrize("how", WRITES)
def test_values_that_are_written_in_any_way_come_back_in_their_own_memory(how: str) -> None:
    module = tf.Module()
    module.weight = tf.Variable(np.arange(6, dtype="float32").reshape(2, 3))
    place = module.weight.read_value()._numpy().ctypes.data
    with preserve(module, variable_values=True):
        WRITES[how](module.weight)
        WRITES[how](module.weight)
    assert module.weight.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    if "sparse" not in how and how != "scatter":  # such a variable is copied by TensorFlow whenever it is read
        assert module.weight.read_value()._numpy().ctypes.data == place


def test_reading_the_values_is_on_no_tape_of_the_users() -> None:
    module = tf.Module()
    module.weight = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        loss = module.weight * 3
        with tape.stop_recording(), preserve(module, variable_values=True):
            module.weight.assign(5.0)
    assert tape.gradient(loss, module.weight).numpy() == 3
    assert [variable.ref() for variable in tape.watched_variables()] == [module.weight.ref()]


COUNTS = np.zeros(2)


def count_calls(x: Any) -> Any:
    COUNTS[:] += 1
    return x


def test_data_that_the_model_holds_is_as_it_was() -> None:
    module = tf.Module()
    module.table, module.number, module.text = np.zeros(3), np.zeros(()), bytearray(b"abc")
    module.signed = array("i", [1, 2])
    module.function = count_calls
    module.data = tf.data.Dataset.range(3)
    module.words = OrderedDict((str(number), number) for number in range(20_000))
    with preserve(module):
        module.table[0] = 1
        module.number += 1
        module.text += b"d"
        module.signed.append(3)
        module.function(1)
        module.words["new"] = 1
        module.words.move_to_end("0")
        assert [int(number) for number in module.data] == [0, 1, 2]
    assert (module.table.tolist(), module.number, module.text) == ([0, 0, 0], 0, b"abc")
    assert module.signed.tolist() == [1, 2]
    assert COUNTS.tolist() == [0, 0]
    assert next(iter(module.words)) == "0"
    assert "new" not in module.words


def test_settings_of_numpy_come_back() -> None:
    before = np.geterr(), np.get_printoptions()
    with preserve(tf.Module()):
        np.seterr(all="raise")
        np.set_printoptions(precision=2, suppress=True)
    assert (np.geterr(), np.get_printoptions()) == before


def test_a_frozen_layer_and_another_class_come_back() -> None:
    class Other(keras.layers.Dense):  # type: ignore[misc]
        pass

    layer = keras.layers.Dense(2)
    layer.build((None, 2))
    with preserve(layer):
        layer.trainable = False
        layer.__class__ = Other
        del layer._trainable
    assert type(layer) is keras.layers.Dense
    assert layer.trainable
    assert len(layer.trainable_weights) == 2


@pytest.mark.slow
def test_tf_keras_is_not_imported_to_ask() -> None:
    code = """
import sys, tensorflow as tf
from profilerkit_tensorflow.untouched.preservation import preserve
from profilerkit_tensorflow.model.weights import list_weights
module = tf.Module()
module.v = tf.Variable(1.0)
with preserve(module, variable_values=True):
    module.v.assign(2.0)
assert float(module.v) == 1.0 and len(list_weights(module)) == 1
print("tf_keras" in sys.modules)
"""
    done = run_python(code)
    assert done.stdout.strip() == "False"


_INTERRUPTED_IN_C = """
import os
import signal
import sys

import tensorflow as tf
from tensorflow.python.eager import record

import profilerkit

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
sent = []


def interrupt(frame, event, argument):
    asked_by_c = frame.f_back is not None and frame.f_back.f_code is record.record_operation.__code__
    if event == "call" and frame.f_code is tf.Tensor.dtype.fget.__code__ and asked_by_c and not sent:
        sent.append(True)
        os.kill(os.getpid(), signal.SIGINT)


sys.setprofile(interrupt)
try:
    profilerkit.profile(model, tf.ones((2, 4)), metrics=["training_macs"])
except KeyboardInterrupt:
    sys.setprofile(None)
    print("interrupted", sent)
"""


@pytest.mark.slow
def test_an_interrupt_within_code_in_c_crashes_nothing() -> None:
    """TensorFlow alone ends with a segmentation fault where an interrupt is raised there."""
    assert run_python(_INTERRUPTED_IN_C).stdout.endswith("interrupted [True]\n")
