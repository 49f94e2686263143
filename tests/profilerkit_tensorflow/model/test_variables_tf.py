"""Which variables are a model's parameters, how many elements and bytes they have, and when they have changed."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tf_keras")
import keras
import tensorflow as tf
import tf_keras

from profilerkit_tensorflow import TFBackend
from profilerkit_tensorflow.model.stored_variables import count_bytes, count_elements
from profilerkit_tensorflow.model.structure import fingerprint
from profilerkit_tensorflow.model.weights import ModelParts, list_weights
from profilerkit_tensorflow.untouched.held_state import HeldState

#: Dense of 4 x 3 + 3, then scale, shift and two statistics for each of 3: the statistics are not trained.
TOTAL, TRAINED = 15 + 12, 15 + 6
BACKEND = TFBackend()


def network(package: Any) -> Any:
    model = package.Sequential(
        [
            package.layers.Input((4,)),
            package.layers.Dense(3),
            package.layers.BatchNormalization(),
            package.layers.Dropout(0.5),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(np.ones((2, 4)), np.ones((2, 3)), verbose=0)
    return model


def counts(model: Any) -> tuple[int, int]:
    """Return the elements of the parameters, and their bytes."""
    weights = list_weights(model)
    return sum(map(count_elements, weights)), sum(map(count_bytes, weights))


def count_trained(model: Any) -> int:
    return sum(weight.count for weight in BACKEND.trace(model, None).parameters if weight.trainable)


@pytest.mark.parametrize("package", [keras, tf_keras], ids=["keras", "tf_keras"])
def test_a_fitted_model_has_its_weights_and_no_state_of_metrics_optimizer_and_seeds(package: Any) -> None:
    model = network(package)
    assert (*counts(model), count_trained(model)) == (TOTAL, 4 * TOTAL, TRAINED)
    assert all(weight is own for weight, own in zip(list_weights(model), model.weights, strict=True))
    assert len(HeldState().visit(model).variables) > 6
    model.layers[0].trainable = False
    assert (counts(model)[0], count_trained(model)) == (TOTAL, 6)


@pytest.mark.parametrize("package", [keras, tf_keras], ids=["keras", "tf_keras"])
def test_a_model_that_is_not_built_has_none(package: Any) -> None:
    built = package.layers.Dense(3)
    built.build((None, 4))
    assert list_weights(package.Sequential([package.layers.Dense(3)])) == []
    assert list_weights(package.layers.Dense(3)) == []
    assert counts(built)[0] == 15
    assert ModelParts(built).layers == [built]
    assert ModelParts(tf.Module()).layers == []


def test_a_weight_used_twice_counts_once() -> None:
    inputs = keras.Input((4,))
    shared = keras.layers.Dense(4)
    model = keras.Model(inputs, shared(shared(inputs)))
    assert (*counts(model), count_trained(model)) == (20, 80, 20)


class Module(tf.Module):  # type: ignore[misc]
    """Variables of its own, in containers and in a Keras layer; and an optimizer with its state."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.ones((4, 3), tf.float16))
        self.parts = [tf.Variable([1.0, 2.0]), {"scale": tf.Variable(1.0, trainable=False)}]
        self.dense = keras.layers.Dense(2)
        self.dense.build((None, 3))
        self.again = self.weight
        self.dice = tf.random.Generator.from_seed(1)
        self.optimizer = keras.optimizers.Adam()
        self.optimizer.build([self.parts[0]])
        self.mean = keras.metrics.Mean()

    @tf.function  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        return self.dense(tf.cast(x @ self.weight, tf.float32))


def test_a_module_has_what_its_attributes_lead_to() -> None:
    assert counts(Module()) == (12 + 2 + 1 + 8, 24 + 4 * 11)
    assert count_trained(Module()) == 12 + 2 + 8


def test_functions_have_what_they_name_close_over_or_captured() -> None:
    module, free = Module(), keras.Variable([1.0, 2.0, 3.0])
    spec = tf.TensorSpec((1, 4), tf.float16)
    assert counts(module.__call__.get_concrete_function(spec)) == (20, 24 + 32)
    assert counts(lambda x: x + free) == (3, 12)
    assert counts(tf.function(lambda x: x + free)) == (3, 12)
    assert counts(module.dense.call)[0] == 8
    assert counts(module.__call__)[0] == 23
    assert counts(uses_a_global)[0] == 2
    assert counts(tf.function(uses_a_global))[0] == 2


