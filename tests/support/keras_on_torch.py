"""Keras 3 on torch: the tests that `test_keras_on_torch` runs in a process of its own, since Keras' framework is fixed.

Run alone: ``KERAS_BACKEND=torch pytest tests/support/keras_on_torch.py``.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KERAS_BACKEND") != "torch":
    pytest.skip("Keras does not run on torch in this process", allow_module_level=True)

import keras
import numpy as np
import torch
from keras_elsewhere import FEATURES, PRODUCTS, RECURRENT, STEPS, UNITS, ones, require_closed_forms, stack_layers
from torch import nn

from profilerkit import ModelInputs, ModelTrace, WithoutValuesError, profile
from profilerkit.testing.architectures import ARCHITECTURES
from profilerkit_torch import ComputeEvalMetric, TorchBackend, TorchProfiler, get_accuracy

sys.path.insert(0, str(Path(__file__).parent))

layers = keras.layers
BACKEND = TorchBackend()


def trace(model: Any, *args: Any, **kwargs: Any) -> ModelTrace:
    return BACKEND.trace(model, ModelInputs(*args, **kwargs))


def trace_complete(model: Any, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace one call of the model, which must neither fail nor leave anything uncounted."""
    found = trace(model, *args, **kwargs)
    assert found.failure is None, found.failure
    assert found.missing == ()
    return found


def paths(found: ModelTrace) -> list[str]:
    return [layer.path for layer in found.layers]


# What it counts -----------------------------------------------------------------------------------------------------


def test_torch_claims_the_model() -> None:
    report = profile(stack_layers((3,), layers.Dense(2)), ones(4, 3), metrics=["macs", "flops"], strict=True)
    assert (report.backend, report["macs"], report["flops"]) == ("torch", 4 * 3 * 2, 2 * 4 * 3 * 2 + 4 * 2)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_shared_architectures_give_their_closed_forms(name: str) -> None:
    require_closed_forms(BACKEND, name)


@pytest.mark.parametrize(
    ("layer", "macs", "per_unit"),
    [
        *RECURRENT,
        (lambda: layers.GRU(UNITS, reset_after=False), 3 * PRODUCTS, 11 + 3),
        (lambda: layers.SimpleRNN(UNITS, return_sequences=True), PRODUCTS, 2 + 1),
        (lambda: layers.Bidirectional(layers.LSTM(UNITS)), 2 * 4 * PRODUCTS, 2 * (13 + 4)),
    ],
)
def test_a_recurrent_layer_runs_as_often_as_there_are_steps(layer: Any, macs: int, per_unit: int) -> None:
    """Keras runs the first step once more, to see what it returns; a graph drops that, and so does the count."""
    found = trace_complete(stack_layers((STEPS, FEATURES), layer()), ones(2, STEPS, FEATURES))
    assert found.macs == 2 * macs
    assert found.flops == 2 * found.macs + 2 * STEPS * UNITS * per_unit


def test_a_recurrent_layer_of_a_class_of_ones_own() -> None:
    class Remembering(layers.GRU):  # type: ignore[misc, name-defined]
        pass

    model = stack_layers((STEPS, FEATURES), Remembering(UNITS, reset_after=False, name="memory"))
    found = trace_complete(model, ones(2, STEPS, FEATURES))
    assert found.macs == 2 * 3 * PRODUCTS
    assert paths(found) == ["", "memory", "memory.cell"], "its cell is the user's to see"


def test_a_masked_recurrent_layer_runs_every_step() -> None:
    found = trace_complete(
        stack_layers((STEPS, FEATURES), layers.Masking(), layers.LSTM(UNITS)), ones(2, STEPS, FEATURES)
    )
    assert found.macs == 2 * 4 * PRODUCTS


def test_stacked_cells_are_layers_of_a_plain_rnn() -> None:
    model = stack_layers((STEPS, FEATURES), layers.RNN([layers.LSTMCell(UNITS), layers.GRUCell(3)], name="loop"))
    found = trace_complete(model, ones(2, STEPS, FEATURES))
    assert found.macs == 2 * (4 * PRODUCTS + 3 * STEPS * 3 * (UNITS + 3))
    assert paths(found)[:3] == ["", "loop", "loop.stacked_rnn_cells"]


def test_a_convolutional_recurrent_layer() -> None:
    """Three steps of 4 x 4 outputs, two filters, four gates; products of 3 x 3 x 2 for the input and for the state."""
    found = trace_complete(stack_layers((3, 6, 6, 2), layers.ConvLSTM2D(2, 3)), ones(1, 3, 6, 6, 2))
    assert found.macs == 3 * 16 * 4 * 2 * (9 * 2 + 9 * 2)


IMAGE = 2 * 8 * 8 * 4  # elements of a batch of two


