"""The numpy backend in use: profiles, comparisons, what is handed back, what is said of mistakes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import numpy_networks
import pytest

import profilerkit_numpy
from profilerkit import (
    BackendNotFoundError,
    DeviceNotAvailableError,
    InputError,
    ModelFailedError,
    ModelInputs,
    NotOfferedError,
    Profiler,
    TensorSpec,
    compare,
    profile,
)
from profilerkit.hooks.backends import backend_named
from profilerkit.models.recognition import find_backend
from profilerkit.protocols import Trains, require_capability
from profilerkit.testing import ARCHITECTURES
from profilerkit_metrics import ComputeEvalMetric
from profilerkit_numpy.backend import NumpyBackend
from profilerkit_numpy.layers import Array, Layer, Sequential, activation, dense, dropout

BACKEND = NumpyBackend()


def test_it_is_as_small_as_the_page_says() -> None:
    files = Path(profilerkit_numpy.__file__).parent.rglob("*.py")
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert 180 < len(lines) < 220


def test_networks_are_recognised_and_those_of_subclasses_too() -> None:
    class Mine(Sequential):
        """Stands in another module."""

    for model in (Sequential(), Mine()):
        assert isinstance(find_backend(model), NumpyBackend)
    assert isinstance(backend_named("numpy"), NumpyBackend)
    with pytest.raises(BackendNotFoundError):
        find_backend(np.zeros(3))
    with pytest.raises(TypeError, match="the numpy backend cannot profile a Layer; give it a model of its own"):
        Profiler(dense(1, 1), backend="numpy")


def test_a_function_can_be_timed_but_not_followed() -> None:
    calls: list[int] = []

    def twice(model: Sequential, x: Array) -> Array:
        calls.append(len(x))
        return model(model(x))

    network, x = Sequential(dense(3, 3)), np.ones((2, 3), "float32")
    report = profile(network, x, call=twice, metrics=["macs", "execution_time"], num_iters=6, warmup=0)
    reason = "call= was given, but only the model's own call can be followed here; leave it out"
    assert report.status("macs").missing == (reason,)
    assert report["execution_time"].median > 0
    assert set(calls) == {2}


def test_a_network_that_calls_its_layers_in_its_own_way_is_refused() -> None:
    class Residual(Sequential):
        def __call__(self, x: Array) -> Array:
            return x + super().__call__(x)

    with pytest.raises(TypeError, match="the numpy backend cannot profile a Residual"):
        profile(Residual(dense(2, 2)), input_shape=(2,))


def test_a_profile_has_every_metric() -> None:
    lenet = ARCHITECTURES["lenet5"]
    report = profile(numpy_networks.lenet5(), input_shape=(28, 28, 1), batch_size=2, num_iters=3, warmup=0, strict=True)
    assert (report.backend, report.batch_size) == ("numpy", 2)
    assert (report["macs"], report["flops"]) == (lenet.macs(2), lenet.flops(2))
    assert report["total_params"] == report["trainable_params"] == 61_706
    assert report["model_size"] == 4 * 61_706
    # The first tanh: image, convolution and tanh, for each of two samples.
    assert report["memory_footprint"] == 4 * (61_706 + 2 * (784 + 4704 + 4704))
    assert report["throughput"].median == pytest.approx(2 / report["execution_time"].median)
    assert report.environment["numpy"] == np.__version__


def test_what_it_does_not_offer_is_said() -> None:
    report = profile(
        numpy_networks.mlp(), input_shape=(20,), metrics=["training_macs", "layer_times", "first_call_time"]
    )
    for name, reason in {
        "training_macs": "the numpy backend does not trace training steps",
        "layer_times": "the numpy backend does not time single layers",
        "first_call_time": "the numpy backend compiles nothing in mode 'eager': all calls are alike",
    }.items():
        assert report.status(name).missing == (reason,)
    with pytest.raises(NotOfferedError):
        require_capability(BACKEND, Trains).trace_training(numpy_networks.mlp(), ModelInputs(np.zeros((1, 20))))


def test_a_torch_model_and_one_in_numpy_side_by_side() -> None:
    """They are given one input, a tensor; the MLP costs the same in both."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    first, second = nn.Linear(20, 32), nn.Linear(32, 16)
    twin = nn.Sequential(first, nn.ReLU(), nn.Dropout(), second, nn.ReLU(), nn.Linear(16, 10))
    static = ["total_params", "model_size", "macs", "flops", "memory_footprint"]
    comparison = compare(twin, numpy_networks.mlp(), inputs=torch.zeros(3, 20), metrics=static, strict=True)
    reference, other = comparison.reference, comparison.other()
    assert (reference.backend, other.backend) == ("torch", "numpy")
    assert [reference[name] for name in static] == [other[name] for name in static]
    assert other["macs"] == 3 * 1312
    assert (reference.batch_size, other.batch_size) == (3, 3)


