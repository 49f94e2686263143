"""Layers of ``tf_keras``, which spells many of them another way than Keras 3, by the same closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("tf_keras")
import tensorflow as tf
import tf_keras
from slow_ones import slow_ones
from small import ones, own_macs, trace_complete, trace_complete_step
from weighted_layers import attention_macs, gates_macs

from profilerkit_tensorflow import TFBackend

layers = tf_keras.layers
BATCH = 2

#: A layer, the shape of its input without the batch, and what it multiplies for one sample.
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...], int]] = {
    "dense": (lambda: layers.Dense(5), (3, 7), 3 * 7 * 5),
    "einsum dense": (lambda: layers.EinsumDense("abc,cd->abd", (None, 4)), (3, 7), 3 * 7 * 4),
    "convolution": (lambda: layers.Conv2D(6, 3, strides=2, padding="same"), (9, 8, 4), 5 * 4 * 6 * 36),
    "grouped": (lambda: layers.Conv2D(6, 3, groups=2), (9, 8, 4), 7 * 6 * 6 * 18),
    "dilated": (lambda: layers.Conv1D(6, 3, dilation_rate=2, padding="causal"), (9, 4), 9 * 6 * 12),
    "transposed": (lambda: layers.Conv2DTranspose(6, 3, 2), (5, 4, 4), 5 * 4 * 4 * 6 * 9),
    "depthwise": (lambda: layers.DepthwiseConv2D(3, dilation_rate=2), (9, 11, 4), 5 * 7 * 4 * 9),
    "separable": (lambda: layers.SeparableConv2D(6, 3), (6, 5, 4), 4 * 3 * (4 * 9 + 4 * 6)),
    "lstm": (lambda: layers.LSTM(4), (5, 3), 5 * gates_macs("LSTM", 3, 4)),
    "gru": (lambda: layers.GRU(4, return_sequences=True), (5, 3), 5 * gates_macs("GRU", 3, 4)),
    "gru of one bias": (lambda: layers.GRU(4, reset_after=False), (5, 3), 5 * gates_macs("GRU", 3, 4)),
    "rnn": (lambda: layers.SimpleRNN(4), (5, 3), 5 * gates_macs("SimpleRNN", 3, 4)),
    "both ways": (lambda: layers.Bidirectional(layers.LSTM(4)), (5, 3), 2 * 5 * gates_macs("LSTM", 3, 4)),
    "time distributed": (lambda: layers.TimeDistributed(layers.Dense(4)), (5, 3), 5 * 12),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_counts_what_its_closed_form_says(name: str) -> None:
    build, shape, macs = LAYERS[name]
    model = tf_keras.Sequential([layers.Input(shape), build()])
    found = trace_complete(model, ones(BATCH, *shape))
    assert found.macs == BATCH * macs
    assert found.total_params == model.count_params()


@pytest.mark.parametrize("name", slow_ones(LAYERS, ["gru", "both ways"]))
def test_behind_other_weights_a_step_is_three_forward_passes(name: str) -> None:
    build, shape, macs = LAYERS[name]
    model = tf_keras.Sequential([layers.Input(shape), layers.PReLU(name="first"), build()])
    assert trace_complete_step(model, ones(BATCH, *shape)).macs == 3 * BATCH * macs


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_ones(["lstm", "gru", "rnn", "both ways"], ["gru", "both ways"]))
def test_masks_and_open_lengths(name: str) -> None:
    build, _, macs = LAYERS[name]
    model = tf_keras.Sequential([layers.Input((None,)), layers.Embedding(11, 3, mask_zero=True), build()])
    assert trace_complete(model, tf.constant([[1, 2, 3, 0, 0], [1, 0, 0, 0, 0]])).macs == BATCH * macs


def test_attention() -> None:
    query, value = layers.Input((5, 6)), layers.Input((7, 8))
    model = tf_keras.Model([query, value], layers.MultiHeadAttention(2, 4, name="m")(query, value))
    found = trace_complete(model, ones(BATCH, 5, 6), ones(BATCH, 7, 8))
    assert found.macs == BATCH * attention_macs((5, 6), (7, 8), 2, 4, 4)
    assert own_macs(found)["m"] == BATCH * 2 * 5 * 7 * (4 + 4)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (tf_keras.optimizers.SGD, 1),  # it makes the momentum whether it is used or not
        (lambda: tf_keras.optimizers.SGD(use_ema=True), 2),
        (lambda: tf_keras.optimizers.Adam(amsgrad=True), 3),
        (tf_keras.optimizers.legacy.SGD, 0),
        (tf_keras.optimizers.legacy.Adam, 2),
    ],
)
def test_the_optimizers_state_is_what_training_makes(make: Callable[[], Any], values: int) -> None:
    model = tf_keras.Sequential([layers.Input((4,)), layers.Dense(3)])
    model.compile(make(), "mse")
    assert TFBackend().optimizer_state(model) == values * 4 * (4 * 3 + 3)
    model.fit(ones(2, 4), ones(2, 3), verbose=0)
    listed = model.optimizer.variables
    made = [one for one in (listed() if callable(listed) else listed) if len(one.shape)]
    assert sum(4 * one.shape.num_elements() for one in made) == values * 4 * (4 * 3 + 3)