@pytest.mark.parametrize(
    ("layer", "macs", "further"),
    [
        (layers.BatchNormalization, 0, 2 * IMAGE),
        (layers.LayerNormalization, 0, 7 * IMAGE),
        (lambda: layers.GroupNormalization(2), 0, 7 * IMAGE),
        (layers.RMSNormalization, 0, 4 * IMAGE),
        (lambda: layers.Dropout(0.5), 0, 0),
        (layers.PReLU, 0, 2 * IMAGE),
        (lambda: layers.MaxPooling2D(2), 0, IMAGE),
        (lambda: layers.AveragePooling2D(2), 0, IMAGE),
        (lambda: layers.Conv2D(3, 3, padding="same"), 2 * 64 * 3 * 9 * 4, 2 * 64 * 3),
        (lambda: layers.Conv2D(4, 3, groups=2), 2 * 36 * 4 * 9 * 2, 2 * 36 * 4),
        (lambda: layers.DepthwiseConv2D(3, padding="same"), 2 * 64 * 4 * 9, 2 * 64 * 4),
        (lambda: layers.Conv2DTranspose(5, 2, strides=2, use_bias=False), 2 * 64 * 4 * 5 * 4, 0),
    ],
)
def test_layers_count_as_their_definition_says(layer: Any, macs: int, further: int) -> None:
    found = trace_complete(stack_layers((8, 8, 4), layer()), ones(2, 8, 8, 4))
    assert (found.macs, found.flops) == (macs, 2 * macs + further)


def test_published_networks() -> None:
    """Figures of the issue, in thousandths of a GMAC; the parameters are those that Keras documents."""
    model = keras.applications.MobileNetV2(weights=None)
    found = trace_complete(model, ones(1, 224, 224, 3))
    assert round(found.macs / 1e9, 4) == 0.3008
    assert found.total_params == 3_538_984


# Layers and their weights -------------------------------------------------------------------------------------------


