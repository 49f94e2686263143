"""What the TensorFlow backend says of models: layouts, names, optimizers, training steps, and which models it takes."""

from __future__ import annotations

import gc
import importlib
import math
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from profilerkit import InputError, ModelInputs, Profiler, profile
from profilerkit_metrics import ComputeTraining
from profilerkit_tensorflow import TFBackend, TFProfiler

BACKEND = TFBackend()
#: Optimizers that an older Keras lacks.
NEWER = [name for name in ("ScheduleFreeAdamW",) if hasattr(keras.optimizers, name)]


def images() -> Any:
    return keras.Sequential([keras.Input((8, 6, 3)), keras.layers.Conv2D(4, 3)], name="conv")


def test_channels_first_inputs_are_turned_for_a_model_that_declares_them_last() -> None:
    given = np.arange(2 * 3 * 8 * 6, dtype=np.float32).reshape(2, 3, 8, 6)
    fitted = BACKEND.fit_inputs(images(), ModelInputs(tf.constant(given))).args[0]
    np.testing.assert_array_equal(fitted.numpy(), given.transpose(0, 2, 3, 1))
    macs = 6 * 4 * 4 * (3 * 3 * 3)
    assert profile(images(), input_shape=(3, 8, 6), metrics="macs")["macs"] == macs
    assert profile(images(), input_shape=(8, 6, 3), metrics="macs")["macs"] == macs


def test_what_fits_or_does_not_even_so_stays() -> None:
    square = keras.Sequential([keras.Input((3, 3, 3)), keras.layers.Conv2D(4, 3)])
    for model, shape in ((images(), (1, 8, 6, 3)), (images(), (1, 5, 5, 5)), (square, (1, 3, 3, 3)), (len, (1, 3, 4))):
        x = tf.zeros(shape)
        assert BACKEND.fit_inputs(model, ModelInputs(x)).args[0] is x


def test_reports_call_a_keras_model_as_keras_does() -> None:
    class Own(keras.Model):  # type: ignore[misc]
        pass

    assert TFProfiler(images()).name == "conv"
    assert TFProfiler(Own()).name == "Own"
    assert TFProfiler(images(), name="mine").name == "mine"

    def forward(x: Any) -> Any:
        return x

    assert TFProfiler(forward).name == "forward"
    assert TFProfiler(images()).clone(model=keras.Sequential(name="other")).name == "other"


@pytest.mark.parametrize(
    ("optimizer", "values"),
    [
        (keras.optimizers.SGD(), 0),
        (keras.optimizers.SGD(momentum=0.9), 1),
        (keras.optimizers.Adam(), 2),
        (keras.optimizers.Adam(amsgrad=True), 3),
        (keras.optimizers.AdamW(), 2),
        (keras.optimizers.RMSprop(), 1),
        (keras.optimizers.RMSprop(momentum=0.9, centered=True), 3),
        (keras.optimizers.Lion(), 1),
        (keras.optimizers.Nadam(), 2),
        (keras.optimizers.Adam(gradient_accumulation_steps=4), 3),
        (keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(momentum=0.9)), 1),
        *((getattr(keras.optimizers, name)(), 2) for name in NEWER),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_optimizers_state_is_what_it_would_make(optimizer: Any, values: int) -> None:
    """The oracle is the optimizer itself, built for another model of the same shapes."""
    model = images()
    model.compile(optimizer)
    assert BACKEND.optimizer_state(model) == values * 4 * model.count_params()
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    assert not optimizer.built
    twin = type(optimizer).from_config(optimizer.get_config())
    twin.build(images().trainable_variables)
    floats = [v for v in twin.variables if v.path.rpartition("/")[2] not in ("iteration", "learning_rate")]
    made = sum(int(np.prod(v.shape)) * 4 for v in floats if int(np.prod(v.shape)) > 1)
    assert BACKEND.optimizer_state(model) == made


@pytest.mark.parametrize(("use_ema", "values"), [(False, 1), (True, 2)])
def test_adafactor_keeps_rows_and_columns_and_their_product(use_ema: bool, values: int) -> None:
    """Of a kernel of 6 x 5 with 5 biases: 6 + 5 sums, and Keras' velocity for each of 35 elements."""
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5)])
    model.compile(keras.optimizers.Adafactor(use_ema=use_ema))
    assert BACKEND.optimizer_state(model) == 4 * ((6 + 5) + values * 35)
    twin = keras.optimizers.Adafactor(use_ema=use_ema)
    twin.build(model.trainable_variables)
    assert BACKEND.optimizer_state(model) == sum(4 * int(np.prod(v.shape)) for v in twin.variables if len(v.shape))


