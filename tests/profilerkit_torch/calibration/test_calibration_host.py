"""What the host takes besides operators, from chains of two lengths; the gradients that a calibration measures."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from profilerkit import BackendFailedError
from profilerkit_predict.prediction.cases import HostSeconds
from profilerkit_torch import TorchBackend
from profilerkit_torch.calibration import host as calibration_host
from profilerkit_torch.calibration.host import ChainSeconds, measure_host, split_gradient_seconds
from profilerkit_torch.calibration.layer_cases import (
    describe_inputs,
    describe_layers,
    make_gradient,
    run_gru,
    run_lstm,
)
from profilerkit_torch.calibration.operands import choose_maker

CPU = torch.device("cpu")


def test_the_call_of_a_compiled_graph_and_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """All in us: n products of 2 take 10 + n * (2 + 0.7), with a kernel of 0.5 after each 10 + 3.2 n.

    A training step of n takes 60 + n * (3 * 2 + 5).
    """

    def seconds(model: Any, x: torch.Tensor, device: torch.device, is_step: bool) -> float:
        links = len(model.weights)
        return 60 + 11.0 * links if is_step else 10 + (3.2 if model.has_relus else 2.7) * links

    monkeypatch.setattr(calibration_host, "_time_compiled", seconds)
    monkeypatch.setattr(calibration_host, "_measure_shortest", lambda call, device, seconds: 2.0)
    monkeypatch.setattr(calibration_host, "_measure_eager", lambda *_: HostSeconds(1.0))
    measured = measure_host(CPU, compiled=True, seconds=2).compiled
    assert measured is not None
    assert list(vars(measured).values()) == pytest.approx([10, 0.7, 60, 5, 0.5])


@pytest.mark.parametrize(
    ("passes", "steps"),
    [
        ((5.0, 45.0), (40.0, 120.0)),  # 2.5 for a link, and 5 - 4 * 2.5 < 0 for the call
        ((20.0, 36.0), (10.0, 74.0)),  # 4 for a link of a step, and 10 - 4 * 4 < 0 for its calls
        ((36.0, 20.0), (40.0, 120.0)),  # less for more links
        ((20.0, 36.0), (120.0, 40.0)),
    ],
    ids=["no call", "no step", "no link", "no link of a step"],
)
@pytest.mark.parametrize("disturbed", [1, 5])
def test_a_disturbed_compiled_graph_is_measured_again_and_its_call_takes_some_time(
    disturbed: int, passes: tuple[float, float], steps: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undisturbed a pass of n takes 16 + n, a step 20 + 5 n; a product alone takes 2, so that a weight has no share."""
    tries: list[int] = []

    def seconds(model: Any, x: torch.Tensor, shortest: Any, is_step: bool) -> float:
        links = len(model.weights)
        tries.extend([1] * (links == 4 and not is_step))
        if len(tries) <= disturbed:
            return (steps if is_step else passes)[links != 4]
        return 20 + 5.0 * links if is_step else 16 + 1.0 * links

    monkeypatch.setattr(calibration_host, "_time_compiled", seconds)
    monkeypatch.setattr(calibration_host, "_measure_shortest", lambda call, device, seconds: 2.0)
    monkeypatch.setattr(calibration_host, "_measure_eager", lambda *_: HostSeconds(1.0))
    if disturbed < 5:
        measured = measure_host(CPU, compiled=True, seconds=2).compiled
        assert measured is not None
        assert list(vars(measured).values()) == pytest.approx([16, 0, 20, 0, 0])
    else:
        with pytest.raises(BackendFailedError, match="calls of compiled graphs was not measured: 5 times less time"):
            measure_host(CPU, compiled=True, seconds=2)


def test_what_differentiation_takes() -> None:
    """Of 4 and 20 products a pass takes 3 + 2 n, a view 1, a step 43 + 15 n.

    The 15 are three products of 2, the view, and twice 4; the start is 43 - 3.
    """
    operator, start = split_gradient_seconds(1.0, ChainSeconds(11.0, 43.0), ChainSeconds(103.0, 343.0))
    assert operator == pytest.approx(4.0)
    assert start == pytest.approx(40.0)