class Block(keras.layers.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(4)
        self.norm = layers.BatchNormalization()

    def call(self, x: Any) -> Any:
        return self.norm(self.dense(x))


class Nested(keras.Model):  # type: ignore[misc]
    """A shared block, layers in a list, a weight of its own and a functional model inside."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.heads = [layers.Dense(3), layers.Dense(2, use_bias=False)]
        self.scale = self.add_weight(shape=(4,), name="scale")
        self.dropout = layers.Dropout(0.5)
        inputs = keras.Input((4,))
        self.inner = keras.Model(inputs, layers.Dense(4, name="only")(inputs))

    def call(self, x: Any) -> Any:
        x = self.dropout(self.block(self.block(x)) * self.scale)
        return [head(self.inner(x)) for head in self.heads]


def nested() -> Any:
    model = Nested()
    model(ones(2, 4))
    return model


def test_layers_are_named_by_attributes_in_classes_of_ones_own_and_by_their_names_in_keras() -> None:
    found = trace_complete(nested(), ones(2, 4))
    assert sorted(paths(found)) == sorted(
        ["", "block", "block.dense", "block.norm", "heads[0]", "heads[1]", "dropout", "inner", "inner.only"]
    )
    rows = {row["path"]: row for row in found.table}
    assert (rows["block"]["calls"], rows["block.dense"]["macs"]) == (2, 2 * 2 * 4 * 4)
    assert (rows["inner.only"]["calls"], rows["heads[1]"]["params"]) == (2, 8)
    assert rows[""]["own_flops"] == 2 * 4, "the scale"


def test_parameters_are_keras_own() -> None:
    """The block 20 and 16 of its norm, half of them statistics; heads 15 and 8; the scale 4; the inner model 20."""
    model = nested()
    found = trace_complete(model, ones(2, 4))
    assert found.total_params == 20 + 16 + 15 + 8 + 4 + 20 == model.count_params()
    assert found.trainable_params == found.total_params - 8
    assert found.size_bytes == 4 * found.total_params
    assert found.buffers == (), "the state of a random generator is no parameter and no buffer"
    model.block.trainable = False
    assert trace_complete(model, ones(2, 4)).trainable_params == 15 + 8 + 4 + 20


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


def test_inputs_by_place_and_by_name() -> None:
    first, second = keras.Input((3,), name="first"), keras.Input((3,), name="second")
    total = layers.Add()([first, second])
    assert trace_complete(keras.Model([first, second], total), ones(2, 3), ones(2, 3)).flops == 2 * 3
    assert (
        trace_complete(
            keras.Model({"first": first, "second": second}, total), first=ones(2, 3), second=ones(2, 3)
        ).flops
        == 6
    )


def test_images_with_the_channels_first_fit_a_model_that_takes_them_last() -> None:
    model = stack_layers((8, 6, 3), layers.Conv2D(4, 3, padding="same"))
    assert (
        trace_complete(model, ones(2, 3, 8, 6)).macs == trace_complete(model, ones(2, 8, 6, 3)).macs == 2 * 48 * 4 * 27
    )
    run_timing(model, ones(2, 3, 8, 6))


def test_reports_name_a_model_as_keras_does() -> None:
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)], name="student")
    assert profile(model, ones(4, 3), metrics=["macs"]).name == "student"
    assert profile(nested(), ones(2, 4), metrics=["macs"]).name == "Nested"


def test_a_model_that_is_not_built_is_counted_and_stays_so() -> None:
    model, sequential = Nested(), keras.Sequential([layers.Dense(3), layers.Dense(2)])
    found = trace_complete(model, ones(2, 4))
    assert (found.total_params, found.trainable_params) == (83, 75)
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


def test_keras_layers_without_weights_in_a_torch_module_are_said() -> None:
    model = HoldsKeras()
    model.keras_part = keras.Sequential([layers.Dense(3)])
    found = trace(model, torch.ones(2, 4))
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


def test_evaluation_is_keras_own_answer() -> None:
    model = stack_layers((2,), layers.Dropout(0.5), layers.Dense(2, use_bias=False, kernel_initializer="identity"))
    batches = [(np.eye(2, dtype="float32"), np.array([0, 1])), (np.eye(2, dtype="float32"), np.array([0, 0]))]
    profiler = TorchProfiler(model, {"test": batches})
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy))
    assert profiler.compute_status("eval_metric") == 75


# It comes back as it was --------------------------------------------------------------------------------------------


class Restless(keras.Model):  # type: ignore[misc]
    """Changes what a Keras model can change while it runs; raises half-way if it is told to."""

    def __init__(self, raises: bool = False) -> None:
        super().__init__()
        self.dense = layers.Dense(4)
        self.norm = layers.BatchNormalization()
        self.recurrent = layers.LSTM(4)
        self.head = layers.Dense(3, trainable=False)
        self.steps = self.add_weight(shape=(), name="steps", trainable=False, initializer="zeros")
        self.seeds = keras.random.SeedGenerator(7)
        self.history: list[Any] = []
        self.raises = raises

    def call(self, x: Any) -> Any:
        self.steps.assign_add(1.0)
        y = self.norm(self.dense(x), training=True)  # moves its statistics
        y = y + keras.random.normal((2, 4), seed=self.seeds)
        self.history.append(y)
        self.kept = y
        self.add_loss(keras.ops.sum(y))
        if self.raises:
            raise RuntimeError("half-way")
        return self.head(self.recurrent(y[:, None, :]))


def restless(raises: bool) -> Any:
    model = Restless()
    model(ones(2, 4))
    model.compile("adam", "mse")
    model.raises = raises
    return model


Fact = tuple[str, Any]


def facts(model: Any) -> list[Fact]:
    """Note what must stay: identities as ids, values as copies."""
    found: list[Fact] = [
        ("losses", [float(loss.detach()) for loss in model.losses]),
        ("history", list(map(id, model.history))),
    ]
    held = [model, *model._flatten_layers(include_self=False), *model.modules()]
    for layer in held:
        for name, value in vars(layer).items():
            if isinstance(value, (dict, list, set)):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                found.append((f"{type(layer).__name__}.{name} holds", [(key, id(item)) for key, item in items]))
            found.append((f"{type(layer).__name__}.{name}", id(value)))
    for variable in (*model.variables, model.seeds.state, *model.optimizer.variables):
        value = variable._value
        found.append((variable.path, (id(variable), id(value), value.requires_grad, value.tolist(), id(value.grad))))
    return found


def process() -> list[Fact]:
    hooks = torch.nn.modules.module
    return [
        ("torch rng", torch.get_rng_state().tolist()),
        ("numpy rng", np.random.get_state()[1].tolist()),  # type: ignore[index]
        ("grad mode", (torch.is_grad_enabled(), torch.is_inference_mode_enabled())),
        ("hooks", (dict(hooks._global_forward_hooks), dict(hooks._global_forward_pre_hooks))),
        ("unpatched", (layers.Layer.__call__, nn.Module.__call__, layers.Dense.call)),
        ("device", (keras.ops.zeros(1).device, keras.config.floatx())),
        ("modes", torch._C._len_torch_dispatch_stack()),
    ]


def run_trace(model: Any, x: Any) -> None:
    trace(model, x)


def run_profile(model: Any, x: Any) -> None:
    profile(model, x, num_iters=2, warmup=0)


def run_timing(model: Any, x: Any) -> None:
    with BACKEND.run(model, ModelInputs(torch.from_numpy(x))) as call:
        for _ in range(3):
            call()


def run_evaluation(model: Any, x: Any) -> None:
    profiler = TorchProfiler(model, {"test": [(x.copy(), np.zeros(2, "int64"))]})
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy))
    profiler.compute_network_status()


Run = Callable[[Any, Any], None]
RUNS: list[Run] = [run_trace, run_profile, run_timing, run_evaluation]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("raises", [False, True], ids=["runs", "raises"])
def test_a_restless_model_comes_back_as_it_was(run: Run, raises: bool) -> None:
    model, x = restless(raises), ones(2, 4)
    model_before, process_before = facts(model), process()
    with suppress(RuntimeError):
        run(model, x)
    assert facts(model) == model_before
    assert process() == process_before
    assert x.tolist() == ones(2, 4).tolist()


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
