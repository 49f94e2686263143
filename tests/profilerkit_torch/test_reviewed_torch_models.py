"""Models of kinds that a review found wrong: compiled parts, gradients inside, oneDNN's LSTM, no operators at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones, trace_complete
from torch import nn

from profilerkit import ModelInputs, profile

pytestmark = pytest.mark.slow

ROWS = 5


# Compiled parts -----------------------------------------------------------------------------------------------------


def _compiles(function: Callable[[], Any]) -> int:
    """Return how many graphs torch compiles during a call."""
    from torch._dynamo.utils import counters

    before: int = counters["stats"]["unique_graphs"]
    function()
    after: int = counters["stats"]["unique_graphs"]
    return after - before


def _make_doubling() -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function with code of its own, since torch remembers by the code."""
    names: dict[str, Any] = {}
    exec("def doubled(x):\n    return x * 2 + 1", names)
    function: Callable[[torch.Tensor], torch.Tensor] = names["doubled"]
    return function


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("metric", ["execution_time", "measured_memory", "layer_times", "macs", "training_macs"])
def test_a_compiled_function_in_a_model_is_compiled_when_the_user_runs_it(metric: str, fullgraph: bool) -> None:
    """A mode in the first pass would have torch refuse to compile it: with an error, or for the rest of the process."""
    doubled = torch.compile(_make_doubling(), backend="eager", fullgraph=fullgraph)
    model = Call(lambda self, x: doubled(self.linear(x)), linear=nn.Linear(4, 4))
    options: dict[str, Any] = {"backward": False} if metric == "layer_times" else {}

    def profile_and_run() -> None:
        record = profile(model, ones(ROWS, 4), metrics=[metric], **options).status(metric)
        assert record.completeness.value == "complete", record.missing
        with torch.no_grad():
            model(ones(ROWS, 4))

    assert _compiles(profile_and_run) == 1


def test_the_time_of_a_compiled_model_is_that_of_compiled_code() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.linear(x))

    model = torch.compile(Own(), backend="eager")
    assert _compiles(lambda: profile(model, ones(ROWS, 4), metrics=["execution_time"])) == 1


def test_the_memory_of_flex_attention_is_measured() -> None:
    """Torch compiles a part of it by itself."""
    from torch.nn.attention.flex_attention import flex_attention

    model = Call(lambda self, x: flex_attention(x, x, x))
    record = profile(model, ones(1, 2, 16, 16), metrics=["measured_memory"]).status("measured_memory")
    assert record.value >= 2 * (1 * 2 * 16 * 16 * 4), "the input and an output of its size"


# Gradients inside ---------------------------------------------------------------------------------------------------


class Forces(nn.Module):
    """Energies of positions and the forces; it expects to be called with gradients enabled."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        positions.requires_grad_(True)
        energy = self.energy(positions).sum()
        return energy, -torch.autograd.grad(energy, positions, create_graph=self.training)[0]


@pytest.mark.parametrize("needs_values", [False, True])
def test_a_model_that_needs_gradients_of_its_caller_is_counted_with_them(needs_values: bool) -> None:
    """Per row 8 * 3 + 8 MACs forward and as many for the gradient by the positions."""
    forces = Forces()

    def function(self: Any, x: torch.Tensor) -> Any:
        assert not needs_values or x.sum().item()
        return self.forces(x)

    positions = ones(ROWS, 3)
    found = trace_complete(Call(function, forces=forces), positions)
    forward = 2 * (24 + 8) + 8 + 1 + 8  # products, two biases, tanh
    backward = 2 * (24 + 8) + 8  # products, tanh
    reductions = ROWS + 3 * ROWS  # the sum, the sign
    assert found.macs == ROWS * 2 * (24 + 8)
    assert found.flops == ROWS * (forward + backward) + reductions + needs_values * 3 * ROWS
    assert any("relies on its caller to enable them" in note for note in found.notes)
    assert not positions.requires_grad and positions.grad is None


def test_such_a_model_runs_for_every_metric_and_its_input_stays_as_it_was() -> None:
    positions = ones(ROWS, 3)
    keys = ["execution_time", "measured_memory", "memory_footprint", "effective_macs", "training_macs"]
    report = profile(Forces(), positions, metrics=keys)
    assert [report.status(key).completeness.value for key in keys] == ["complete"] * len(keys)
    assert report["measured_memory"] == report["memory_footprint"]
    assert not positions.requires_grad and positions.grad is None


def test_what_fails_with_and_without_gradients_says_what_it_says_without() -> None:
    def function(self: Any, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("grad is enabled" if torch.is_grad_enabled() else "grad is missing")

    model = Call(function, linear=nn.Linear(4, 4))
    report = profile(model, ones(ROWS, 4), metrics=["macs", "execution_time"])
    for key in ("macs", "execution_time"):
        assert "grad is missing" in report.status(key).missing[0], key


def test_an_input_given_twice_is_one_tensor_in_a_real_run_too() -> None:
    def function(self: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        assert x.sum().item()
        out: torch.Tensor = self.linear(x) if x is y else self.linear(x) + self.linear(y)
        return out

    x = ones(ROWS, 4)
    assert trace_complete(Call(function, linear=nn.Linear(4, 4)), x, x).macs == ROWS * 16


# Training -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("needs_values", [False, True])
def test_an_lstm_has_no_gradient_that_nobody_asks_for_in_a_real_run_either(needs_values: bool) -> None:
    """7 steps of 3 samples, 6 features, 5 units: nobody asks for the input's gradient, nor for the first state's."""

    def function(self: Any, x: torch.Tensor) -> Any:
        assert not needs_values or x.sum().item()
        return self.lstm(x)

    was_enabled = torch._C._get_mkldnn_enabled()
    model = Call(function, lstm=nn.LSTM(6, 5))
    found = BACKEND.trace_training(model, ModelInputs(ones(7, 3, 6)))
    of_input, of_state = 3 * 20 * 6, 3 * 20 * 5
    assert found.macs == 7 * (of_input + of_state) * 2 + 6 * of_state
    assert (found.method == "a real run") == needs_values
    assert torch._C._get_mkldnn_enabled() is was_enabled


def test_the_parts_of_a_step_without_operators_are_its_input() -> None:
    keys = ["training_memory", "training_memory_parts"]
    report = profile(nn.Identity(), ones(ROWS, 4), metrics=keys, optimizer="sgd")
    parts = {name: value for name, value in report["training_memory_parts"].items() if isinstance(value, int)}
    assert report["training_memory"] == sum(parts.values()) == parts["inputs"] == ROWS * 4 * 4


# Inputs -------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_input_without_a_shape_is_no_error() -> None:
    """Torch refuses the shape of a tensor whose samples have several; the 8 rows are counted."""
    samples = torch.nested.nested_tensor([ones(3, 4), ones(5, 4)])
    report = profile(nn.Linear(4, 4), samples, metrics=["macs", "throughput"])
    assert report["macs"] == 8 * 16
    assert report.status("throughput").completeness.value == "unavailable"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_packed_weights_are_traced_the_same_way_again() -> None:
    """Torch's memory of fake tensors held on to the packed weights of the first trace, and failed in the second."""
    layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    model = torch.ao.quantization.quantize_dynamic(layers, {nn.Linear})
    found = [trace_complete(model, ones(ROWS, 8)) for _ in range(2)]
    assert [trace.macs for trace in found] == [2 * ROWS * 64] * 2
    assert [trace.method for trace in found] == ["fake tensors"] * 2
