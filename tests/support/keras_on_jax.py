"""Keras 3 on JAX: the tests that `test_keras_on_jax` runs in a process of its own, since Keras' framework is fixed.

Run alone: ``KERAS_BACKEND=jax pytest tests/support/keras_on_jax.py``.
"""

from __future__ import annotations

import os
import random
import sys
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KERAS_BACKEND") != "jax":
    pytest.skip("Keras does not run on JAX in this process", allow_module_level=True)

import keras
import numpy as np
from keras_elsewhere import FEATURES, PRODUCTS, STEPS, UNITS, ones, stack_layers, trace_complete
from structure_changes import StructureChanges

from profilerkit import ModelInputs, ProfilerKitWarning, WithoutValuesError, profile
from profilerkit_jax import JaxBackend, JaxModel, JaxProfiler, get_accuracy

sys.path.insert(0, str(Path(__file__).parent))

layers = keras.layers
BACKEND = JaxBackend()


# What it counts -----------------------------------------------------------------------------------------------------


def test_a_model_may_be_wrapped() -> None:
    assert BACKEND.trace(JaxModel(stack_layers((3,), layers.Dense(2))), ModelInputs(ones(4, 3))).macs == 24


def test_arrays_that_keras_does_not_save_are_no_part_of_the_size() -> None:
    """A normalization saves mean, variance and count; it also holds the mean and the variance by the input's axes."""
    report = profile(stack_layers((16,), layers.Normalization()), ones(2, 16), metrics=["total_params", "model_size"])
    assert (report["total_params"], report["model_size"]) == (33, 33 * 4)


@pytest.mark.parametrize("trainable", [True, False])
def test_work_on_a_weight_that_a_layer_changes_is_counted(trainable: bool) -> None:
    """The product of a batch of 2 with a matrix, and the square of the matrix."""

    class Squaring(keras.layers.Layer):  # type: ignore[misc]
        def build(self, _shape: Any) -> None:
            self.matrix = self.add_weight(shape=(4, 4), trainable=trainable)

        def call(self, x: Any) -> Any:
            product = keras.ops.matmul(x, self.matrix)
            self.matrix.assign(keras.ops.matmul(self.matrix, self.matrix))
            return product

    assert BACKEND.trace(stack_layers((4,), Squaring()), ModelInputs(ones(2, 4))).macs == 2 * 4 * 4 + 4 * 4 * 4


def test_zeros_among_weights_are_counted() -> None:
    """5 zeros among the 12 weights and 3 biases of a dense layer."""
    dense = stack_layers((4,), layers.Dense(3))
    kernel = np.ones((4, 3), "float32")
    kernel.reshape(-1)[:5] = 0
    dense.layers[0].set_weights([kernel, np.ones(3, "float32")])
    assert profile(dense, ones(2, 4), metrics=["sparsity"])["sparsity"] == 5 / 15


def test_the_cell_of_a_plain_rnn_is_a_layer_that_is_called_in_each_step() -> None:
    model = stack_layers((STEPS, FEATURES), layers.RNN(layers.LSTMCell(UNITS, name="cell"), name="loop"))
    table = trace_complete(model, ones(2, STEPS, FEATURES)).table
    assert [row["path"] for row in table] == ["", "loop", "loop.cell"]
    assert (table["loop.cell"]["calls"], table["loop.cell"]["macs"]) == (STEPS, 2 * 4 * PRODUCTS)
    assert table["loop"]["calls"] == 1


def test_a_training_step_counts_the_gradients_of_what_is_trained() -> None:
    """Three products for the second layer, and two for the first, whose input needs no gradient; none where frozen."""
    model = stack_layers((3,), layers.Dense(5, name="first"), layers.Dense(2, name="second"))
    step = BACKEND.trace_training(model, ModelInputs(ones(4, 3)))
    assert step.failure is None
    assert step.macs == 2 * 4 * 3 * 5 + 3 * 4 * 5 * 2
    model.get_layer("first").trainable = False
    assert BACKEND.trace_training(model, ModelInputs(ones(4, 3))).macs == 4 * 3 * 5 + 2 * 4 * 5 * 2
    assert trace_complete(model, ones(4, 3)).trainable_params == 5 * 2 + 2


