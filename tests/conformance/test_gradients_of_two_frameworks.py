"""Element-wise layers cost the same in a training step of Keras on TensorFlow and of torch, gradients included."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from formula_cases import distinct_constants

torch = pytest.importorskip("torch")
pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

import torch.nn.functional as F  # noqa: E402 - torch comes first, or the tests are skipped

from profilerkit import ModelInputs, profile  # noqa: E402
from profilerkit.costs import convention  # noqa: E402

SHAPE = (6, 4)
ELEMENTS = 24

#: What Keras calls it, and the function of torch; a dropout is no activation.
LAYERS: dict[str, tuple[Any, Callable[..., Any]]] = {
    **{name: (name, getattr(torch, name)) for name in ("relu", "sigmoid", "tanh")},
    **{name: (name, getattr(F, name)) for name in ("relu6", "silu", "elu", "selu", "softplus", "gelu", "hardswish")},
    "hardswish": ("hard_silu", F.hardswish),
    "hardsigmoid": ("hard_sigmoid", F.hardsigmoid),
    "leaky relu": ("leaky_relu", F.leaky_relu),
    "softmax": ("softmax", partial(F.softmax, dim=-1)),
    "log-softmax": ("log_softmax", partial(F.log_softmax, dim=-1)),
}


class Scale(keras.layers.Layer):  # type: ignore[misc, name-defined]
    """Multiplies with a weight: what stands behind it needs the gradient of its input."""

    def build(self, input_shape: Any) -> None:
        self.factor = self.add_weight(name="factor", shape=())

    def call(self, x: Any) -> Any:
        return x * self.factor


def step_of_keras(*layers: Any) -> int:
    """Return the FLOPs of a training step of these layers between two that have a weight."""
    backend = import_module("profilerkit_tensorflow").TFBackend()
    model = keras.Sequential([keras.Input(SHAPE), Scale(), *layers, Scale()])
    found = backend.trace_training(model, ModelInputs(np.zeros((1, *SHAPE), "float32")))
    assert found.failure is None
    assert found.missing == ()
    return int(found.flops)


class Applied(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A layer of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def step_of_torch(function: Callable[..., Any]) -> int:
    """Return the FLOPs of a function of one tensor and of its gradient."""
    x = torch.zeros(1, *SHAPE)
    _, backward = import_module("gradients").gradient(function, x)
    return int(profile(Applied(function), x, metrics=["flops"])["flops"]) + int(backward)


@pytest.fixture(autouse=True)
def _with_torchs_helpers(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.syspath_prepend(str(request.config.rootpath / "tests" / "torch"))


@pytest.fixture(params=["as they are", "each of its own"])
def constants(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The constants of the convention, and values of which no two sums are equal: whichever is changed, both agree."""
    if request.param == "each of its own":
        distinct_constants(monkeypatch)
    return str(request.param)


@pytest.mark.usefixtures("constants")
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "gelu"])
def test_a_layer_and_its_gradient_cost_the_same(name: str) -> None:
    of_keras, of_torch = LAYERS[name]
    assert step_of_keras(keras.layers.Activation(of_keras)) - step_of_keras() == step_of_torch(of_torch)


def test_so_does_a_gelu_which_keras_makes_of_other_functions() -> None:
    """Keras takes ``0.5 * x * erfc(-x / sqrt(2))``, torch ``0.5 * x * (1 + erf(x / sqrt(2)))``: as many operations."""
    of_keras, of_torch = LAYERS["gelu"]
    assert step_of_keras(keras.layers.Activation(of_keras)) - step_of_keras() == step_of_torch(of_torch)


@pytest.mark.usefixtures("constants")
def test_so_does_a_gelu_by_tanh_but_for_one_number() -> None:
    """The gradient of ``x ** 3`` takes 1 off the exponent, once, in TensorFlow's graph."""
    of_keras = keras.layers.Activation(partial(keras.activations.gelu, approximate=True))
    in_torch = step_of_torch(partial(F.gelu, approximate="tanh"))
    assert step_of_keras(of_keras) - step_of_keras() == in_torch + convention.SUBTRACT


def test_so_does_a_dropout() -> None:
    """Mask and scale, two operations for each element, and one for the gradient."""
    assert step_of_keras(keras.layers.Dropout(0.5)) - step_of_keras() == (2 + 1) * ELEMENTS
