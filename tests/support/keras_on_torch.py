"""Keras 3 on torch: the tests that `test_keras_on_torch` runs in a process of its own, since Keras' framework is fixed.

Run alone: ``KERAS_BACKEND=torch pytest tests/support/keras_on_torch.py``.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KERAS_BACKEND") != "torch":
    pytest.skip("Keras does not run on torch in this process", allow_module_level=True)

import keras
import numpy as np
import torch
from keras_elsewhere import (
    BACKEND,
    FEATURES,
    PRODUCTS,
    STEPS,
    UNITS,
    ones,
    run_evaluation,
    run_profile,
    run_trace,
    stack_layers,
    trace_complete,
)
from keras_rows import Nested, nested
from torch import nn

from profilerkit import ModelInputs, ModelTrace, WithoutValuesError, profile

sys.path.insert(0, str(Path(__file__).parent))

layers = keras.layers


def paths(found: ModelTrace) -> list[str]:
    return [layer.path for layer in found.layers]


# What it counts -----------------------------------------------------------------------------------------------------


def test_a_recurrent_layer_of_a_class_of_ones_own() -> None:
    class Remembering(layers.GRU):  # type: ignore[misc, name-defined]
        pass

    model = stack_layers((STEPS, FEATURES), Remembering(UNITS, reset_after=False, name="memory"))
    found = trace_complete(model, ones(2, STEPS, FEATURES))
    assert found.macs == 2 * 3 * PRODUCTS
    assert paths(found) == ["", "memory", "memory.cell"], "its cell is the user's to see"


def test_stacked_cells_are_layers_of_a_plain_rnn() -> None:
    model = stack_layers((STEPS, FEATURES), layers.RNN([layers.LSTMCell(UNITS), layers.GRUCell(3)], name="loop"))
    found = trace_complete(model, ones(2, STEPS, FEATURES))
    assert found.macs == 2 * (4 * PRODUCTS + 3 * STEPS * 3 * (UNITS + 3))
    assert paths(found)[:3] == ["", "loop", "loop.stacked_rnn_cells"]


def test_a_convolutional_recurrent_layer() -> None:
    """Three steps of 4 x 4 outputs, two filters, four gates; products of 3 x 3 x 2 for the input and for the state."""
    found = trace_complete(stack_layers((3, 6, 6, 2), layers.ConvLSTM2D(2, 3)), ones(1, 3, 6, 6, 2))
    assert found.macs == 3 * 16 * 4 * 2 * (9 * 2 + 9 * 2)


def test_published_networks() -> None:
    """Figures of the issue, in thousandths of a GMAC; the parameters are those that Keras documents."""
    model = keras.applications.MobileNetV2(weights=None)
    found = trace_complete(model, ones(1, 224, 224, 3))
    assert round(found.macs / 1e9, 4) == 0.3008
    assert found.total_params == 3_538_984


# Layers and their weights -------------------------------------------------------------------------------------------


def test_layers_are_named_by_attributes_in_classes_of_ones_own_and_by_their_names_in_keras() -> None:
    found = trace_complete(nested(), ones(2, 8))
    assert sorted(paths(found)) == sorted(
        ["", "block", "block.dense", "block.norm", "heads[0]", "heads[1]", "inner", "inner.only"]
    )
    rows = {row["path"]: row for row in found.table}
    assert (rows["block"]["calls"], rows["block.dense"]["macs"]) == (2, 2 * 2 * 8 * 8)
    assert (rows["inner.only"]["calls"], rows["heads[1]"]["params"]) == (2, 16)
    assert rows[""]["own_flops"] == 2 * 8, "the scale"


def test_parameters_are_keras_own() -> None:
    """The block 72 and 32 of its norm, half of them statistics; heads 27 and 16; the scale 8; the inner model 72."""
    model = nested()
    found = trace_complete(model, ones(2, 8))
    assert found.total_params == 72 + 32 + 27 + 16 + 8 + 72 == model.count_params()
    assert found.trainable_params == found.total_params - 16
    assert found.size_bytes == 4 * found.total_params
    model.block.trainable = False
    assert trace_complete(model, ones(2, 8)).trainable_params == 27 + 16 + 8 + 72


def test_the_state_of_a_random_generator_is_no_parameter_and_no_buffer() -> None:
    found = trace_complete(stack_layers((3,), layers.Dropout(0.5), layers.Dense(2)), ones(4, 3))
    assert (found.total_params, found.buffers) == (8, ())


def test_input_layers_and_cells_are_not_shown() -> None:
    model = stack_layers((STEPS, FEATURES), layers.LSTM(UNITS, name="memory"), layers.Dense(2, name="head"))
    found = trace_complete(model, ones(2, STEPS, FEATURES))
    assert paths(found) == ["", "memory", "head"]
    assert found.layers[1].parameters[0].name == "kernel"
    assert [weight.count for weight in found.layers[1].parameters] == [5 * 16, 4 * 16, 16]


def test_a_model_of_half_precision_has_its_weights_whole() -> None:
    found = trace_complete(stack_layers((3,), layers.Dense(2, dtype="mixed_bfloat16")), ones(4, 3))
    assert (found.macs, found.size_bytes) == (4 * 3 * 2, 4 * 8)
    assert {call.outputs[0].dtype for call in found.layers[1].calls} == {"bfloat16"}


class HoldsTorch(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.torch_part = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.head = layers.Dense(3)

    def call(self, x: Any) -> Any:
        return self.head(self.torch_part(x))


class HoldsKeras(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.keras_part = stack_layers((4,), layers.Dense(3, name="inside"))
        self.head = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.keras_part(x))


def test_torch_modules_in_a_keras_model() -> None:
    model = HoldsTorch()
    model(ones(2, 4))
    found = trace_complete(model, ones(2, 4))
    assert paths(found) == ["", "torch_part", "torch_part.module", *("torch_part.module." + n for n in "01"), "head"]
    assert (found.total_params, found.macs) == (20 + 8 + 15, 2 * (16 + 12))
    assert found.table["torch_part.module.1"]["flops"] == 2 * 2 * 4, "with the statistics that it knows"


def test_keras_layers_in_a_torch_module() -> None:
    found = trace_complete(HoldsKeras(), torch.ones(2, 4))
    assert paths(found) == ["", "keras_part", "keras_part.inside", "head"]
    assert (found.total_params, found.macs) == (15 + 8, 2 * (12 + 6))


# How it is called ---------------------------------------------------------------------------------------------------


def test_reports_name_a_model_as_keras_does() -> None:
    assert profile(nested(), ones(2, 8), metrics=["macs"]).name == "Nested"


def test_a_model_that_is_not_built_is_counted_and_stays_so() -> None:
    model, sequential = Nested(), keras.Sequential([layers.Dense(3), layers.Dense(2)])
    found = trace_complete(model, ones(2, 8))
    assert (found.total_params, found.trainable_params) == (227, 211)
    assert trace_complete(sequential, ones(2, 4)).total_params == 15 + 8
    assert not model.block.dense.built
    assert not sequential.built
    assert sequential.variables == []
    with (
        pytest.raises(WithoutValuesError, match="call it once with real inputs"),
        BACKEND.run(sequential, ModelInputs(ones(2, 4))),
    ):
        pass
    sequential(ones(2, 4))  # and can be built afterwards
    assert sequential.count_params() == 15 + 8
    assert trace_complete(sequential, ones(2, 4)).total_params == 15 + 8
    assert sequential.predict(ones(2, 4), verbose=0).shape == (2, 2)


class MakesALayer(keras.Model):  # type: ignore[misc]
    """Makes a layer when it is built, and may build it; the first is there before."""

    def __init__(self, first: Any, *, builds: bool) -> None:
        super().__init__()
        self.first, self.builds = first, builds

    def build(self, shape: Any) -> None:
        self.second = layers.Dense(3)
        if self.builds:
            self.second.build(shape)

    def call(self, x: Any) -> Any:
        return self.second(x if self.first is None else self.first(x))


@pytest.mark.parametrize("builds", [True, False])
@pytest.mark.parametrize(
    ("first", "products"),
    [(None, 0), (lambda: layers.Dropout(0.5), 0), (lambda: stack_layers((4,), layers.Dense(4)), 16)],
)
def test_layers_that_a_model_makes_when_it_is_built(first: Any, products: int, builds: bool) -> None:
    model = MakesALayer(first and first(), builds=builds)
    report = profile(model, ones(2, 4), metrics=["total_params", "macs", "training_macs"], strict=True)
    biases = 3 + (4 if products else 0)
    assert report["total_params"] == products + 4 * 3 + biases
    assert report["macs"] == 2 * (products + 4 * 3)
    # The first product has no gradient of its inputs.
    assert report["training_macs"] == 2 * (2 * products + 3 * 4 * 3 if products else 2 * 4 * 3)


def test_a_variable_that_two_layers_hold() -> None:
    class Back(keras.Layer):  # type: ignore[misc]
        def __init__(self, other: Any) -> None:
            super().__init__()
            self.other = other

        def build(self, shape: Any) -> None:
            self.kernel = self.other.kernel

        def call(self, x: Any) -> Any:
            return keras.ops.matmul(x, keras.ops.transpose(self.kernel))

    dense = layers.Dense(3, use_bias=False)
    model = stack_layers((4,), dense, Back(dense))
    report = profile(model, ones(2, 4), metrics=["total_params", "macs", "training_macs"], strict=True)
    assert (report["total_params"], report["macs"]) == (4 * 3, 2 * 2 * 4 * 3)
    assert report["training_macs"] == 2 * (2 + 3) * 4 * 3


def test_keras_layers_without_weights_in_a_torch_module_are_said() -> None:
    model = HoldsKeras()
    model.keras_part = keras.Sequential([layers.Dense(3)])
    found = BACKEND.trace(model, ModelInputs(torch.ones(2, 4)))
    assert "the model holds Keras layers that are not built" in str(found.failure)


def test_a_model_that_looks_at_values_is_run() -> None:
    class Looks(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = layers.Dense(4)

        def call(self, x: Any) -> Any:
            return self.dense(x) if float(x.sum()) > 0 else x

    model = Looks()
    model(ones(2, 4))
    found = trace_complete(model, ones(2, 4))
    assert (found.method, found.macs) == ("a real run", 2 * 16)


# It comes back as it was --------------------------------------------------------------------------------------------


def run_timing(model: Any, x: Any) -> None:
    with BACKEND.run(model, ModelInputs(torch.from_numpy(x))) as call:
        for _ in range(3):
            call()


Run = Callable[[Any, Any], None]
RUNS: list[Run] = [run_trace, run_profile, run_timing, run_evaluation]


@pytest.mark.parametrize("run", RUNS)
def test_functional_models_come_back_as_they_were(run: Run) -> None:
    model = stack_layers((4,), layers.Dense(4, activation="relu"), layers.BatchNormalization(), layers.Dropout(0.5))
    model.add(layers.Dense(3))
    before = {variable.path: (id(variable._value), variable.numpy().tolist()) for variable in model.variables}
    attributes = [(id(layer), copy.copy(vars(layer))) for layer in (model, *model.layers, model._functional)]
    run(model, ones(2, 4))
    assert {v.path: (id(v._value), v.numpy().tolist()) for v in model.variables} == before
    for (_, held), layer in zip(attributes, (model, *model.layers, model._functional), strict=True):
        assert vars(layer).keys() == held.keys()
        assert all(vars(layer)[name] is value for name, value in held.items())


@pytest.mark.parametrize("how", ["none", "mask", "causal", "both"])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_mask_chooses_scores_and_costs_nothing(how: str, grouped: bool) -> None:
    """As on TensorFlow: keys and values of 2 heads (or 1 for both), 6 operations for each score of 2 heads."""
    heads = layers.GroupQueryAttention(4, 2, 1) if grouped else layers.MultiHeadAttention(2, 4)
    mask = torch.ones(3, 5, 5, dtype=torch.bool) if how in ("mask", "both") else None

    class Masked(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.attention = heads

        def call(self, x: Any) -> Any:
            return self.attention(x, x, attention_mask=mask, use_causal_mask=how in ("causal", "both"))

    model, x = Masked(), ones(3, 5, 8)
    model(x)
    outer, inner = 15 * 8 * 8, 15 * 8 * (4 if grouped else 8)  # queries and output; keys and values
    biases, scores = 2 * 15 * 8 + 2 * 15 * (4 if grouped else 8), 3 * 2 * 25
    macs = 2 * outer + 2 * inner + scores * 8
    found = trace_complete(model, x)
    assert (found.macs, found.flops) == (macs, 2 * macs + biases + 6 * scores)
    options = {"attention_mask": mask, "use_causal_mask": how in ("causal", "both")}
    itself = BACKEND.trace(heads, ModelInputs(x, x, **options))  # the layer is the model, with no path of its own
    assert (itself.macs, itself.flops) == (found.macs, found.flops)


@pytest.mark.parametrize("run", [run_trace, run_timing])
def test_a_recurrent_layer_keeps_the_state_that_it_has(run: Run) -> None:
    model = keras.Sequential([keras.Input(batch_shape=(2, 3, 4)), layers.LSTM(4, stateful=True)])
    model(ones(2, 3, 4))
    before = [(id(state._value), state.numpy().tolist()) for state in model.layers[0].states]
    run(model, ones(2, 3, 4))
    assert [(id(state._value), state.numpy().tolist()) for state in model.layers[0].states] == before


def test_a_trained_step_is_the_same_with_profiling_in_between() -> None:
    def step(measured: bool) -> list[float]:
        keras.utils.set_random_seed(0)
        model = stack_layers(
            (4,), layers.Dense(4), layers.BatchNormalization(), layers.Dropout(0.5, seed=1), layers.Dense(1)
        )
        model.compile("adam", "mse")
        for _ in range(2):
            model.train_on_batch(ones(8, 4) * np.arange(4, dtype="float32"), ones(8, 1))
            if measured:
                run_profile(model, ones(2, 4))
        return [float(variable.numpy().sum()) for variable in (*model.variables, *model.optimizer.variables)]

    assert step(measured=True) == step(measured=False)


def test_what_trains_a_model_is_no_part_of_its_memory() -> None:
    model = stack_layers((4,), layers.Dense(4))
    plain = trace_complete(model, ones(2, 4)).memory
    model.compile("adam", "mse")
    model.train_on_batch(ones(8, 4), ones(8, 4))
    assert trace_complete(model, ones(2, 4)).memory == plain
    assert plain.weight_bytes == 4 * 20
