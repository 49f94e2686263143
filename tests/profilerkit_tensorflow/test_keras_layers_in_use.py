"""Layers in models of every kind: open lengths, masks, several inputs, shared, nested, subclassed, any precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from slow_ones import slow_ones
from small import make_model, ones, own_macs, trace_complete
from weighted_layers import attention_macs, gates_macs

BATCH = 2
STEPS, FEATURES = 5, 8

#: Layers over a sequence of eight features, and what they multiply for one sample of five steps.
OVER_STEPS: dict[str, tuple[Callable[[], Any], int]] = {
    "dense": (lambda: layers.Dense(4), STEPS * 8 * 4),
    "einsum dense": (lambda: layers.EinsumDense("abc,cd->abd", output_shape=(None, 4)), STEPS * 8 * 4),
    "convolution": (lambda: layers.Conv1D(4, 3), 3 * 4 * 3 * 8),
    "dilated": (lambda: layers.Conv1D(4, 3, dilation_rate=2, padding="causal"), STEPS * 4 * 3 * 8),
    "strided": (lambda: layers.Conv1D(4, 3, strides=2, padding="same"), 3 * 4 * 3 * 8),
    "transposed": (lambda: layers.Conv1DTranspose(4, 3, strides=2), STEPS * 4 * 3 * 8),
    "depthwise": (lambda: layers.DepthwiseConv1D(3, padding="same"), STEPS * 8 * 3),
    "separable": (lambda: layers.SeparableConv1D(4, 3, padding="same"), STEPS * (8 * 3 + 8 * 4)),
    "lstm": (lambda: layers.LSTM(4), STEPS * gates_macs("LSTM", 8, 4)),
    "gru": (lambda: layers.GRU(4, return_sequences=True), STEPS * gates_macs("GRU", 8, 4)),
    "gru of one bias": (lambda: layers.GRU(4, reset_after=False), STEPS * gates_macs("GRU", 8, 4)),
    "rnn": (lambda: layers.SimpleRNN(4), STEPS * gates_macs("SimpleRNN", 8, 4)),
    "both ways": (lambda: layers.Bidirectional(layers.LSTM(4)), 2 * STEPS * gates_macs("LSTM", 8, 4)),
    "time distributed": (lambda: layers.TimeDistributed(layers.Dense(4)), STEPS * 8 * 4),
}


@pytest.mark.parametrize("name", slow_ones(OVER_STEPS, ["gru of one bias", "both ways", "depthwise", "strided"]))
def test_the_length_is_that_of_the_inputs(name: str) -> None:
    build, macs = OVER_STEPS[name]
    model = make_model(build(), (None, FEATURES))
    assert trace_complete(model, ones(BATCH, STEPS, FEATURES)).macs == BATCH * macs
    assert trace_complete(model, ones(3, STEPS, FEATURES)).macs == 3 * macs


def test_attention_over_open_lengths() -> None:
    model = make_model(layers.MultiHeadAttention(2, 4), (None, 8), (None, 8), spread=True)
    assert trace_complete(model, ones(BATCH, 5, 8), ones(BATCH, 7, 8)).macs == BATCH * attention_macs(
        (5, 8), (7, 8), 2, 4, 4
    )


def test_convolutions_over_open_images() -> None:
    model = make_model(layers.Conv2D(4, 3, strides=2, padding="same"), (None, None, 3))
    assert trace_complete(model, ones(1, 9, 7, 3)).macs == 5 * 4 * 4 * 27


# Masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lstm", "gru", "gru of one bias", "rnn", "both ways", "time distributed"])
@pytest.mark.parametrize("steps", slow_ones([STEPS, None], [None]))
def test_a_mask_changes_no_product(name: str, steps: int | None) -> None:
    build, macs = OVER_STEPS[name]
    model = keras.Sequential([keras.Input((steps, FEATURES)), layers.Masking(), build()])
    assert trace_complete(model, tf.constant(np.tri(STEPS, FEATURES)[None], tf.float32)).macs == macs


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn", "both ways"])
def test_words_of_which_some_are_masked(name: str) -> None:
    build, macs = OVER_STEPS[name]
    model = keras.Sequential([keras.Input((None,)), layers.Embedding(11, FEATURES, mask_zero=True), build()])
    assert trace_complete(model, tf.constant([[1, 2, 3, 0, 0], [1, 0, 0, 0, 0]])).macs == BATCH * macs


@pytest.mark.filterwarnings("ignore:.*does not support masking")  # Keras 3.6, of its own projections
@pytest.mark.parametrize("how", ["words", "attention_mask", "causal"])
def test_attention_with_masks(how: str) -> None:
    """Masked scores are computed all the same."""
    words = keras.Input((None,), dtype="int32")
    x = layers.Embedding(11, 8, mask_zero=how == "words")(words)
    further = {"attention_mask": np.ones((1, 5, 5), bool)} if how == "attention_mask" else {}
    outputs = layers.MultiHeadAttention(2, 4, name="m")(x, x, use_causal_mask=how == "causal", **further)
    found = trace_complete(keras.Model(words, outputs), tf.constant([[1, 2, 3, 0, 0], [1, 0, 0, 0, 0]]))
    assert found.macs == BATCH * attention_macs((5, 8), (5, 8), 2, 4, 4)


def test_a_mask_chooses_scores_and_costs_nothing() -> None:
    """Four projections of 8 to 8 features with their biases, and 6 operations for each score, as on torch."""
    x = keras.Input((5, 8))
    macs, scores = BATCH * attention_macs((5, 8), (5, 8), 2, 4, 4), BATCH * 2 * 25
    masks: list[dict[str, Any]] = [{"attention_mask": np.ones((1, 5, 5), bool)}, {"use_causal_mask": True}]
    scaled = scores
    if not hasattr(keras.config, "is_flash_attention_enabled"):  # Keras 3.6 scales queries, and adds its masks
        masks, scaled = [], BATCH * 5 * 8
    for further in ({}, *masks):
        model = keras.Model(x, layers.MultiHeadAttention(2, 4)(x, x, **further))
        found = trace_complete(model, ones(BATCH, 5, 8))
        assert (found.macs, found.flops) == (macs, 2 * macs + 4 * BATCH * 5 * 8 + 5 * scores + scaled)


# Models -----------------------------------------------------------------------------------------------------------


def test_several_inputs_and_outputs() -> None:
    image, words = keras.Input((8, 8, 3)), keras.Input((5,), dtype="int32")
    pixels = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3)(image))
    text = layers.LSTM(4)(layers.Embedding(11, 3)(words))
    both = layers.Concatenate()([pixels, text])
    model = keras.Model([image, words], [layers.Dense(2)(both), layers.Dense(1)(text)])
    macs = 36 * 4 * 27 + 5 * gates_macs("LSTM", 3, 4) + 8 * 2 + 4 * 1
    given = ones(BATCH, 8, 8, 3), ones(BATCH, 5, dtype="int32")
    assert trace_complete(model, *given).macs == trace_complete(model, list(given)).macs == BATCH * macs


def test_dictionaries_in_and_out() -> None:
    left, right = keras.Input((3,), name="left"), keras.Input((4,), name="right")
    outputs = {"sum": layers.Dense(5)(left) + layers.Dense(5)(right), "left": layers.Dense(2)(left)}
    model = keras.Model({"left": left, "right": right}, outputs)
    given = {"right": ones(BATCH, 4), "left": ones(BATCH, 3)}
    assert trace_complete(model, given).macs == trace_complete(model, **given).macs == BATCH * (15 + 20 + 6)


def test_a_shared_layer_works_wherever_it_is_called() -> None:
    one, other = keras.Input((5, 4)), keras.Input((7, 4))
    shared = layers.Dense(6, name="shared")
    found = trace_complete(keras.Model([one, other], [shared(one), shared(other)]), ones(1, 5, 4), ones(1, 7, 4))
    assert own_macs(found) == {"shared": (5 + 7) * 4 * 6}
    assert found.total_params == 4 * 6 + 6


def test_models_inside_models() -> None:
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(6, name="a"), layers.Dense(4, name="b")], name="inner")
    inputs = keras.Input((3, 4))
    outputs = layers.Dense(2, name="c")(inner(layers.TimeDistributed(inner, name="each")(inputs)[:, 0]))
    found = trace_complete(keras.Model(inputs, outputs), ones(BATCH, 3, 4))
    assert found.macs == BATCH * ((3 + 1) * (24 + 24) + 8)
    assert found.total_params == 30 + 28 + 10
    by_layer = own_macs(found)
    assert "" not in by_layer
    assert sum(macs for path, macs in by_layer.items() if path.endswith("a")) == BATCH * 4 * 24


class Branched(keras.Model):  # type: ignore[misc]
    """Reads the number of steps of its inputs, and loops in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [layers.Dense(4), layers.Dense(4)]
        self.heads = {"one": layers.Dense(1)}
        self.norm = layers.BatchNormalization()

    def call(self, x: Any, training: bool = False) -> Any:
        for block in self.blocks:
            x = self.norm(block(x), training=training)
        if training:
            x = self.blocks[1](x)
        return self.heads["one"](x)


