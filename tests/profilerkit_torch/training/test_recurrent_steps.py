"""Recurrent layers in a training step: their work by the formulas of the docs, their memory as on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from measured_steps import measure_step
from tiny import BACKEND, Call, ones
from torch import nn

from profilerkit import ModelInputs, ModelTrace
from profilerkit_torch.trace import tracing

STEPS, SAMPLES, FEATURES, UNITS = 5, 2, 6, 4
POSITIONS = STEPS * SAMPLES


def step(model: nn.Module, *args: Any) -> ModelTrace:
    trace = BACKEND.trace_training(model, ModelInputs(*args))
    assert trace.failure is None, trace.failure
    return trace


#: By kind: gates, and the operations of the gates for each unit, forward and backward, as the docs have them.
KINDS = {"RNN": (1, 2, 2), "GRU": (3, 11, 11), "LSTM": (4, 13, 13)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_exported", [False, True])
@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")  # of torch's own export
def test_a_layer_costs_what_the_formulas_say(kind: str, is_exported: bool) -> None:
    """Matrices of gates * 4 x (6 + 4), two biases of gates * 4; nobody needs the gradients of input and first state."""
    gates, forward, backward = KINDS[kind]
    rows, units = gates * UNITS, POSITIONS * UNITS
    matrices, biases = rows * (FEATURES + UNITS), 2 * rows
    unwanted = POSITIONS * rows * FEATURES + SAMPLES * rows * UNITS
    layer, x = getattr(nn, kind)(FEATURES, UNITS), ones(STEPS, SAMPLES, FEATURES)
    trace = step(torch.export.export(layer, (x,)).module() if is_exported else layer, x)
    assert trace.macs == 3 * POSITIONS * matrices - unwanted
    assert trace.flops == 2 * trace.macs + units * (forward + backward) + 2 * POSITIONS * biases
    assert all(row["own_flops"] == trace.flops for row in trace.table if not row["path"])
    assert any("lstm" in reason for reason in trace.memory.missing) == (kind == "LSTM")


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


def attack(self: Any, x: torch.Tensor) -> Any:
    """Run the layer on inputs that its gradient by the input has made worse (FGSM)."""
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(self.layer(x)[0].sum(), x)
    return self.layer((x + 0.1 * gradient.sign()).detach())[0]


def penalize(self: Any, x: torch.Tensor) -> Any:
    """Return a loss with a penalty for the gradient by the input."""
    x = x.detach().requires_grad_()
    output = self.layer(x)[0]
    (gradient,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    return output.sum() + gradient.square().sum()


def adapt(self: Any, x: torch.Tensor) -> Any:
    """Run the layer with the weights of one step of gradient descent, which is differentiated too (MAML)."""
    weights = dict(self.layer.named_parameters())
    loss = self.layer(x)[0].square().sum()
    gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
    adapted = {name: weight - 0.1 * g for (name, weight), g in zip(weights.items(), gradients, strict=True)}
    return torch.func.functional_call(self.layer, adapted, (x,))[0]


def count_steps_that_differentiate(rows: int) -> dict[Any, int]:
    """Return the MACs of a step of each of the three above, of a layer whose matrices have so many rows.

    ``inputs`` is one product with the matrix of the input for all positions, ``states`` one with the states' matrix,
    and ``back`` one that leads from each state to the one before, but for the first state, whose gradient nobody needs.
    """
    inputs, states = POSITIONS * rows * FEATURES, POSITIONS * rows * UNITS
    back = (POSITIONS - SAMPLES) * rows * UNITS
    forward = weights = inputs + states
    return {
        # Forward, and back to the input; then a step as any other.
        attack: (forward + inputs + back) + (forward + weights + back),
        # As before; then back through the forward pass, and each product of the first gradient by both its factors.
        penalize: (forward + inputs + back) + (weights + inputs + back) + 2 * (inputs + back),
        # Two steps; then back through the products that made the first gradients: those of the weights by what came
        # back, and by the states; those that lead back by both factors; and back through the first forward pass.
        adapt: 2 * (forward + weights + back) + (inputs + states + back) + 2 * back + (weights + back),
    }


@pytest.mark.parametrize("function", [attack, penalize, adapt])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_differentiates_its_layer(kind: str, function: Any) -> None:
    model = Call(function, layer=getattr(nn, kind)(FEATURES, UNITS))
    trace = step(model, ones(STEPS, SAMPLES, FEATURES))
    assert trace.macs == count_steps_that_differentiate(KINDS[kind][0] * UNITS)[function]
    assert trace.notes == ()


@pytest.mark.parametrize("function", [attack, penalize, adapt, lambda self, x: self.layer(x)[0]])
@pytest.mark.parametrize("kind", KINDS)
def test_a_real_run_counts_as_shapes_do(kind: str, function: Any) -> None:
    """What asks a value needs a real run, by which its gradients must be right too: the model sees them."""

    def ask(self: Any, x: torch.Tensor) -> Any:
        if not (x > 0).all():
            raise AssertionError("never")
        return function(self, x)

    layer, x = getattr(nn, kind)(FEATURES, UNITS), ones(STEPS, SAMPLES, FEATURES)
    by_shapes, by_values = (step(Call(run, layer=layer), x) for run in (function, ask))
    assert any("counted in a real run" in note for note in by_values.notes)
    assert by_values.macs == by_shapes.macs
    assert by_values.flops == by_shapes.flops
    assert by_values.memory.peak_bytes() == by_shapes.memory.peak_bytes()


@pytest.mark.parametrize("function", [attack, penalize, adapt, lambda self, x: self.layer(x)[0]])
@pytest.mark.parametrize("kind", KINDS)
def test_fake_tensors_count_as_meta_tensors_do(kind: str, function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Call(function, layer=getattr(nn, kind)(FEATURES, UNITS)), ones(STEPS, SAMPLES, FEATURES)
    on_meta = step(model, x)
    monkeypatch.setattr(tracing, "_on_meta", tracing._on_fake)
    on_fake = step(model, x)
    assert on_fake.notes == ()
    assert (on_fake.macs, on_fake.flops) == (on_meta.macs, on_meta.flops)
    assert on_fake.memory.peak_bytes() == on_meta.memory.peak_bytes()


@pytest.mark.parametrize(("kind", "kept"), [("RNN", 1), ("GRU", 7)])
def test_what_a_layer_keeps(kind: str, kept: int) -> None:
    """There are the input and the first state; what was kept; the output and the last state. Numbers of 4 bytes.

    Besides, forward, the products of the input for all gates; no step needs the last output of a GRU. At the first step
    back the gradients of the last two, of the step's gates, once or twice, of the states' matrix and its bias, and two
    of the state before. At the second step an RNN has those of the gates of both, and of the matrix twice. When the
    gates' gradients of all steps are put together they are there twice, and what was kept and the gradients of the
    output and the last state are gone.
    """
    steps, samples, features, units = 50, 32, 4, 4
    gates = KINDS[kind][0]
    trace = step(getattr(nn, kind)(features, units), ones(steps, samples, features))
    sequence, state = steps * samples * units, samples * units
    around = steps * samples * features + state + sequence + state
    by_hidden = gates * units * (units + 1)
    forward = around + kept * sequence + gates * sequence - (state if kind == "GRU" else 0)
    twice = 2 if kind == "GRU" else 1
    first_step = around + kept * (sequence - state) + sequence + twice * gates * state + by_hidden + 2 * state
    second_step = first_step + (by_hidden if kind == "RNN" else 0)
    together = around + 2 * gates * sequence + by_hidden
    assert trace.memory.peak_bytes(include_weights=False) == 4 * max(forward, second_step, together)
    assert sum(trace.memory.parts.values()) == trace.memory.peak_bytes(include_weights=False)


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
@pytest.mark.parametrize(
    ("sizes", "units", "options"),
    [
        ((20, 8, 32), 16, {}),
        ((20, 8, 512), 16, {}),
        ((20, 8, 16), 128, {}),
        ((4, 112, 16), 64, {}),
        ((20, 112, 16), 64, {"bidirectional": True}),
        ((8, 20, 32), 16, {"batch_first": True}),
        ((20, 8, 32), 16, {"num_layers": 2, "bidirectional": True}),
        ((20, 8, 32), 16, {"num_layers": 2, "dropout": 0.5}),
        ((20, 8, 32), 16, {"bias": False}),
    ],
)
def test_memory_is_near_the_allocators(kind: str, sizes: tuple[int, ...], units: int, options: dict[str, Any]) -> None:
    layer, x = getattr(nn, kind)(sizes[-1], units, **options), torch.randn(sizes)
    model = Call(lambda self, x: self.layer(x)[0], layer=layer)
    predicted = step(model, x).memory.peak_bytes(include_weights=False)
    assert predicted == pytest.approx(x.nbytes + measure_step(model, x), rel=0.04)
