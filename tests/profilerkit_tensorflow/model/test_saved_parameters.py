"""What counts as a parameter: not the states of recurrent layers or random generators; all that a saved model holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from small import ones, trace_complete

from profilerkit.trace.records import ModelTrace


def states(found: ModelTrace) -> list[tuple[str, int, int]]:
    """Return the path, elements and bytes of the buffers that are not saved."""
    kept = [(layer.path, buffer) for layer in found.layers for buffer in layer.buffers]
    assert not any(buffer.persistent or buffer.trainable for _, buffer in kept)
    return [(path, buffer.count, buffer.bytes) for path, buffer in kept]


def test_the_states_of_a_stateful_lstm_are_no_parameters() -> None:
    inputs = keras.Input((6, 4), batch_size=2)
    model = keras.Model(inputs, keras.layers.LSTM(8, stateful=True, name="memory")(inputs))
    found = trace_complete(model, ones(2, 6, 4))
    assert found.total_params == model.count_params() == 4 * 8 * (4 + 8 + 1)
    assert found.size_bytes == 416 * 4
    assert states(found) == [("memory", 2 * 8, 64), ("memory", 2 * 8, 64)]
    assert found.memory.weight_bytes >= (416 + 32) * 4


def test_the_states_of_a_stack_of_cells_of_tf_keras_are_no_parameters() -> None:
    layers = pytest.importorskip("tf_keras").layers
    inputs = layers.Input((6, 4), batch_size=2)
    stack = layers.RNN([layers.LSTMCell(4), layers.GRUCell(3)], stateful=True, name="memory")
    found = trace_complete(pytest.importorskip("tf_keras").Model(inputs, stack(inputs)), ones(2, 6, 4))
    assert found.total_params == 4 * 4 * (4 + 4 + 1) + 3 * 3 * (4 + 3 + 2)
    assert states(found) == [("memory", 8, 32), ("memory", 8, 32), ("memory", 6, 24)]


class Counting(keras.layers.Layer):  # type: ignore[misc]
    """Has a variable of its own that it does not call a weight."""

    def build(self, shape: Any) -> None:
        """Make a weight and a state."""
        self.scale = self.add_weight(shape=(4,), name="scale")
        self.passed = self.add_weight(shape=(3,), name="passed", trainable=False)

    @property
    def weights(self) -> Any:
        """Leave out the state."""
        return [self.scale]

    def call(self, x: Any) -> Any:
        """Use both."""
        return x * self.scale + keras.ops.sum(self.passed)


def test_a_variable_that_is_not_among_the_weights_is_a_state() -> None:
    layer = Counting()
    layer.build((None, 4))
    found = trace_complete(layer, ones(2, 4))
    assert [weight.name for weight in found.parameters] == ["scale"]
    assert states(found) == [("", 3, 12)]
    assert found.memory.weight_bytes >= (4 + 3) * 4


class Holds(tf.Module):  # type: ignore[misc]
    """Holds more than its function uses: under two names, in a list, and in a module inside."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(ones(8, 4))
        self.again = self.kernel
        self.frozen = tf.Variable(ones(3), trainable=False)
        self.listed = [tf.Variable(ones(5))]
        self.inner = tf.Module()
        self.inner.bias = tf.Variable(ones(2))
        self.generator = tf.random.Generator.from_seed(1)

    @tf.function(input_signature=[tf.TensorSpec((None, 8))])
    def __call__(self, x):  # type: ignore[no-untyped-def]  # TensorFlow reads annotations as signatures
        """Multiply."""
        return x @ self.kernel


def test_a_saved_module_holds_what_it_held(tmp_path: Path) -> None:
    module, x = Holds(), ones(2, 8)
    tf.saved_model.save(module, tmp_path)
    held, loaded = trace_complete(module, x), trace_complete(tf.saved_model.load(tmp_path), x)
    assert held.total_params == loaded.total_params == 8 * 4 + 3 + 5 + 2
    assert held.trainable_params == loaded.trainable_params == 8 * 4 + 5 + 2
    assert (held.macs, loaded.macs) == (2 * 8 * 4, 2 * 8 * 4)


def test_the_optimizer_of_a_saved_module_is_none_of_its_parts(tmp_path: Path) -> None:
    module = Holds()
    module.optimizer = tf.Module()
    module.optimizer.slot = tf.Variable(ones(8, 4))
    tf.saved_model.save(module, tmp_path)
    assert trace_complete(tf.saved_model.load(tmp_path), ones(2, 8)).total_params == 8 * 4 + 3 + 5 + 2