def test_two_models_inside_of_one_function() -> None:
    """Each product has two gradients, but that of the input; a normalization costs as much as in one model."""
    first = stack_layers((8,), layers.Dense(16), layers.BatchNormalization(), layers.Dense(4))
    second = stack_layers((4,), layers.Dense(3))
    products = 2 * (8 * 16 + 16 * 4 + 4 * 3)
    in_order, models = (lambda x: second(first(x))), [first, second]
    for function in (in_order, lambda x: models[1](models[0](x))):
        forward, step = (
            trace(JaxModel(function), ModelInputs(ones(2, 8))) for trace in (BACKEND.trace, BACKEND.trace_training)
        )
        assert (forward.macs, step.macs) == (products, 3 * products - 2 * 8 * 16)
        assert (forward.total_params, forward.buffers) == (first.count_params() + second.count_params(), ())
        assert [row["flops"] for row in forward.table if row["type"] == "BatchNormalization"] == [2 * 2 * 16]


def test_a_batch_norm_and_dropout_in_training() -> None:
    """The whole normalization, 7 for each element; mask and scale, 2; with known statistics and without dropout, 2."""
    model = stack_layers((8,), layers.BatchNormalization(name="norm"), layers.Dropout(0.5, name="dropout"))
    assert trace_complete(model, ones(4, 8)).flops == 2 * 32
    step = BACKEND.trace_training(model, ModelInputs(ones(4, 8)))
    forward = [op for op in step.operators if op.phase == "forward"]
    assert sum(op.flops for op in forward if op.layer == "norm") == 7 * 32
    assert sum(op.flops for op in forward if op.layer == "dropout") == 2 * 32


def test_the_states_of_random_generators_count_as_nothing() -> None:
    trace = trace_complete(stack_layers((3,), layers.Dropout(0.5), layers.Dense(2)), ones(4, 3))
    assert (trace.total_params, trace.size_bytes, trace.buffers) == (8, 32, ())


# How it is called ---------------------------------------------------------------------------------------------------


class Notes:
    """An object of the user with state of several types, which holds itself."""

    def __init__(self) -> None:
        self.count, self.sums, self.inner = 0, np.zeros(2), [self]

    def add(self) -> None:
        self.count += 1
        self.sums += 1
        self.inner.append(self)
        self.new = True


class Remembers(keras.layers.Layer):  # type: ignore[misc]
    """Notes each call in containers of several types."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self.latest: deque[Any] = deque(maxlen=2)
        self.numbers: set[int] = set()
        self.by_name: OrderedDict[str, int] = OrderedDict()
        self.text, self.counts, self.count = bytearray(), [np.zeros(2)], np.zeros(())
        self.signed, self.random = array("i", [1, 2]), [random.Random(3)]
        self.objects, self.notes = np.empty(1, object), Notes()

    def call(self, x: Any) -> Any:
        self.numbers.add(len(self.calls))
        self.calls.append(x)
        self.latest.append(x)
        self.by_name.clear()
        self.by_name["calls"] = len(self.calls)
        self.text += b"x"
        self.counts[0] += 1
        self.count += 1
        self.signed.append(3)
        self.random[0].random()
        self.notes.add()
        if self.objects[0] is not None:
            self.objects[0].append(x)
        return x


def test_what_a_layer_notes_in_containers_is_put_back() -> None:
    layer = Remembers()
    model = stack_layers((3,), layer)
    layer.calls, layer.latest, layer.numbers = [1.0, 2.0], deque([1.0, 2.0], maxlen=2), {0, 1}
    layer.by_name, layer.text = OrderedDict(first=1, calls=2), bytearray(b"abc")
    layer.counts[0][:] = 5
    layer.count[()] = 6
    layer.signed[:], layer.random[0] = array("i", [1, 2]), random.Random(3)
    layer.objects[0], layer.notes = [4], Notes()
    profile(model, ones(2, 3), metrics=["macs"], strict=True)
    assert layer.objects[0] == [4]
    assert (layer.notes.count, layer.notes.sums.tolist(), layer.notes.inner) == (0, [0, 0], [layer.notes])
    assert not hasattr(layer.notes, "new")
    assert (layer.calls, layer.latest, layer.numbers) == ([1.0, 2.0], deque([1.0, 2.0]), {0, 1})
    assert list(layer.by_name.items()) == [("first", 1), ("calls", 2)]
    assert (bytes(layer.text), layer.counts[0].tolist(), layer.count.item()) == (b"abc", [5, 5], 6)
    assert (layer.signed.tolist(), layer.random[0].random()) == ([1, 2], random.Random(3).random())


def test_inputs_as_the_model_declares_them() -> None:
    first, second = keras.Input((3,), name="first"), keras.Input((3,), name="second")
    named = keras.Model({"first": first, "second": second}, layers.Add()([first, second]))
    assert profile(named, batch_size=5, metrics=["flops"])["flops"] == 5 * 3


def test_a_model_that_is_not_built_gets_a_clear_message() -> None:
    message = (
        "the Keras model bare is not built: it has no weights yet. On JAX only its first call makes them; call it once "
        "with real inputs before"
    )
    with pytest.raises(WithoutValuesError) as raised:
        profile(keras.Sequential([layers.Dense(2)], name="bare"), ones(4, 3), metrics=["macs"])
    assert str(raised.value) == message


class Skipping(keras.layers.Layer):  # type: ignore[misc]
    """Has a layer that it never calls, as EfficientNet has one of a ratio of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.skipped = layers.Dense(2), layers.Dense(7)

    def build(self, shape: Any) -> None:
        self.used.build(shape)

    def call(self, x: Any) -> Any:
        return self.used(x)


