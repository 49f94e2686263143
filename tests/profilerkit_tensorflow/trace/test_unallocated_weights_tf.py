"""An unbuilt Keras model is traced without memory for its weights, and costs what it costs once it is built."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers as L
from small import BACKEND, ones, trace_complete, trace_complete_step
from time_limits import run_python

from profilerkit import ModelInputs


class Checkpointed(L.Layer):  # type: ignore[misc]
    """A dense layer of eight outputs whose forward pass the backward pass computes again."""

    def __init__(self, again: Callable[[Any], Any]) -> None:
        super().__init__()
        self.dense = L.Dense(8)
        self.again = again

    def build(self, shape: Any) -> None:
        """Make the weights, which a function with a gradient of its own may not."""
        self.dense.build(shape)

    def call(self, x: Any) -> Any:
        """Compute the layer."""
        return self.again(lambda inner: tf.tanh(self.dense(inner)))(x)


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(
            getattr(keras, "remat", None),
            id="keras.remat",
            marks=pytest.mark.skipif(not hasattr(keras, "remat"), reason="Keras 3.9"),
        ),
        pytest.param(tf.recompute_grad, id="tf.recompute_grad"),
    ],
)
@pytest.mark.parametrize("is_built", [True, False])
def test_what_is_computed_again_is_counted_again(again: Any, is_built: bool) -> None:
    model = keras.Sequential([Checkpointed(again), L.Dense(4)])
    if is_built:
        model(ones(3, 8))
    first, second = 3 * (8 * 8), 3 * (8 * 4)
    # The first layer: forward, again, and for its weights; the second: forward, for its weights and for its input.
    assert trace_complete_step(model, ones(3, 8)).macs == 3 * first + 3 * second
    assert trace_complete(model, ones(3, 8)).macs == first + second


def network(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Reshape((36, 4)),
            layers.GRU(5),
            layers.Dense(2),
        ]
    )


def numbers(trace: Any) -> Any:
    rows = [(row["path"], row["macs"], row["flops"], row["params"], row["trainable_params"]) for row in trace.table]
    return trace.macs, trace.flops, rows, trace.memory.weight_bytes, trace.memory.peak_bytes(True)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["keras", "tf_keras"])
@pytest.mark.parametrize("tracing", [trace_complete, trace_complete_step], ids=["inference", "training"])
def test_an_unbuilt_model_costs_what_it_costs_once_it_is_built(library: str, tracing: Callable[..., Any]) -> None:
    model = network(sys.modules[library])
    unbuilt = numbers(tracing(model, ones(2, 8, 8, 3)))
    assert not model.built
    model(ones(2, 8, 8, 3))
    assert numbers(tracing(model, ones(2, 8, 8, 3))) == unbuilt


@pytest.mark.slow
@pytest.mark.parametrize("library", ["keras", "tf_keras"])
def test_a_model_can_be_called_and_trained_after_the_trace(library: str) -> None:
    model = network(sys.modules[library])
    x = ones(2, 8, 8, 3)
    BACKEND.trace_training(model, ModelInputs(x))
    with sys.modules["keras"].StatelessScope():  # at whose end Keras gives values to the variables that wait for one
        pass
    model.compile("sgd", "mse")
    model.fit(x, ones(2, 2), verbose=0)
    assert all(bool(tf.reduce_all(tf.math.is_finite(weight.value))) for weight in model.weights if library == "keras")
    assert len(model.weights) == 2 + 4 + 3 + 2


LLAMA = """
import resource, sys
import keras, tensorflow as tf
from keras import layers, ops
from profilerkit import profile

HIDDEN, LAYERS, HEADS, INNER, WORDS, TOKENS = 4096, 32, 32, 11008, 32000, 128

class Block(layers.Layer):
    def __init__(self):
        super().__init__()
        dense = lambda size: layers.Dense(size, use_bias=False)
        self.before, self.between = layers.RMSNormalization(), layers.RMSNormalization()
        self.query, self.key, self.value, self.output_dense = (dense(HIDDEN) for _ in range(4))
        self.gate, self.up, self.down = dense(INNER), dense(INNER), dense(HIDDEN)

    def heads(self, x):
        return ops.transpose(ops.reshape(x, (-1, TOKENS, HEADS, HIDDEN // HEADS)), (0, 2, 1, 3))

    def call(self, x):
        y = self.before(x)
        query, key, value = (self.heads(dense(y)) for dense in (self.query, self.key, self.value))
        scores = ops.softmax(ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))))
        y = ops.reshape(ops.transpose(ops.matmul(scores, value), (0, 2, 1, 3)), (-1, TOKENS, HIDDEN))
        x = x + self.output_dense(y)
        y = self.between(x)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y))

class Llama(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = layers.Embedding(WORDS, HIDDEN)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.last = layers.RMSNormalization()
        self.words = layers.Dense(WORDS, use_bias=False)

    def call(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.words(self.last(x))

report = profile(Llama(), tf.zeros((1, TOKENS), tf.int32), metrics=["total_params", "macs"])
products = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER
assert report["total_params"] == 2 * WORDS * HIDDEN + LAYERS * (products + 2 * HIDDEN) + HIDDEN
assert report["macs"] == TOKENS * (LAYERS * products + HIDDEN * WORDS) + LAYERS * 2 * TOKENS * TOKENS * HIDDEN
if sys.platform == "linux":  # where getrusage counts the peak of the process that started this one, too
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    print(int(line.split()[1]) * 1024)
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(peak * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="this system does not report the peak of a process")
def test_seven_billion_parameters_take_little_memory() -> None:
    done = run_python(LLAMA, variables={"TF_CPP_MIN_LOG_LEVEL": "3"})
    assert int(done.stdout) < 1.2 * 2**30
