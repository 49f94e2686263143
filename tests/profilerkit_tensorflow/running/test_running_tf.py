"""Running models for time: the modes, the first call, devices, and what comes back."""

from __future__ import annotations

import itertools
import warnings
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from profilerkit import InputError, ModelInputs, Profiler, profile
from profilerkit.backend import RunOptions
from profilerkit_tensorflow import ComputeComplexity, ComputeExecutionTime, TFBackend, TFProfiler


def classifier() -> Any:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)], name="small")


X = np.ones((3, 4), np.float32)


@pytest.mark.parametrize("mode", TFBackend.execution_modes)
def test_every_mode_runs_a_model_and_leaves_it_as_it_was(mode: str) -> None:
    model = classifier()
    model.compile("adam", "mse")
    weights = [value.copy() for value in model.get_weights()]
    before = {name: id(value) for name, value in vars(model).items()}
    report = profile(model, X, metrics=["execution_time", "throughput"], mode=mode, num_iters=2, warmup=0)
    assert float(report["execution_time"]) > 0
    times, rates = report["execution_time"].samples, report["throughput"].samples
    assert list(rates) == pytest.approx([3 / seconds for seconds in times])
    assert {name: id(value) for name, value in vars(model).items()} == before
    for value, kept in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(value, kept)


def test_an_unknown_mode_names_those_that_are_there() -> None:
    profiler = Profiler(classifier(), inputs=X)
    profiler.register_profiler_function(ComputeExecutionTime())
    with pytest.raises(InputError, match="mode='fast': the tensorflow backend .* 'graph', 'eager', 'xla', 'predict'"):
        profiler.compute_status("execution_time", mode="fast")


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_a_pass_waits_for_a_gpu_whatever_the_model_is(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function has no variables that tell a device; on a GPU its call returns before its work is done."""
    seen = [*tf.config.list_logical_devices(), SimpleNamespace(name="/device:GPU:0", device_type="GPU")]
    waits: list[str] = []
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: seen)
    monkeypatch.setattr(tf.test.experimental, "sync_devices", lambda: waits.append(mode))
    with TFBackend().run(lambda x: x + 1, ModelInputs(tf.ones((2, 2))), RunOptions(mode=mode)) as run:
        run()
    assert waits == [mode]


def test_predict_is_for_models_that_have_it() -> None:
    profiler = Profiler(keras.layers.Dense(2), inputs=X)
    profiler.model.build((None, 4))
    profiler.register_profiler_function(ComputeExecutionTime())
    with pytest.raises(InputError, match="mode='predict': a Dense has no predict.* 'graph', 'eager' or 'xla'"):
        profiler.compute_status("execution_time", mode="predict")


@pytest.mark.parametrize("inputs", [ModelInputs(X, X), ModelInputs(first=X, second=X)])
def test_predict_does_not_run_models_of_several_arguments(inputs: ModelInputs) -> None:
    """Keras hands on the inputs as one list or dict: the error is said to be the mode's, not that of the inputs."""

    class Sum(keras.Model):  # type: ignore[misc]
        def call(self, first: Any, second: Any) -> Any:
            return first + second

    with pytest.raises(InputError, match="predict.. hands on one structure of inputs, and the call of this Sum takes"):
        profile(Sum(), inputs, mode="predict", metrics=["execution_time"], strict=True)


def test_predict_takes_no_keyword_arguments_beside_the_inputs() -> None:
    """They took the place of the inputs, which were left out."""
    with pytest.raises(InputError, match="predict.. takes no training beside the inputs"):
        profile(classifier(), ModelInputs(X, training=False), mode="predict", metrics=["execution_time"], strict=True)


def test_the_first_call_is_told_apart() -> None:
    report = profile(classifier(), X, metrics=["first_call_time"])
    assert report["first_call_time"] > 0


def test_one_trace_serves_the_counts_and_the_time() -> None:
    traces, calls = itertools.count(), itertools.count()  # a list would be put back as it was

    class Counting(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            next(calls if tf.executing_eagerly() else traces)
            return 2 * x

    model = keras.Sequential([keras.Input((4,)), Counting()])
    before = next(traces), next(calls)
    profiler = TFProfiler(model, inputs=X)
    profiler.register_profiler_function(ComputeComplexity())
    profiler.register_profiler_function(ComputeExecutionTime())
    profiler.compute_network_status(num_iters=2, warmup=0)
    # one of each is this reading
    assert (next(traces), next(calls)) == (before[0] + 2, before[1] + 1)


def test_a_changed_setting_is_traced_anew() -> None:
    class Scaled(keras.layers.Layer):  # type: ignore[misc]
        times = 1

        def call(self, x: Any) -> Any:
            for _ in range(self.times):
                x = tf.tanh(x)
            return x

    model = keras.Sequential([keras.Input((4,)), Scaled()])
    backend = TFBackend()
    trace = backend.trace(model, ModelInputs(tf.constant(X)))
    assert trace.flops == 12
    assert trace.program.fits(model, ModelInputs(tf.constant(X)))
    model.layers[0].times = 3
    assert not trace.program.fits(model, ModelInputs(tf.constant(X)))
    assert not trace.program.fits(model, ModelInputs(tf.constant(X[:2])))


def test_a_model_is_let_go_with_its_trace() -> None:
    import gc
    import weakref

    backend, model = TFBackend(), classifier()
    trace = backend.trace(model, ModelInputs(tf.constant(X)))
    assert trace.macs == 3 * (4 * 8 + 8 * 2)
    known = weakref.ref(model)
    del trace, model
    gc.collect()
    assert known() is None


def test_a_stateful_layer_gets_its_state_back() -> None:
    model = keras.Sequential(
        [keras.Input((5, 4), batch_size=3), keras.layers.LSTM(2, stateful=True), keras.layers.Dropout(0.5)]
    )
    model(np.ones((3, 5, 4), np.float32))
    states = [state.numpy() for state in model.layers[0].states]
    for mode in TFBackend.execution_modes:
        profile(model, np.ones((3, 5, 4), np.float32), metrics=["execution_time"], mode=mode, num_iters=2, warmup=0)
        for state, kept in zip(model.layers[0].states, states, strict=True):
            np.testing.assert_array_equal(state.numpy(), kept)


def test_an_unbuilt_model_is_counted_and_not_timed() -> None:
    class Unbuilt(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    model = Unbuilt()
    report = profile(model, X, num_iters=2, warmup=0)
    assert report["macs"] == 3 * 4 * 2
    assert report["total_params"] == 4 * 2 + 2
    said = report.status("execution_time")
    assert said.completeness.value == "unavailable"
    assert "is not built" in said.missing[0]
    assert "model.build()" in said.missing[0]
    assert not model.built
    assert model.weights == []


def test_functions_modules_and_saved_models_are_timed(tmp_path: Any) -> None:
    class Module(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(tf.ones((4, 2)))

        @tf.function(input_signature=[tf.TensorSpec([None, 4])])  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return x @ self.w

    module = Module()
    tf.saved_model.save(module, str(tmp_path))
    for model in (module, tf.function(lambda x: x @ module.w), tf.saved_model.load(str(tmp_path))):
        report = profile(model, X, num_iters=2, warmup=0)
        assert report["macs"] == 3 * 4 * 2
        assert float(report["execution_time"]) > 0
    report = profile(lambda x: x @ module.w, X, backend="tensorflow", num_iters=2, warmup=0)
    assert (report["macs"], report["total_params"]) == (3 * 4 * 2, 8)


def test_layers_that_were_never_called_do_not_keep_a_model_from_running() -> None:
    class Sparing(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.used = keras.layers.Dense(3)
            self.unused = keras.layers.Dense(4)
            self.at_times = keras.layers.Dense(5)

        def call(self, x: Any, further: bool = False) -> Any:
            return self.at_times(self.used(x)) if further else self.used(x)

    model = Sparing()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras' own, about the layers that are not built
        model(X)
        report = profile(model, X, num_iters=2, warmup=0)
        further = profile(model, ModelInputs(tf.constant(X), further=True), num_iters=2, warmup=0)
    assert (report["macs"], report["total_params"]) == (3 * 4 * 3, 4 * 3 + 3)
    assert (further["macs"], further["total_params"]) == (3 * (4 * 3 + 3 * 5), 4 * 3 + 3 + 3 * 5 + 5)
    assert float(report["execution_time"]) > 0
    assert float(further["execution_time"]) > 0
    assert [layer.built for layer in (model.used, model.unused, model.at_times)] == [True, False, False]
    assert len(model.weights) == 2
