"""Weights that the forward pass replaces: the old one is freed, as in a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import Call, ones, step, trace_complete
from torch import nn
from torch.nn import functional

from profilerkit import profile
from profilerkit.trace.bounds import Bounds

WIDTH, LAYERS = 64, 5
WEIGHT = WIDTH * WIDTH * 4
BATCH = 4 * WIDTH * 4


def replace_data(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.weight.data = self.weight.data * 0.5
    return functional.linear(x, self.weight)


def replace_buffer(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.table = self.table * 0.5
    return functional.linear(x, self.table)


def with_data() -> nn.Module:
    model = Call(replace_data)
    model.weight = nn.Parameter(torch.ones(WIDTH, WIDTH))
    return model


def with_buffer() -> nn.Module:
    model = Call(replace_buffer)
    model.register_buffer("table", torch.ones(WIDTH, WIDTH))
    return model


def normed() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(nn.Linear(WIDTH, WIDTH, bias=False))


#: By how a layer replaces its weight: the layer, and the bytes beside the new weight while both are alive.
LAYER: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "data": (with_data, 0),
    "buffer": (with_buffer, 0),
    "weight norm": (normed, 4 * WIDTH),  # the norm of each row, which the kernel returns too
}


@pytest.mark.parametrize("name", LAYER)
def test_a_replaced_weight_is_freed(name: str) -> None:
    """At the last layer its old weight and its new one are alive; of the layers before the new ones alone."""
    make, beside = LAYER[name]
    found = trace_complete(nn.Sequential(*(make() for _ in range(LAYERS))), ones(4, WIDTH))
    assert found.memory.peak_bytes(include_weights=False) == 2 * BATCH + WEIGHT + beside


def test_a_step_has_a_gradient_for_each_new_weight() -> None:
    """At the last gradient of a weight there are all five, the input, the output, and the gradient of an activation."""
    found = step(nn.Sequential(*(with_data() for _ in range(LAYERS))), ones(4, WIDTH)).memory
    assert found.peak_bytes(include_weights=False) == LAYERS * WEIGHT + 3 * BATCH
    assert sum(found.parts.values()) == LAYERS * WEIGHT + 3 * BATCH
    assert (found.parts["activations"], found.left_bytes) == (BATCH, LAYERS * WEIGHT + 2 * BATCH)


def test_weights_that_leave_the_device_lower_no_peak_before_them() -> None:
    """Each layer lets go of its weight after its work: the peak is the first layer's, beside all weights."""

    def work_and_leave(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = functional.linear(x, self.weight)
        self.weight.data = torch.empty(0)
        return y

    layers = [Call(work_and_leave) for _ in range(LAYERS)]
    for layer in layers:
        layer.weight = nn.Parameter(torch.ones(WIDTH, WIDTH))
    memory = trace_complete(nn.Sequential(*layers), ones(4, WIDTH)).memory
    assert memory.peak_bytes() == LAYERS * WEIGHT + 2 * BATCH
    assert min(memory.live_bytes) == 0, "no fewer than without any weights"


@pytest.mark.parametrize("name", ["data", "buffer"])
def test_a_real_run_cannot_free_the_weights_of_the_user(name: str) -> None:
    """The old weights stay for the user, which is said: a run without us has the new one and two activations."""
    make, _ = LAYER[name]

    class Asking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if float(x.sum()) else -x

    report = profile(nn.Sequential(Asking(), make()), ones(4, WIDTH), metrics=["memory_footprint"])
    status = report.status("memory_footprint")
    in_a_run = WEIGHT + 2 * BATCH
    assert status.value == in_a_run + WEIGHT
    assert status.bounds == Bounds(in_a_run, in_a_run + WEIGHT)
    assert "16,384 bytes of weights that the model replaces" in " ".join(status.missing)


def test_the_model_has_its_own_weights_back() -> None:
    model: Any = nn.Sequential(with_data(), with_buffer())
    weight, table = model[0].weight, model[1].table
    profile(model, ones(4, WIDTH), metrics=["memory_footprint", "training_memory"])
    assert model[0].weight is weight
    assert model[1].table is table
    assert torch.equal(weight, torch.ones(WIDTH, WIDTH))