GLOBAL = tf.Variable([1.0, 2.0])
UNUSED = tf.Variable([1.0, 2.0])


def uses_a_global(x: Any) -> Any:
    return inner(x)


def inner(x: Any) -> Any:
    return x.UNUSED + GLOBAL


def test_a_saved_model_has_its_variables() -> None:
    module = tf.Module()
    module.weight = tf.Variable(tf.ones((4, 3)))
    module.call = tf.function(lambda x: x @ module.weight, input_signature=[tf.TensorSpec((1, 4))])
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        loaded = tf.saved_model.load(folder)
    assert counts(loaded) == (12, 48)
    assert counts(loaded.call) == (12, 48)


def test_an_exported_keras_model_has_its_weights_and_no_seeds() -> None:
    model = network(keras)
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        loaded = tf.saved_model.load(folder)
    assert (*counts(loaded), count_trained(loaded)) == (TOTAL, 4 * TOTAL, TRAINED)
    assert counts(loaded.signatures["serving_default"])[0] == TOTAL


def test_bytes_are_by_the_dtype_of_each_variable() -> None:
    layer = keras.layers.Dense(3, dtype="bfloat16")
    layer.build((None, 4))
    assert counts(layer) == (15, 30)
    module = tf.Module()
    module.weight = tf.Variable(tf.cast(tf.ones((4, 3)), tf.dtypes.experimental.float8_e4m3fn), trainable=False)
    assert (*counts(module), count_trained(module)) == (12, 12, 0)


@pytest.mark.skipif(not hasattr(keras.layers.Dense, "_int4_build"), reason="Keras 3.11")
@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have", "ignore:__array__ implementation")
@pytest.mark.parametrize(
    ("layer", "shape", "numbers", "stored"),
    [
        (lambda: keras.layers.Dense(5, use_bias=False), (6,), 30, 18),
        (lambda: keras.layers.EinsumDense("ab,bc->ac", output_shape=(7,)), (5,), 35, 20),
        (lambda: keras.layers.EinsumDense("ab,bcd->acd", output_shape=(2, 3)), (5,), 30, 15),
        (lambda: keras.layers.Embedding(9, 5), (), 45, 27),
    ],
    ids=["dense", "einsum", "einsum with heads", "embedding"],
)
def test_a_kernel_packed_into_four_bits_counts_its_numbers_and_its_bytes(
    layer: Any, shape: tuple[int, ...], numbers: int, stored: int
) -> None:
    model = keras.Sequential([keras.Input(shape), layer()])
    model.quantize("int4")
    packed = [weight for weight in BACKEND.trace(model, None).parameters if weight.name in ("kernel", "embeddings")]
    assert [(w.dtype, w.count, w.bytes, w.trainable) for w in packed] == [("int8", numbers, stored, False)]


@pytest.mark.parametrize("package", [keras, tf_keras], ids=["keras", "tf_keras"])
def test_the_fingerprint_changes_with_values_flags_and_variables_alone(package: Any) -> None:
    model = network(package)
    dense = model.layers[0]
    before = fingerprint(model)
    assert fingerprint(model) == before
    model.optimizer.learning_rate = 0.5
    assert fingerprint(model) == before
    kernel = dense.kernel.numpy()
    swapped = kernel[::-1].copy()
    dense.kernel.assign(swapped)
    assert fingerprint(model) != before
    dense.kernel.assign(kernel)
    assert fingerprint(model) == before
    before = BACKEND.fingerprint(model)
    assert BACKEND.fingerprint(model) == before
    dense.trainable = False
    assert BACKEND.fingerprint(model) != before


def test_the_fingerprint_of_any_dtype_and_of_what_has_no_value_here() -> None:
    module = tf.Module()
    module.words = tf.Variable(["a", "b"], trainable=False)
    module.small = tf.Variable(tf.cast([1.0, 2.0], tf.bfloat16))
    module.scalar = tf.Variable(1.0)
    module.none = tf.Variable(tf.zeros((0, 3)))
    before = fingerprint(module)
    assert fingerprint(module) == before
    module.words.assign(["a", "c"])
    assert fingerprint(module) != before
    with tf.Graph().as_default():
        module.symbolic = tf.Variable(1.0)
    assert len(fingerprint(module)) == 5  # type: ignore[arg-type]