@pytest.mark.parametrize("built", [False, True])
def test_subclassed_models(built: bool) -> None:
    model = Branched()
    if built:
        model(ones(1, 4))
    found = trace_complete(model, ones(BATCH, 4))
    assert model.built == built
    assert own_macs(found) == {"blocks[0]": BATCH * 16, "blocks[1]": BATCH * 16, "heads[one]": BATCH * 4}
    assert (found.total_params, found.trainable_params) == (20 + 20 + 5 + 16, 20 + 20 + 5 + 8)


def test_random_layers_have_no_parameters() -> None:
    """What a generator of random numbers keeps is no weight, and no layer holds it."""
    row = [layers.Dropout(0.5), layers.GaussianNoise(0.1), layers.RandomFlip(), layers.LSTM(4, dropout=0.5)]
    model = keras.Sequential([keras.Input((5, 3)), *row[:2], row[3]])
    assert len(model.variables) > len(model.weights)
    assert trace_complete(model, ones(BATCH, 5, 3)).total_params == gates_macs("LSTM", 3, 4) + 16
    assert trace_complete(keras.Sequential([keras.Input((8, 8, 3)), row[2]]), ones(1, 8, 8, 3)).total_params == 0


def test_generators_of_tensorflow_have_no_parameters() -> None:
    generator = tf.random.Generator.from_seed(1)
    kernel = tf.Variable(ones(3, 4))
    found = trace_complete(lambda x: (x + generator.normal([3])) @ kernel, ones(BATCH, 3))
    assert (found.macs, found.total_params) == (BATCH * 12, 12)


