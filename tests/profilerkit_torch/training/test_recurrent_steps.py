"""Recurrent layers in a training step: their work by the formulas of the docs, their memory as on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from measured_steps import measure_step
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import ModelInputs, ModelTrace

STEPS, SAMPLES, FEATURES, UNITS = 5, 2, 6, 4
POSITIONS = STEPS * SAMPLES


def step(model: nn.Module, *args: Any) -> ModelTrace:
    trace = BACKEND.trace_training(model, ModelInputs(*args))
    assert trace.failure is None, trace.failure
    return trace


#: By kind: gates, and the operations of the gates for each unit, forward and backward, as the docs have them.
KINDS = {"RNN": (1, 2, 2), "GRU": (3, 11, 11), "LSTM": (4, 13, 13)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_costs_what_the_formulas_say(kind: str) -> None:
    """Matrices of gates * 4 x (6 + 4), two biases of gates * 4; nobody needs the gradients of input and first state."""
    gates, forward, backward = KINDS[kind]
    rows, units = gates * UNITS, POSITIONS * UNITS
    matrices, biases = rows * (FEATURES + UNITS), 2 * rows
    unwanted = POSITIONS * rows * FEATURES + SAMPLES * rows * UNITS
    trace = step(getattr(nn, kind)(FEATURES, UNITS), ones(STEPS, SAMPLES, FEATURES))
    assert trace.macs == 3 * POSITIONS * matrices - unwanted
    assert trace.flops == 2 * trace.macs + units * (forward + backward) + 2 * POSITIONS * biases
    assert all(row["own_flops"] == trace.flops for row in trace.table if not row["path"])


def test_two_layers_in_two_directions() -> None:
    """The second takes 8 features and needs their gradient; four first states do not."""
    trace = step(nn.GRU(FEATURES, UNITS, 2, bidirectional=True), ones(STEPS, SAMPLES, FEATURES))
    rows = 3 * UNITS
    matrices = 2 * rows * (FEATURES + UNITS) + 2 * rows * (2 * UNITS + UNITS)
    unwanted = 2 * POSITIONS * rows * FEATURES + 4 * SAMPLES * rows * UNITS
    assert trace.macs == 3 * POSITIONS * matrices - unwanted


def test_frozen_weights_get_no_gradient() -> None:
    """The matrix of the input is frozen; the states' matrix is applied three times but for the first states."""
    layer = nn.RNN(FEATURES, UNITS)
    layer.weight_ih_l0.requires_grad_(False)
    trace = step(layer, ones(STEPS, SAMPLES, FEATURES))
    assert trace.macs == POSITIONS * UNITS * (FEATURES + 3 * UNITS) - SAMPLES * UNITS * UNITS


@pytest.mark.parametrize(("kind", "kept"), [("RNN", 1), ("GRU", 7)])
def test_what_a_layer_keeps(kind: str, kept: int) -> None:
    """There are the input and the first state; what was kept; the output and the last state. Numbers of 4 bytes.

    Besides, forward, the products of the input for all gates. At the first step back the gradients of the last two, of
    the states' matrix and its bias, and of one step's state. When the gates' gradients of all steps are put together
    they are there twice, and what was kept and the output's gradient are gone.
    """
    steps, samples, features, units = 50, 32, 4, 4
    gates = KINDS[kind][0]
    trace = step(getattr(nn, kind)(features, units), ones(steps, samples, features))
    sequence, state = steps * samples * units, samples * units
    around = steps * samples * features + state + sequence + state
    by_hidden = gates * units * (units + 1)
    forward = around + kept * sequence + gates * sequence
    first_step = around + kept * sequence + sequence + state + by_hidden + state
    together = around + 2 * gates * sequence + state + by_hidden
    assert trace.memory.peak_bytes(include_weights=False) == 4 * max(forward, first_step, together)
    assert sum(trace.memory.parts.values()) == trace.memory.peak_bytes(include_weights=False)


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
@pytest.mark.parametrize(
    ("features", "units", "options"),
    [
        (32, 16, {}),
        (512, 16, {}),
        (16, 128, {}),
        (32, 16, {"batch_first": True}),
        (32, 16, {"num_layers": 2, "bidirectional": True}),
        (32, 16, {"num_layers": 2, "dropout": 0.5}),
        (32, 16, {"bias": False}),
    ],
)
def test_memory_is_near_the_allocators(kind: str, features: int, units: int, options: dict[str, Any]) -> None:
    layer, x = getattr(nn, kind)(features, units, **options), torch.randn(20, 8, features)
    model = Call(lambda self, x: self.layer(x)[0], layer=layer)
    predicted = step(model, x).memory.peak_bytes(include_weights=False)
    assert predicted == pytest.approx(x.nbytes + measure_step(model, x), rel=0.09)
