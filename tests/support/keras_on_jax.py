"""Keras 3 on JAX: the tests that `test_keras_on_jax` runs in a process of its own, since Keras' framework is fixed.

Run alone: ``KERAS_BACKEND=jax pytest tests/support/keras_on_jax.py``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KERAS_BACKEND") != "jax":
    pytest.skip("Keras does not run on JAX in this process", allow_module_level=True)

import jax
import keras
import keras_elsewhere
import numpy as np
from keras_elsewhere import FEATURES, PRODUCTS, RECURRENT, STEPS, UNITS, ones, require_closed_forms
from structure_changes import StructureChanges

from profilerkit import ModelInputs, ModelTrace, WithoutValuesError, profile
from profilerkit.testing.architectures import ARCHITECTURES
from profilerkit_jax import ComputeEvalMetric, JaxBackend, JaxModel, JaxProfiler, get_accuracy

sys.path.insert(0, str(Path(__file__).parent))

layers = keras.layers
BACKEND = JaxBackend()
stacked = partial(keras_elsewhere.stack_layers, name="student")


def trace_complete(model: Any, *args: Any, **kwargs: Any) -> ModelTrace:
    """Trace one call of the model, which must neither fail nor leave anything uncounted."""
    trace = BACKEND.trace(model, ModelInputs(*args, **kwargs))
    assert trace.failure is None, trace.failure
    assert trace.missing == ()
    return trace


# What it counts -----------------------------------------------------------------------------------------------------


def test_jax_claims_the_model() -> None:
    report = profile(stacked((3,), layers.Dense(2)), ones(4, 3), metrics=["macs", "flops"], strict=True)
    assert (report.backend, report.name) == ("jax", "student")
    assert (report["macs"], report["flops"]) == (4 * 3 * 2, 2 * 4 * 3 * 2 + 4 * 2)
    assert BACKEND.trace(JaxModel(stacked((3,), layers.Dense(2))), ModelInputs(ones(4, 3))).macs == 24


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_shared_architectures_give_their_closed_forms(name: str) -> None:
    require_closed_forms(BACKEND, name)


def test_work_on_zeros_is_left_out() -> None:
    """Of a dense layer with 5 zeros among 12 weights, and of a recurrent one whose inputs' half of weights is zero."""
    dense = stacked((4,), layers.Dense(3))
    kernel = np.ones((4, 3), "float32")
    kernel.reshape(-1)[:5] = 0
    dense.layers[0].set_weights([kernel, np.ones(3, "float32")])
    report = profile(dense, ones(2, 4), metrics=["effective_macs", "sparsity"])
    assert (report["effective_macs"], report["sparsity"]) == (2 * 7, 5 / 15)
    recurrent = stacked((STEPS, FEATURES), layers.SimpleRNN(UNITS))
    shapes = [get_weight.shape for get_weight in recurrent.get_weights()]
    recurrent.set_weights([np.zeros(shapes[0]), *(np.ones(shape) for shape in shapes[1:])])
    report = profile(recurrent, ones(2, STEPS, FEATURES), metrics=["effective_macs"])
    assert report["effective_macs"] == 2 * STEPS * UNITS * UNITS


@pytest.mark.parametrize(
    ("layer", "macs", "per_unit"),
    RECURRENT,
)
def test_a_recurrent_layer_runs_as_often_as_there_are_steps(layer: Any, macs: int, per_unit: int) -> None:
    trace = trace_complete(stacked((STEPS, FEATURES), layer()), ones(2, STEPS, FEATURES))
    assert trace.macs == 2 * macs
    assert trace.flops == 2 * trace.macs + 2 * STEPS * UNITS * per_unit