# Precision --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16", "float64"])
@pytest.mark.parametrize(
    "name", slow_ones(["dense", "dilated", "depthwise", "lstm", "gru"], ["depthwise", "lstm", "gru"])
)
def test_the_precision_changes_no_number(policy: str, name: str) -> None:
    build, macs = OVER_STEPS[name]
    plain = make_model(build(), (STEPS, FEATURES))
    with_policy = keras.Sequential([keras.Input((STEPS, FEATURES)), _with_policy(build, policy)])
    expected, found = (trace_complete(model, ones(BATCH, STEPS, FEATURES)) for model in (plain, with_policy))
    assert found.macs == expected.macs == BATCH * macs
    assert found.flops == expected.flops
    assert found.total_params == expected.total_params
    assert found.size_bytes * 4 == expected.size_bytes * (2 if policy == "float16" else 8 if policy == "float64" else 4)


def _with_policy(build: Callable[[], Any], policy: str) -> Any:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return build()
    finally:
        keras.config.set_dtype_policy(before)


def test_inputs_of_another_precision() -> None:
    model = make_model(layers.Dense(4), (8,))
    assert trace_complete(model, ones(BATCH, 8, dtype="float64")).flops == trace_complete(model, ones(BATCH, 8)).flops
    assert trace_complete(model, np.ones((BATCH, 8))).macs == BATCH * 32


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Keras' own, about the conversion to numpy
@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_a_quantised_layer_multiplies_as_much(mode: str) -> None:
    if not hasattr(layers.Dense, f"_{mode}_build"):
        pytest.skip(f"this Keras has no {mode}")
    layer = layers.Dense(4)
    model = make_model(layer, (8,))
    layer.quantize(mode)
    assert trace_complete(model, ones(BATCH, 8)).macs == BATCH * 32


@pytest.mark.skipif(not hasattr(layers, "ReversibleEmbedding"), reason="Keras 3.13")
def test_a_reversible_embedding_multiplies_on_the_way_back() -> None:
    embedding = layers.ReversibleEmbedding(11, 6, name="words")
    words = keras.Input((5,), dtype="int32")
    model = keras.Model(words, embedding(embedding(words), reverse=True))
    found = trace_complete(model, ones(BATCH, 5, dtype="int32"))
    assert own_macs(found) == {"words": BATCH * 5 * 6 * 11}
    assert found.total_params == 66


def test_low_rank_adapters_switched_on_later() -> None:
    layer = layers.Dense(5)
    model = make_model(layer, (7,))
    layer.enable_lora(2)
    found = trace_complete(model, ones(BATCH, 7))
    assert found.macs == BATCH * 35 + 7 * 2 * 5
    assert (found.total_params, found.trainable_params) == (40 + 24, 5 + 24)


def test_states_that_are_given_and_returned() -> None:
    inputs, state = keras.Input((None, 3)), keras.Input((4,))
    outputs = layers.GRU(4, return_state=True, return_sequences=True)(inputs, initial_state=state)
    found = trace_complete(keras.Model([inputs, state], outputs), ones(BATCH, 6, 3), ones(BATCH, 4))
    assert found.macs == BATCH * 6 * gates_macs("GRU", 3, 4)


def test_stateful_layers() -> None:
    model = keras.Sequential([keras.Input(batch_shape=(BATCH, 5, 3)), layers.LSTM(4, stateful=True)])
    assert trace_complete(model, ones(BATCH, 5, 3)).macs == BATCH * 5 * gates_macs("LSTM", 3, 4)