@pytest.mark.skipif(not hasattr(keras.optimizers, "Muon"), reason="this Keras lacks it")
def test_muon_keeps_one_value_for_an_element_of_a_matrix_and_two_for_others() -> None:
    """Of two layers, 6 x 5 with 5 biases and 5 x 2 with 2."""
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Muon())
    assert BACKEND.optimizer_state(model) == 4 * (30 + 10 + 2 * (5 + 2))


@pytest.mark.skipif(not hasattr(keras.optimizers, "MultiOptimizer"), reason="this Keras lacks it")
def test_several_optimizers_each_keep_theirs() -> None:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, name="first"), keras.layers.Dense(2)])
    kinds = keras.optimizers
    model.compile(kinds.MultiOptimizer(kinds.OptimizerMap(kinds.Adam(), {".*first/.*": kinds.SGD()})))
    assert BACKEND.optimizer_state(model) == 4 * 2 * (5 * 2 + 2)


def test_the_state_of_an_optimizer_that_is_built_is_what_it_has() -> None:
    model = images()
    model.compile(keras.optimizers.Adam())
    model.optimizer.build(model.trainable_variables)
    model.optimizer.beta_1 = None  # it is not made anew of its settings
    assert BACKEND.optimizer_state(model) == 2 * 4 * model.count_params()


def test_weights_that_are_not_made_yet_make_the_memory_a_lower_bound() -> None:
    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile("adam")
    report = profile(model, np.ones((2, 3), np.float32), metrics=["training_memory"])
    assert report.status("training_memory").completeness.value == "partial"
    assert "optimizer Adam for weights that the model's first call makes" in report.status("training_memory").missing[0]


def test_an_optimizer_that_is_not_known_makes_the_memory_a_lower_bound_that_names_it() -> None:
    class Mine(keras.optimizers.SGD):  # type: ignore[misc]
        def __init__(self, factor: float) -> None:
            super().__init__(factor)

    model = images()
    model.compile(Mine(0.5))
    profiler = Profiler(model, inputs=tf.ones((1, 8, 6, 3)))
    profiler.register_profiler_function(ComputeTraining())
    assert profiler.compute_status("training_memory") > 0
    status = profiler.status_get("training_memory", to_value=False)
    assert status.outcome.completeness.value == "partial"
    assert "optimizer Mine, which cannot be made anew of its settings" in status.outcome.missing[0]