def test_an_evaluation_runs_in_inference_mode() -> None:
    model = Sequential(dropout(0.9), dense(2, 2))
    model.training = True
    model.layers[1].weights["weight"] = np.eye(2, dtype=np.float32)
    batches = [(np.array([[3, 1], [0, 2]], np.float32), np.array([0, 1])), (np.ones((1, 2), np.float32), np.array([1]))]

    def accuracy(network: Sequential, loader: Any) -> float:
        right = [network(x).argmax(1) == targets for x, targets in loader]
        return 100 * float(np.concatenate(right).mean())

    profiler = Profiler(model, {"test": batches})
    profiler.register_profiler_function(ComputeEvalMetric(accuracy, "accuracy", unit_name="%"))
    assert profiler.compute_status("eval_metric") == pytest.approx(200 / 3)  # a tie is the first class
    assert model.training


def random_states() -> str:
    with np.printoptions(threshold=10_000):
        return repr((random.getstate(), np.random.get_state()))


def test_what_an_evaluation_changes_comes_back() -> None:
    """Flags, attributes, arrays and their values, layers, random numbers; after an error too."""
    model = numpy_networks.mlp()
    layers, layer = model.layers, model.layers[0]
    weights, array = layer.weights, layer.weights["weight"]
    values, states = array.copy(), random_states()

    def vandalise() -> None:
        assert not model.training
        array[:] = 7
        weights["bias"] = np.ones(32)
        layer.weights, layer.trainable, model.layers = {}, False, ()
        model.added = True  # type: ignore[attr-defined]
        np.random.random()
        random.random()
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        BACKEND.evaluate(model, vandalise)
    assert model.training
    assert model.layers is layers
    assert not hasattr(model, "added")
    assert layer.trainable
    assert layer.weights is weights
    assert weights["weight"] is array
    assert np.array_equal(array, values)
    assert weights["bias"].tolist() == [0] * 32
    assert random_states() == states


def test_values_are_computed_anew_when_a_weight_or_a_flag_changes() -> None:
    model = Sequential(dense(2, 2))
    profiler = Profiler(model, input_shape=(2,)).register_defaults()
    assert profiler.compute_status("trainable_params") == 6
    model.layers[0].trainable = False
    assert profiler.compute_status("trainable_params") == 0
    before = BACKEND.fingerprint(model)
    model.layers[0].weights["bias"][1] = 1
    assert BACKEND.fingerprint(model) != before


def test_a_model_that_raises_keeps_what_needs_no_run() -> None:
    def refuse(x: Array) -> Array:
        raise ValueError("not today")

    report = profile(
        Sequential(dense(2, 2), Layer("Refuse", refuse)), input_shape=(2,), metrics=["macs", "total_params"]
    )
    assert report["total_params"] == 6
    assert "the model raised ValueError: not today" in report.status("macs").missing[0]
    with pytest.raises(ModelFailedError, match="do these inputs fit it"):
        profile(Sequential(dense(2, 2)), input_shape=(3,), strict=True)


def test_there_is_no_device_but_the_cpu() -> None:
    with pytest.raises(DeviceNotAvailableError, match="device 'cuda' is not there; numpy runs on 'cpu' alone"):
        profile(Sequential(), np.zeros((1, 2)), device="cuda")


def test_inputs_are_made_of_a_spec() -> None:
    assert BACKEND.random_tensor(TensorSpec((2, 3), "float16"), 4).dtype == np.float16
    assert BACKEND.random_tensor(TensorSpec((2,), "int32"), 3).tolist() == [[0, 0]] * 3
    with pytest.raises(InputError, match="numpy has no dtype 'float31'; use a name such as 'float32' or 'int64'"):
        BACKEND.random_tensor(TensorSpec((2,), "float31"), 1)


def test_batches_are_cut_and_repeated() -> None:
    x = np.arange(6).reshape(3, 2)
    assert BACKEND.with_batch_size(x, 2).tolist() == [[0, 1], [2, 3]]
    assert BACKEND.with_batch_size(x, 4).tolist() == [[0, 1], [2, 3], [4, 5], [0, 1]]
    with pytest.raises(InputError, match="an input has an empty batch, which cannot be repeated to a batch size"):
        BACKEND.with_batch_size(x[:0], 4)


def test_forward_yields_a_call_of_the_model() -> None:
    model, x = Sequential(dense(2, 3), activation()), np.ones((4, 2), np.float32)
    with BACKEND.run(model, ModelInputs(x)) as call:
        assert np.array_equal(call(), model(x))
    with pytest.raises(InputError, match="mode='graph': the numpy backend has no such mode"):
        profile(model, x, metrics=["execution_time"], mode="graph", strict=True)
