"""Models that a review found to be counted wrongly once."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("tf_keras")
import keras
import tensorflow as tf
import tf_keras
from small import trace, trace_complete, trace_complete_step

from profilerkit import profile


class LearnedQuery(keras.layers.Layer):  # type: ignore[misc]
    """Attends with queries that are a weight of its own, as DETR and Perceiver do."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(2, 4)
        self.query = self.add_weight(shape=(1, 5, 8), name="query")

    def call(self, x: Any) -> Any:
        return self.attention(self.query, x)


def test_a_weight_may_be_the_input_of_a_layer() -> None:
    """Queries 5 x 8 x 8, keys and values 6 x 8 x 8 each, two products 5 x 6 x 8, the projection 5 x 8 x 8."""
    model, x = LearnedQuery(), tf.ones((1, 6, 8))
    model(x)
    assert trace_complete(model, x).macs == 5 * 64 + 2 * 6 * 64 + 2 * 5 * 6 * 8 + 5 * 64
    assert trace_complete_step(model, x).macs > 2 * trace_complete(model, x).macs


def test_the_space_of_a_fused_batch_norm_is_none_of_the_models_tensors() -> None:
    model = tf_keras.Sequential([tf_keras.layers.InputLayer((8, 8, 3)), tf_keras.layers.BatchNormalization()])
    report = profile(model, tf.ones((2, 8, 8, 3)), metrics=["memory_footprint", "training_memory"], strict=True)
    assert report["memory_footprint"] >= 2 * 2 * 8 * 8 * 3 * 4


def test_a_loop_whose_body_is_a_function_of_tensorflow_1_is_entered_or_named() -> None:
    labels = tf.constant([[1, 2], [2, 1]])

    def loss(logits: Any) -> Any:
        return tf.nn.ctc_loss(labels, logits, tf.constant([2, 2]), tf.constant([5, 5]), logits_time_major=False)

    found = trace(tf.function(loss), tf.ones((2, 5, 4)))
    assert found.failure is None
    assert found.flops > 0