def test_a_layer_that_is_never_called_is_no_obstacle() -> None:
    report = profile(stack_layers((3,), Skipping()), ones(4, 3), metrics=["macs", "total_params"])
    assert (report["macs"], report["total_params"]) == (4 * 3 * 2, 3 * 2 + 2)


def test_a_sigmoid_gives_probabilities() -> None:
    """Scores of 0.27 and 0.73 are below and above one half; as logits both would be above zero."""
    model = stack_layers((1,), layers.Dense(1, activation="sigmoid", kernel_initializer="ones"))
    batches = [(np.array([[-1.0], [1.0]], "float32"), np.array([0, 1]))]
    assert get_accuracy(model, batches) == 100


class HeadFirst(keras.Model):  # type: ignore[misc]
    """Makes its last layer first."""

    def __init__(self) -> None:
        super().__init__()
        self.head = layers.Dense(1, activation="sigmoid", kernel_initializer="ones")
        self.body = layers.Dense(1, kernel_initializer="ones")

    def call(self, x: Any) -> Any:
        return self.head(self.body(x))


@pytest.mark.parametrize("kind", ["hard_sigmoid", "a function", "a model"])
def test_what_may_give_probabilities_is_no_logit_for_sure(kind: str) -> None:
    """Scores of about 0.3 and 0.7, below and above one half."""
    activation = "hard_sigmoid" if kind == "hard_sigmoid" else lambda x: keras.ops.sigmoid(x)  # noqa: PLW0108
    last = layers.Dense(1, activation=activation, kernel_initializer="ones")
    model = HeadFirst() if kind == "a model" else stack_layers((1,), last)
    scores = np.array([[-1.0], [1.0]], "float32")
    model(scores)
    with pytest.warns(ProfilerKitWarning, match="not known whether the model's scores are probabilities"):
        assert get_accuracy(model, [(scores, np.array([0, 1]))]) == 100


# Changes of structure -----------------------------------------------------------------------------------------------


CHANGES_OF = StructureChanges(JaxProfiler, lambda text: ["softmax"] if text == "relu" else [])


class Repeated(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.body = layers.Dense(8, activation="relu")
        self.repeats = [1]
        self.again = 0

    def call(self, x: Any) -> Any:
        for _ in range(sum(self.repeats) + self.again):
            x = self.body(x)
        return x


CHANGES: dict[str, Callable[[Any], Any]] = {
    "an attribute": lambda net: setattr(net, "again", 3),
    "a list changed in place": lambda net: net.repeats.append(2),
    "a function of a layer": lambda net: setattr(net.body, "activation", keras.activations.softmax),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_structure_is_noticed(change: str) -> None:
    net = Repeated()
    net(ones(2, 8))
    CHANGES_OF.assert_noticed(net, ones(2, 8), CHANGES[change])


def test_what_did_not_change_is_remembered() -> None:
    net = Repeated()
    net(ones(2, 8))
    CHANGES_OF.assert_remembered(net, ones(2, 8), lambda net: net(ones(2, 8)))
    functional = keras.Sequential([keras.Input((8,)), layers.Dense(4), layers.BatchNormalization()])
    CHANGES_OF.assert_remembered(functional, ones(2, 8), lambda net: net(ones(2, 8)))


def test_a_frozen_layer_is_noticed() -> None:
    net = Repeated()
    net(ones(2, 8))
    profiler = JaxProfiler(net, inputs=ones(2, 8)).register_defaults()
    assert profiler.compute_status("trainable_params") == 72
    net.body.trainable = False
    assert profiler.compute_status("trainable_params") == 0