def test_the_cell_of_a_plain_rnn_is_a_layer_that_is_called_in_each_step() -> None:
    model = stacked((STEPS, FEATURES), layers.RNN(layers.LSTMCell(UNITS, name="cell"), name="loop"))
    table = trace_complete(model, ones(2, STEPS, FEATURES)).table
    assert [row["path"] for row in table] == ["", "loop", "loop.cell"]
    assert (table["loop.cell"]["calls"], table["loop.cell"]["macs"]) == (STEPS, 2 * 4 * PRODUCTS)
    assert table["loop"]["calls"] == 1


def test_a_training_step_counts_the_gradients_of_what_is_trained() -> None:
    """Three products for the second layer, and two for the first, whose input needs no gradient; none where frozen."""
    model = stacked((3,), layers.Dense(5, name="first"), layers.Dense(2, name="second"))
    step = BACKEND.trace_training(model, ModelInputs(ones(4, 3)))
    assert step.failure is None
    assert step.macs == 2 * 4 * 3 * 5 + 3 * 4 * 5 * 2
    model.get_layer("first").trainable = False
    assert BACKEND.trace_training(model, ModelInputs(ones(4, 3))).macs == 4 * 3 * 5 + 2 * 4 * 5 * 2
    assert trace_complete(model, ones(4, 3)).trainable_params == 5 * 2 + 2


def test_a_batch_norm_and_dropout_in_training() -> None:
    """The whole normalization, 7 for each element; mask and scale, 2; with known statistics and without dropout, 2."""
    model = stacked((8,), layers.BatchNormalization(name="norm"), layers.Dropout(0.5, name="dropout"))
    assert trace_complete(model, ones(4, 8)).flops == 2 * 32
    step = BACKEND.trace_training(model, ModelInputs(ones(4, 8)))
    forward = [op for op in step.operators if op.phase == "forward"]
    assert sum(op.flops for op in forward if op.layer == "norm") == 7 * 32
    assert sum(op.flops for op in forward if op.layer == "dropout") == 2 * 32


def test_the_states_of_random_generators_count_as_nothing() -> None:
    trace = trace_complete(stacked((3,), layers.Dropout(0.5), layers.Dense(2)), ones(4, 3))
    assert (trace.total_params, trace.size_bytes, trace.buffers) == (8, 32, ())


# How it is called ---------------------------------------------------------------------------------------------------


def test_inputs_by_place_by_name_and_as_the_model_declares_them() -> None:
    first, second = keras.Input((3,), name="first"), keras.Input((3,), name="second")
    total = layers.Add()([first, second])
    assert trace_complete(keras.Model([first, second], total), ones(2, 3), ones(2, 3)).flops == 2 * 3
    named = keras.Model({"first": first, "second": second}, total)
    assert trace_complete(named, first=ones(2, 3), second=ones(2, 3)).flops == 6
    assert profile(named, batch_size=5, metrics=["flops"])["flops"] == 5 * 3


def test_images_with_the_channels_first_fit_a_model_that_takes_them_last() -> None:
    model = stacked((8, 6, 3), layers.Conv2D(4, 3, padding="same"))
    assert (
        trace_complete(model, ones(2, 3, 8, 6)).macs == trace_complete(model, ones(2, 8, 6, 3)).macs == 2 * 48 * 4 * 27
    )
    report = profile(model, ones(2, 3, 8, 6), metrics=["execution_time"], num_iters=2, warmup=0, strict=True)
    assert report["execution_time"].median > 0


def test_a_model_that_is_not_built_gets_a_clear_message() -> None:
    message = (
        "the Keras model bare is not built: it has no weights yet. On JAX only its first call makes them; call it once "
        "with real inputs before"
    )
    with pytest.raises(WithoutValuesError) as raised:
        profile(keras.Sequential([layers.Dense(2)], name="bare"), ones(4, 3), metrics=["macs"])
    assert str(raised.value) == message


def test_evaluation_is_keras_own_answer() -> None:
    model = stacked((2,), layers.Dropout(0.5), layers.Dense(2, use_bias=False, kernel_initializer="identity"))
    batches = [(np.eye(2, dtype="float32"), np.array([0, 1])), (np.eye(2, dtype="float32"), np.array([0, 0]))]
    profiler = JaxProfiler(model, {"test": batches})
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy))
    assert profiler.compute_status("eval_metric") == 75


