"""Training steps of every Keras layer that has weights, against closed forms.

Where a product is of two operands, one of them the weights, each of the two gradients is a product of as many
multiply-accumulates. The input of a model is no variable: the first layer needs no gradient of its input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers
from small import ones, own_macs, trace_complete, trace_complete_step
from weighted_layers import CASES, UNITS, gates_macs

BATCH = 2


class Behind(layers.Layer):  # type: ignore[misc]
    """Multiplies its input with a weight, element by element: what comes behind needs the gradient of its input."""

    def build(self, input_shape: Any) -> None:
        self.factor = self.add_weight(name="factor", shape=())

    def call(self, x: Any) -> Any:
        return x * self.factor


def make_row(shape: tuple[int, ...], *row: Any, dtype: str = "float32") -> Any:
    """Return a sequential model and what to call it on."""
    return keras.Sequential([keras.Input(shape, dtype=dtype), *row]), ones(BATCH, *shape, dtype=dtype)


def first_states_macs(kind: str, units: int = UNITS) -> int:
    """What the gradient of the first state costs a sample: zeros, as an unrolled layer knows, and a loop does not."""
    return gates_macs(kind, 0, units)


@pytest.mark.parametrize("name", [name for name in CASES if name != "spectral norm"])
def test_behind_other_weights_a_step_is_three_forward_passes(name: str) -> None:
    expected = CASES[name]
    inputs = [keras.Input(shape, dtype=expected.dtype) for shape in expected.shapes]
    fed = inputs if expected.dtype == "int32" else [Behind()(tensor) for tensor in inputs]
    layer = expected.build()
    outputs = layer(*fed) if expected.spread or len(fed) == 1 else layer(fed)
    structure = inputs if len(inputs) > 1 else inputs[0]  # of a list of one, Keras before 3.9 warns
    found = trace_complete_step(
        keras.Model(structure, outputs), *(ones(BATCH, *s, dtype=expected.dtype) for s in expected.shapes)
    )
    known_state = BATCH * first_states_macs(name.removesuffix(" unrolled")) if "unrolled" in name else 0
    assert found.macs == 3 * (BATCH * expected.macs + expected.once) - known_state


@pytest.mark.parametrize(
    "name",
    [
        *("dense", "dense over pixels", "einsum dense", "Conv1D (9,) (3,) {'dilation_rate': 2, 'padding': 'same'}"),
        *("Conv2D (9, 8) (3, 2) {'groups': 2}", "Conv3DTranspose (5, 4, 3) (3, 2, 1) {}"),
        *("SeparableConv1D (9,) 3 {'dilation_rate': 2}", "DepthwiseConv2D (9, 11) 3 {}", "time distributed"),
    ],
)
def test_the_first_layer_needs_no_gradient_of_its_input(name: str) -> None:
    expected = CASES[name]
    model, x = make_row(expected.shapes[0], expected.build())
    further = 5 * 4 * 6 if name.startswith("Separable") else 0  # its pointwise part is not the first
    assert trace_complete_step(model, x).macs == BATCH * (2 * expected.macs + further)


def test_the_power_iteration_of_a_spectral_norm() -> None:
    """An iteration multiplies the kernel with two vectors; the norm is such a product, and one of the two vectors.

    The layer is then given the divided kernel, and it is by this that the gradient is taken.
    """
    model, x = make_row((7,), layers.SpectralNormalization(layers.Dense(5)))
    assert trace_complete(model, x).macs == BATCH * 35
    assert trace_complete_step(model, x).macs == 2 * BATCH * 35 + (2 + 1) * 35 + 5


# Rows of layers ---------------------------------------------------------------------------------------------------


def test_a_row_of_convolutions() -> None:
    model, x = make_row(
        (8, 8, 3),
        layers.Conv2D(4, 3, name="a"),
        layers.BatchNormalization(),
        layers.DepthwiseConv2D(3, strides=2, padding="same", name="b"),
        layers.Conv2DTranspose(2, 2, 2, name="c"),
        layers.Flatten(),
        layers.Dense(5, name="d"),
    )
    forward = {
        "a": BATCH * 6 * 6 * 4 * 27,
        "b": BATCH * 3 * 3 * 4 * 9,
        "c": BATCH * 3 * 3 * 4 * 2 * 4,
        "d": BATCH * 6 * 6 * 2 * 5,
    }
    assert own_macs(trace_complete(model, x)) == forward
    assert own_macs(trace_complete_step(model, x)) == {
        path: (2 if path == "a" else 3) * macs for path, macs in forward.items()
    }


def test_grouped_convolutions_own_their_gradients() -> None:
    """Keras runs them in a function of its own, compiled by XLA; so the gradient is another function."""
    model, x = make_row((9, 8, 4), layers.Conv2D(6, 3, groups=2, name="a"), layers.Conv2D(6, 1, groups=3, name="b"))
    assert own_macs(trace_complete_step(model, x)) == {"a": 2 * BATCH * 42 * 6 * 18, "b": 3 * BATCH * 42 * 6 * 2}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
@pytest.mark.parametrize("unroll", [False, True])
def test_a_row_of_recurrent_layers(kind: str, unroll: bool) -> None:
    """Through the loop's gradient; the first layer's state has a gradient, its input has none."""
    layer = getattr(layers, kind)
    model, x = make_row(
        (5, 3),
        layer(4, return_sequences=True, unroll=unroll, name="a"),
        layer(6, unroll=unroll, name="b"),
        layers.Dense(2, name="c"),
    )
    first, second = 5 * BATCH * gates_macs(kind, 3, 4), 5 * BATCH * gates_macs(kind, 4, 6)
    of_input = 5 * BATCH * (gates_macs(kind, 3, 4) - gates_macs(kind, 0, 4))
    found = own_macs(trace_complete_step(model, x))
    assert found["a"] == 3 * first - of_input - unroll * BATCH * first_states_macs(kind, 4)
    assert found["b"] == 3 * second - unroll * BATCH * first_states_macs(kind, 6)
    assert found["c"] == 3 * BATCH * 6 * 2


def test_words_have_a_gradient() -> None:
    """The rows of an embedding are variables: the layer above needs the gradient of its input."""
    model, x = make_row((5,), layers.Embedding(11, 3), layers.LSTM(4, name="a"), dtype="int32")
    assert own_macs(trace_complete_step(model, x)) == {"a": 3 * 5 * BATCH * gates_macs("LSTM", 3, 4)}


def test_attention_shares_its_work_out_among_its_projections() -> None:
    """The projections are first; scores and sums of values are products of two results, each with two gradients."""
    query, value = keras.Input((5, 6)), keras.Input((7, 6))
    model = keras.Model([query, value], layers.MultiHeadAttention(2, 4, name="m")(query, value))
    found = own_macs(trace_complete_step(model, ones(BATCH, 5, 6), ones(BATCH, 7, 6)))
    assert found == {
        "m": 3 * BATCH * 2 * 5 * 7 * (4 + 4),
        "m.query": 2 * BATCH * 5 * 6 * 8,
        "m.key": 2 * BATCH * 7 * 6 * 8,
        "m.value": 2 * BATCH * 7 * 6 * 8,
        "m.attention_output": 3 * BATCH * 5 * 8 * 6,
    }


def test_a_shared_layer_works_twice_as_much() -> None:
    shared = layers.Dense(4, name="shared")
    inputs = keras.Input((4,))
    model = keras.Model(inputs, shared(shared(inputs)))
    assert trace_complete_step(model, ones(BATCH, 4)).macs == BATCH * 16 * (2 + 3)


# Frozen layers ----------------------------------------------------------------------------------------------------


def frozen(layer: Any) -> Any:
    layer.trainable = False
    return layer


#: Which of three dense layers are frozen, and how often each one's product is made: forward, weights, input.
FROZEN = {
    "none": ((), (2, 3, 3)),
    "the first": (("a",), (1, 2, 3)),  # and so the second needs no gradient of its input
    "the second": (("b",), (2, 2, 3)),
    "the last": (("c",), (2, 3, 2)),
    "all but the last": (("a", "b"), (1, 1, 2)),
    "all but the first": (("b", "c"), (2, 2, 2)),
}


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_layers(name: str) -> None:
    which, passes = FROZEN[name]
    row = [layers.Dense(units, name=path) for path, units in (("a", 5), ("b", 3), ("c", 2))]
    model, x = make_row((7,), *(frozen(layer) if layer.name in which else layer for layer in row))
    found = trace_complete_step(model, x)
    macs = {"a": BATCH * 35, "b": BATCH * 15, "c": BATCH * 6}
    assert own_macs(found) == {path: n * macs[path] for path, n in zip(macs, passes, strict=True)}
    assert found.total_params == 40 + 18 + 8
    assert found.trainable_params == sum(n for path, n in (("a", 40), ("b", 18), ("c", 8)) if path not in which)


def test_a_frozen_convolution_has_an_input_gradient_alone() -> None:
    model, x = make_row((9, 4), layers.Conv1D(6, 3, name="a"), frozen(layers.Conv1D(5, 3, dilation_rate=3, name="b")))
    assert own_macs(trace_complete_step(model, x)) == {"a": 2 * BATCH * 7 * 6 * 12, "b": 2 * BATCH * 1 * 5 * 18}


def test_a_frozen_recurrent_layer_has_no_gradient_of_its_weights() -> None:
    model, x = make_row((5, 3), layers.LSTM(4, return_sequences=True, name="a"), frozen(layers.LSTM(6, name="b")))
    assert own_macs(trace_complete_step(model, x))["b"] == 2 * 5 * BATCH * gates_macs("LSTM", 4, 6)


# What else a step is made of --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_a_step_counts_the_same_whatever_the_precision(policy: str) -> None:
    model, x = make_row((7,), layers.Dense(5, dtype=policy), layers.Dense(3, dtype=policy))
    assert trace_complete_step(model, x).macs == BATCH * (2 * 35 + 3 * 15)


def test_several_outputs_of_which_one_is_an_integer() -> None:
    inputs = keras.Input((7,))
    hidden = layers.Dense(5)(inputs)
    model = keras.Model(inputs, {"class": keras.ops.argmax(hidden), "score": layers.Dense(1)(hidden), "hidden": hidden})
    assert trace_complete_step(model, ones(BATCH, 7)).macs == BATCH * (2 * 35 + 3 * 5)


#: Layers that do something in training alone, and the FLOPs of that forward, for an input of (2, 12).
IN_TRAINING: dict[str, tuple[Callable[[], Any], int, int]] = {
    "dropout": (lambda: layers.Dropout(0.5), 0, 2 * 24),
    "batch norm": (layers.BatchNormalization, 2 * 24, (5 + 2) * 24),
}


@pytest.mark.parametrize("name", IN_TRAINING)
def test_layers_that_change_in_training(name: str) -> None:
    build, in_inference, in_training = IN_TRAINING[name]
    model, x = make_row((12,), layers.Activation("linear"), build())
    assert trace_complete(model, x).flops == in_inference
    steps = [
        record.flops for record in trace_complete_step(model, x).operators if record.operator.startswith("layer::")
    ]
    assert steps == [in_training]


# Layers and models of the user's own ------------------------------------------------------------------------------


class Cell(layers.Layer):  # type: ignore[misc]
    """One step of a recurrent layer, of two dense layers."""

    state_size = 4

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.states = layers.Dense(4), layers.Dense(4, use_bias=False)

    def build(self, input_shape: Any) -> None:
        self.inputs.build(input_shape)
        self.states.build((None, 4))

    def call(self, x: Any, states: Any) -> Any:
        state = keras.ops.tanh(self.inputs(x) + self.states(states[0]))
        return state, [state]


def test_a_cell_of_the_users_own() -> None:
    model, x = make_row((5, 3), layers.RNN(Cell(), name="rnn"))
    forward = {"inputs": 5 * BATCH * 12, "states": 5 * BATCH * 16}
    assert {path.rpartition(".")[2]: macs for path, macs in own_macs(trace_complete(model, x)).items()} == forward
    found = {path.rpartition(".")[2]: macs for path, macs in own_macs(trace_complete_step(model, x)).items()}
    assert found == {"inputs": 2 * forward["inputs"], "states": 3 * forward["states"]}


class Pair(keras.Model):  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.a, self.b = layers.Dense(4), layers.LSTM(3)
        self.run = tf.function(lambda x: self.b(self.a(x)), **options)

    def call(self, x: Any) -> Any:
        return self.run(x)


@pytest.mark.parametrize("compiled", [None, True])
def test_layers_called_in_a_function_own_their_gradients(compiled: bool | None) -> None:
    found = own_macs(trace_complete_step(Pair(jit_compile=compiled), ones(BATCH, 5, 3)))
    assert found == {"a": 2 * BATCH * 5 * 3 * 4, "b": 3 * BATCH * 5 * gates_macs("LSTM", 4, 3)}


def test_what_is_stopped_has_no_gradient() -> None:
    model, x = make_row(
        (3,), layers.Dense(3, name="a"), layers.Lambda(keras.ops.stop_gradient), layers.Dense(3, name="b")
    )
    assert own_macs(trace_complete_step(model, x)) == {"a": BATCH * 9, "b": 2 * BATCH * 9}