@pytest.mark.parametrize("disturbed", range(7))
def test_a_disturbed_measurement_is_made_again_and_no_time_is_nothing(
    disturbed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many times the first layers take less than their operators alone, by 1 us; undisturbed they take 2 us more."""
    tries: list[int] = []

    def layer_call(x: torch.Tensor, shortest: Any) -> float:
        tries.append(1)
        return calibration_host._require_positive(-1e-6 if len(tries) <= disturbed else 2e-6)

    monkeypatch.setattr(calibration_host, "_measure_layer_call", layer_call)
    monkeypatch.setattr(calibration_host, "_measure_shortest", lambda call, device, seconds: 1e-6)
    monkeypatch.setattr(
        calibration_host, "split_gradient_seconds", lambda *_: calibration_host.GradientSeconds(1e-6, 1e-6)
    )
    if disturbed < 5:
        assert measure_host(CPU, compiled=False, seconds=2).layer_call == 2e-6
        assert len(tries) == disturbed + 1
    else:
        with pytest.raises(BackendFailedError, match="5 times less time was measured .*; calibrate again"):
            measure_host(CPU, compiled=False, seconds=2)


@pytest.mark.parametrize(
    ("passes", "steps"),
    [((11.0, 43.0), (103.0, 199.0)), ((11.0, 43.0), (40.0, 280.0)), ((43.0, 11.0), (43.0, 11.0))],
    ids=["no more a link than the products", "no more to start", "less for more links"],
)
def test_a_difference_that_is_not_positive_is_no_time(passes: Any, steps: Any) -> None:
    with pytest.raises(calibration_host._DisturbedError):
        split_gradient_seconds(1.0, ChainSeconds(*passes), ChainSeconds(*steps))


def test_the_host_of_this_machine_takes_some_time_and_draws_no_random_numbers() -> None:
    state = torch.get_rng_state()
    try:
        host = measure_host(CPU, compiled=False, seconds=2)
    except BackendFailedError as error:  # on a machine that is busy
        assert "calibrate again" in str(error)
    else:
        assert min(host.layer_call, host.view_call, host.gradient_call, host.backward_call) > 0
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("gates", "function", "kind"), [(4, run_lstm, torch.nn.LSTM), (3, run_gru, torch.nn.GRU)])
def test_recurrent_layers_are_those_of_torch(gates: int, function: Any, kind: Any) -> None:
    inputs = choose_maker(CPU, torch.float32)(describe_inputs(gates, 2, 5, 3, 4))
    layer = kind(3, 4, batch_first=True)
    with torch.no_grad():
        for parameter, value in zip(layer.parameters(), inputs[-4:], strict=True):
            parameter.copy_(value)
        states = inputs[1:-4]
        expected = layer(inputs[0], states if gates == 4 else states[0])[0]
        assert torch.allclose(function(*inputs)[0], expected, atol=1e-6)


def test_gradients_of_recurrent_layers_are_those_of_their_outputs_sum() -> None:
    """Of the first LSTM and the first GRU: by the inputs and the four weights."""
    torch.manual_seed(0)
    made = list(describe_layers(is_large=False))
    for name in ("lstm 1 x 8", "gru 1 x 8"):
        _, function, operands = next(item for item in made if item[0] == name)
        inputs = choose_maker(CPU, torch.float32)(operands)
        call = make_gradient(function, inputs)
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        function(*leaves)[0].sum().backward()
        results: Any = call()
        assert len(results) == 5
        for result, leaf in zip(results, [leaves[0], *leaves[-4:]], strict=True):
            assert leaf.grad is not None
            assert torch.allclose(result, leaf.grad, atol=1e-5)


def test_the_random_numbers_of_the_process_come_back() -> None:
    """Operands are random, and dropout draws while it is measured."""
    backend, before = TorchBackend(), torch.get_rng_state()
    cases = {case.name: case for case in backend.calibration_cases("cpu", "float32")}
    with backend.use_threads(None):
        for name in ("dropout 64 in float32", "embedding 64 x 16 in float32"):
            assert cases[name].make().call() is not None
    assert torch.equal(before, torch.get_rng_state())