def test_a_training_step_is_counted_where_it_is_asked_for() -> None:
    """Forward 4*8 + 8*2, gradients of both kernels as much again, and of the hidden layer's input 8*2."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(2)])
    x = tf.ones((3, 4))
    assert "training_macs" not in profile(model, x, num_iters=1, warmup=0).statuses
    report = profile(model, x, metrics=["training_macs", "training_flops", "training_memory"])
    assert report["training_macs"] == 3 * (2 * (4 * 8 + 8 * 2) + 8 * 2)
    assert report["training_flops"] > 2 * report["training_macs"]
    assert report["training_memory"] >= 2 * 4 * model.count_params()  # the weights and their gradients


def test_a_torch_module_is_not_taken_for_a_function() -> None:
    torch = pytest.importorskip("torch")
    assert not BACKEND.accepts(torch.nn.Linear(2, 2))
    with pytest.raises(TypeError, match="the tensorflow backend cannot profile a Linear"):
        TFProfiler(torch.nn.Linear(2, 2))
    assert BACKEND.accepts(lambda x: x)
    assert not BACKEND.accepts("a path")


def test_no_loss_is_counted_in_a_training_step() -> None:
    """Two products for each weight: its own and its gradient, and nothing for the sum that is differentiated."""
    inputs = keras.Input((8,))
    first, second = keras.layers.Dense(4, use_bias=False), keras.layers.Dense(3, use_bias=False)
    model = keras.Model(inputs, [first(inputs), second(inputs)])
    assert profile(model, tf.ones((2, 8)), metrics="training_flops")["training_flops"] == 2 * 2 * (2 * 8 * (4 + 3))


def test_the_environment_names_the_version_of_the_first_releases_of_keras_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(keras, "__version__")
    monkeypatch.setattr(keras, "version", lambda: "3.0.5")
    assert TFBackend().environment()["keras"] == "3.0.5"


def test_the_environment_names_the_version_of_legacy_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    """``import tensorflow.keras`` puts a module into place that has no version of its own."""
    tf_keras = pytest.importorskip("tf_keras")
    monkeypatch.setattr(tf, "keras", importlib.import_module("tf_keras.api._v2.keras"))
    assert TFBackend().environment()["keras"] == tf_keras.__version__


def test_the_environment_names_versions_and_threads() -> None:
    facts = BACKEND.environment()
    assert facts["tensorflow"] == tf.__version__
    assert {"keras", "intra_op_threads", "inter_op_threads"} <= facts.keys()


def test_models_are_read_from_their_files(tmp_path: Path) -> None:
    model, x = images(), tf.ones((1, 8, 6, 3))
    macs = 6 * 4 * 4 * (3 * 3 * 3)
    model.save(tmp_path / "conv.keras")
    model.export(tmp_path / "exported", verbose=False)
    for path in (tmp_path / "conv.keras", str(tmp_path / "exported")):
        profiler = TFProfiler(path, inputs=x).register_defaults()
        assert profiler.compute_status("macs") == macs
        assert profiler.compute_status("total_params") == model.count_params()
    assert TFProfiler(tmp_path / "conv.keras").name == "conv"
    assert profile(tmp_path / "conv.keras", x, backend="tensorflow", metrics="macs")["macs"] == macs


def test_a_path_without_a_model_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'nowhere.keras' does not exist; give a model, the path of a .keras"):
        TFProfiler("nowhere.keras")
    with pytest.raises(InputError, match="exists, but holds no such model"):
        TFProfiler(tmp_path)


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
@pytest.mark.parametrize("name", ["inputs", "mask", "training"])
def test_an_input_may_have_the_name_of_a_parameter_of_keras(name: str, package: str) -> None:
    library = pytest.importorskip(package)
    x, other = library.Input((4,), name="x"), library.Input((4,), name=name)
    model = library.Model({"x": x, name: other}, library.layers.Dense(2)(x + other))
    assert profile(model, metrics=["macs"], strict=True)["macs"] == 4 * 2
    given = {"x": np.ones((3, 4), np.float32), name: np.ones((3, 4), np.float32)}
    assert profile(model, given, metrics=["macs"], strict=True)["macs"] == 3 * 4 * 2


# What is kept of a model -----------------------------------------------------------------------------------------


class Product(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.ones((3, 4)))

    @tf.function  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        return x @ self.weight


def make_function() -> Any:
    weight = tf.Variable(tf.ones((3, 4)))
    return tf.function(lambda x: x @ weight)


def make_eager() -> Any:
    weight = tf.Variable(tf.ones((3, 4)))
    return lambda x: x @ weight if float(tf.reduce_sum(x).numpy()) else x


@pytest.mark.parametrize("make", [images, Product, make_function, make_eager])
def test_a_report_keeps_no_model_alive(make: Callable[[], Any]) -> None:
    model = make()
    x = tf.ones((1, 8, 6, 3))
    report = profile(model, x, backend="tensorflow", metrics=["macs", "execution_time"], num_iters=1, warmup=0)
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None
    assert report.layers is not None
    assert report.layers[0]["macs"] == report["macs"] == (6 * 4 * 4 * 27 if make is images else 8 * 6 * 3 * 4)


def test_each_trace_of_a_model_keeps_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """One backend serves all profilers: two that profile one model on other inputs do not take their programs away."""
    model, first, second = images(), ModelInputs(tf.ones((1, 8, 6, 3))), ModelInputs(tf.ones((2, 8, 6, 3)))
    traces = [BACKEND.trace(model, inputs) for inputs in (first, second)]
    monkeypatch.setattr("profilerkit_tensorflow.running.modes.trace_program", None)  # it must not be called
    for inputs in (first, second):
        with BACKEND.run(model, inputs) as run:
            assert run().shape[0] == inputs.args[0].shape[0]
    del traces, run
    gc.collect()
    assert BACKEND._find_program(model, first) is None


def test_the_latest_of_two_programs_is_run() -> None:
    """The list is the same object after it has changed, so that both programs seem to fit."""

    class Scaled(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.factors = [2.0]

        def call(self, x: Any) -> Any:
            return x * math.prod(self.factors)

    model, inputs = Scaled(), ModelInputs(tf.ones((1, 2)))
    model.build((1, 2))
    first = BACKEND.trace(model, inputs)
    model.factors.append(3.0)
    second = BACKEND.trace(model, inputs)
    with BACKEND.run(model, inputs) as run:
        assert run().numpy().tolist() == [[6.0, 6.0]]
    assert first.program is not second.program