def test_a_sigmoid_gives_probabilities() -> None:
    """Scores of 0.27 and 0.73 are below and above one half; as logits both would be above zero."""
    model = stacked((1,), layers.Dense(1, activation="sigmoid", kernel_initializer="ones"))
    batches = [(np.array([[-1.0], [1.0]], "float32"), np.array([0, 1]))]
    assert get_accuracy(model, batches) == 100


# It comes back as it was --------------------------------------------------------------------------------------------


class Restless(keras.Model):  # type: ignore[misc]
    """Changes what a Keras model can change while it runs; raises half-way if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(4)
        self.norm = layers.BatchNormalization()
        self.steps = self.add_weight(shape=(), name="steps", trainable=False, initializer="zeros")
        self.seeds = keras.random.SeedGenerator(7)
        self.history: list[Any] = []
        self.caches: dict[str, Any] = {
            "last": jax.numpy.zeros((2, 4)),
            "counts": [0],
            "in a tuple": ({1}, {"a": 1, "b": 2}),
        }
        self.raises = False

    def call(self, x: Any) -> Any:
        self.steps.assign_add(1.0)
        y = self.norm(self.dense(x), training=True)  # moves its statistics
        y = y + keras.random.normal((2, 4), seed=self.seeds)
        self.history.append(y)
        self.kept = y
        self.caches["last"] = y
        self.caches["counts"][0] += 1
        self.caches["in a tuple"][0].add(2)
        self.caches["in a tuple"][1]["a"] = self.caches["in a tuple"][1].pop("a")
        self.add_loss(keras.ops.sum(y))
        if self.raises:
            raise RuntimeError("half-way")
        return y


def facts(model: Any) -> list[tuple[str, Any]]:
    """Note what must stay: identities as ids, values as copies."""
    noted: list[tuple[str, Any]] = [("history", list(map(id, model.history)))]
    members, entries = model.caches["in a tuple"]
    noted += [("caches", (id(model.caches["last"]), model.caches["counts"][0], set(members), list(entries.items())))]
    for layer in model._flatten_layers():
        noted += [(f"{layer.name}.{name}", id(value)) for name, value in sorted(vars(layer).items())]
        noted += [(f"{layer.name}.{n} holds", list(map(id, v))) for n, v in vars(layer).items() if isinstance(v, list)]
    for variable in (*model.variables, model.seeds.state):
        noted.append((variable.path, (id(variable._value), np.asarray(variable._value).tolist())))
    return [
        *noted,
        ("call", id(layers.Layer.__call__)),
        ("process", (keras.config.floatx(), jax.config.jax_enable_x64)),  # type: ignore[attr-defined]
    ]


def run_trace(model: Any, x: Any) -> None:
    with BACKEND.preserve(model):
        BACKEND.trace(model, ModelInputs(x))


def run_profile(model: Any, x: Any) -> None:
    profile(model, x, num_iters=2, warmup=0)


def run_evaluation(model: Any, x: Any) -> None:
    profiler = JaxProfiler(model, {"test": [(x.copy(), np.zeros(2, "int64"))]})
    profiler.register_profiler_function(ComputeEvalMetric(get_accuracy))
    profiler.compute_network_status()


@pytest.mark.parametrize("run", [run_trace, run_profile, run_evaluation])
@pytest.mark.parametrize("raises", [False, True], ids=["runs", "raises"])
def test_a_restless_model_comes_back_as_it_was(run: Callable[[Any, Any], None], raises: bool) -> None:
    model = Restless()
    model(ones(2, 4))
    model.raises = raises
    before = facts(model)
    with suppress(RuntimeError):
        run(model, ones(2, 4))
    assert facts(model) == before


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
