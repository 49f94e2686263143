"""Sizes that depend on values, which a graph does not know: they are counted in an eager run."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers as L
from small import BACKEND, ones, trace

from profilerkit import ModelInputs, profile

#: Ten embeddings of four numbers, and three outputs of each.
EMBEDDINGS, OUTPUTS = 10 * 4, 4 * 3 + 3


def vectorization(**options: Any) -> Any:
    layer = L.TextVectorization(max_tokens=10, **options)
    layer.adapt(["a b c", "d e"])
    return layer


class Padded(keras.Model):  # type: ignore[misc]
    """Reads ragged rows of words, padded to the longest."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = L.Embedding(10, 4)
        self.dense = L.Dense(3)

    def call(self, x: Any) -> Any:
        """Return three numbers for each word."""
        return self.dense(self.embedding(x.to_tensor()))


def in_an_eager_run(trace: Any) -> bool:
    return trace.method == "an eager run" and "sizes in its graph depend on values" in trace.notes[0]


def test_texts_are_counted_by_their_words() -> None:
    model = keras.Sequential([keras.Input((), dtype="string"), vectorization(), L.Embedding(10, 4), L.Dense(3)])
    seen = trace(model, tf.constant(["a b c", "d"]))
    assert in_an_eager_run(seen)
    assert seen.macs == 2 * 3 * (4 * 3)  # two texts, padded to three words
    assert seen.missing == ()
    assert sum(weight.count for row in seen.layers for weight in row.parameters) == EMBEDDINGS + OUTPUTS
    longer = trace(model, tf.constant(["a b c d e", "d"]))
    assert longer.macs == 2 * 5 * (4 * 3)


@pytest.mark.parametrize("is_built", [True, False])
def test_ragged_inputs_are_counted_by_their_longest_row(is_built: bool) -> None:
    model = Padded()
    rows = tf.ragged.constant([[1, 2, 3], [4]])
    if is_built:
        model(rows)
    seen = trace(model, rows)
    assert in_an_eager_run(seen)
    assert (seen.macs, seen.missing) == (2 * 3 * (4 * 3), ())
    assert model.built is is_built
    report = profile(model, rows, metrics=["total_params", "macs"])
    assert report["total_params"] == EMBEDDINGS + OUTPUTS


def test_sparse_inputs_of_an_unbuilt_model() -> None:
    rows = tf.sparse.from_dense([[1.0, 0, 2], [0, 3, 0]])
    seen = trace(keras.Sequential([L.Dense(4)]), rows)
    assert (seen.macs, seen.missing) == (2 * 3 * 4, ())  # Keras makes them dense where no input says that it is sparse


def test_the_weights_that_a_function_captures_are_kept() -> None:
    weights = tf.Variable(ones(4, 5))
    function = tf.function(lambda x: tf.boolean_mask(x, x[:, 0] > 0) @ weights)
    x = tf.concat([ones(4, 4), -ones(2, 4)], axis=0)
    seen = trace(function, x)
    assert in_an_eager_run(seen)
    assert seen.macs == 4 * (4 * 5)
    assert sum(weight.count for row in seen.layers for weight in row.parameters) == 4 * 5


def test_a_program_is_still_there_to_be_run() -> None:
    model = Padded()
    rows = tf.ragged.constant([[1, 2, 3], [4]])
    model(rows)
    inputs = ModelInputs(rows)
    assert BACKEND.trace(model, inputs).program.fits(model, inputs)


def test_where_an_eager_run_raises_the_graph_is_counted() -> None:
    def only_in_graphs(x: Any) -> Any:
        if tf.executing_eagerly():
            raise RuntimeError("no eager run")
        return tf.boolean_mask(x, x[:, 0] > 0) @ ones(4, 5)

    seen = trace(only_in_graphs, ones(2, 4))
    assert (seen.method, seen.failure) == ("a traced graph", None)
    assert list(seen.uncounted) == ["MatMul of unknown shape"]
