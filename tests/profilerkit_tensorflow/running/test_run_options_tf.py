"""How a TensorFlow model is run to be timed: training steps, XLA; what TensorFlow does not offer is said."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from profilerkit import InputError, ModelInputs, NotOfferedError, compare, metric, profile
from profilerkit.backend import RunOptions
from profilerkit_tensorflow import TFBackend

BACKEND = TFBackend()
X = np.linspace(0, 1, 2 * 8).reshape(2, 8).astype("float32")


def network() -> Any:
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.layers.Input((8,)),
            keras.layers.Dense(4),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2),
        ]
    )


class Noting(keras.layers.Layer):  # type: ignore[misc]
    """Adds to a variable outside what it is called with, when its gradient is taken, and in training."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)
        self.built = True

    def call(self, x: Any, training: bool = False) -> Any:
        TRAINED.assign_add(float(training))

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def noted(y: Any) -> Any:
            def backward(upstream: Any) -> Any:
                BACKWARD.assign_add(tf.reduce_sum(upstream))
                return upstream

            return y, backward

        return noted(self.dense(x))


TRAINED, BACKWARD = tf.Variable(0.0), tf.Variable(0.0)


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_a_training_step_is_forward_in_training_mode_and_backward(mode: str) -> None:
    model = Noting()
    model(X)
    TRAINED.assign(0.0)
    BACKWARD.assign(0.0)
    with BACKEND.run(model, ModelInputs(tf.constant(X)), RunOptions(mode=mode, training=True)) as call:
        start = float(TRAINED), float(BACKWARD)
        for _ in range(3):
            call()
        steps, gradients = float(TRAINED) - start[0], float(BACKWARD) - start[1]
    assert steps == 3
    assert gradients == 3 * 2, "the gradient of the sum over two samples is one for each"


@pytest.mark.parametrize("mode", ["graph", "eager", "xla"])
def test_the_model_is_as_before_after_training_steps(mode: str) -> None:
    model = network()
    before = [variable.numpy() for variable in model.variables]
    tf.random.set_seed(3)
    expected = tf.random.uniform(()).numpy()
    tf.random.set_seed(3)
    with BACKEND.run(model, ModelInputs(tf.constant(X)), RunOptions(mode=mode, training=True)) as call:
        call()
        call()
    assert tf.random.uniform(()).numpy() == expected
    for variable, value in zip(model.variables, before, strict=True):
        assert np.array_equal(variable.numpy(), value)


def test_an_eager_training_step_has_two_parts_and_a_forward_pass_none() -> None:
    noted: list[str] = []
    ticks = iter(range(100))

    def clock() -> float:
        noted.append("clock")
        return float(next(ticks) ** 2)

    class Dense(keras.layers.Dense):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            noted.append("forward")
            return noting_gradient(super().call(x))

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def noting_gradient(y: Any) -> Any:
        def backward(upstream: Any) -> Any:
            noted.append("backward")
            return upstream

        return y, backward

    model = keras.Sequential([keras.layers.Input((8,)), Dense(3)])
    inputs = ModelInputs(tf.constant(X))
    with BACKEND.run(model, inputs, RunOptions(mode="eager", training=True)) as run:
        noted.clear()
        parts = run.parts(clock)
        assert noted == ["clock", "forward", "clock", "backward", "clock"]
        assert parts == {"forward": 1.0, "backward": 3.0}
        assert min(run.parts().values()) > 0
    for mode in BACKEND.execution_modes:
        with BACKEND.run(model, inputs, RunOptions(mode=mode)) as run:
            assert run.parts(clock) == {}


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_a_training_step_that_is_one_function_has_no_parts_that_can_be_timed(mode: str) -> None:
    said = f"mode='{mode}': TensorFlow runs a training step as one function, in which no moment divides the forward"
    inputs = ModelInputs(tf.constant(X))
    with (
        BACKEND.run(network(), inputs, RunOptions(mode=mode, training=True)) as run,
        pytest.raises(NotOfferedError, match=said),
    ):
        run.parts()


def test_a_metric_that_asks_for_parts_that_cannot_be_timed_is_unavailable() -> None:
    @metric("forward_seconds")
    def forward_seconds(backend: Any, model: Any, inputs: Any, run_options: Any) -> float:
        with backend.run(model, inputs, run_options) as run:
            return float(run.parts()["forward"])

    def report(mode: str) -> Any:
        functions = [forward_seconds]
        return profile(network(), X, functions=functions, metrics="forward_seconds", training=True, mode=mode)

    status = report("graph").status("forward_seconds")
    assert status.completeness.value == "unavailable"
    assert "use mode='eager' to time both, or layer_times for the gradients of each layer" in status.missing[0]
    assert report("eager")["forward_seconds"] > 0


def test_training_times_in_a_report() -> None:
    metrics = ["execution_time", "training_time"]
    report = profile(network(), X, metrics=metrics, num_iters=3, drop_first=1)
    assert len(report["training_time"].samples) == 3
    report = profile(network(), X, metrics=metrics, training=True, compile=True, num_iters=2)
    assert any(
        note.startswith("Execution Time: one training step") and note.endswith("compiled") for note in report.notes
    )
    assert "Training Time: compiled" in report.notes
    comparison = compare(network(), network(), inputs=X, metrics="training_time", num_iters=3)
    assert comparison.ratio("training_time").paired


def test_to_be_compiled_is_to_run_by_xla() -> None:
    report = profile(network(), X, compile=True, metrics=["macs", "execution_time", "first_call_time"], num_iters=2)
    assert report["macs"] == 2 * (8 * 4 + 4 * 2)
    assert report["first_call_time"] > float(report["execution_time"]) > 0


@pytest.mark.parametrize(
    ("mode", "compiler"), [(None, "inductor"), (None, {"mode": "x"}), ("eager", True), ("predict", True)]
)
def test_other_ways_to_compile_are_said_to_be_none(mode: str | None, compiler: Any) -> None:
    with pytest.raises(InputError, match="TensorFlow compiles by XLA alone; give compile=True, or mode='xla'"):
        BACKEND.run(network(), ModelInputs(X), RunOptions(mode=mode, compile=compiler))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_threads": 2}, "num_threads=2: TensorFlow takes its threads once, before its first operation; call tf"),
        ({"autocast": True}, "autocast=True: TensorFlow has no autocast; build the model under a mixed policy"),
    ],
)
def test_what_tensorflow_does_not_do_while_it_runs(options: dict[str, Any], message: str) -> None:
    with pytest.raises(NotOfferedError, match=message):
        BACKEND.run(network(), ModelInputs(X), options=RunOptions(**options))
    report = profile(network(), X, metrics=["macs", "execution_time", "training_time", "first_call_time"], **options)
    assert report["macs"] == 2 * (8 * 4 + 4 * 2)
    for key in ("execution_time", "training_time", "first_call_time"):
        assert report.status(key).completeness.value == "unavailable"
        assert message in report.status(key).missing[0]


def test_predict_has_no_training_steps() -> None:
    report = profile(network(), X, metrics="training_time", mode="predict")
    assert (
        "mode='predict' has no training steps; use 'graph', 'eager' or 'xla'"
        in report.status("training_time").missing[0]
    )
