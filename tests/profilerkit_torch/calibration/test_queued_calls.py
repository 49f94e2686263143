"""The device's seconds of an operator, with a device that is made up: the host hands over calls while it is busy."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from profilerkit_predict.prediction.measuring import measure_tables
from profilerkit_torch.calibration import queued_calls
from profilerkit_torch.calibration.queued_calls import Busy, QueuedCall


class FakeDevice:
    """A device with a queue: the host goes on at once, and the device does one thing after the other."""

    def __init__(self, product: float) -> None:
        self.host, self.free, self.product = 0.0, 0.0, product

    def clock(self) -> float:
        return self.host

    def give(self, host: float, device: float) -> None:
        self.host += host
        self.free = max(self.free, self.host) + device

    def wait(self, device: Any = None) -> None:
        self.host = max(self.host, self.free)

    def event(self, enable_timing: bool) -> Any:
        device = self

        class Event:
            at = 0.0

            def record(self) -> None:
                self.at = max(device.free, device.host)

            def elapsed_time(self, end: Any) -> float:
                return 1000 * float(end.at - self.at)

        return Event()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """One on which a product of the busy work takes 40 us, and 4 us of the host."""
    made = FakeDevice(40e-6)
    monkeypatch.setattr(torch.accelerator, "synchronize", made.wait)

    def multiply(self: Busy, times: int) -> None:
        for _ in range(times):
            made.give(4e-6, made.product)

    monkeypatch.setattr(Busy, "_multiply", multiply)
    return made


@pytest.mark.parametrize("operator", [2e-6, 30e-6, 5e-3])
def test_the_seconds_are_those_of_the_device_alone(operator: float, device: FakeDevice) -> None:
    """The host takes 5 us for each call: of an operator of 2 us on the device, it would be all that a clock sees."""
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        device.give(5e-6, operator)

    queued = QueuedCall(call, Busy(torch.device("cpu"), device.event))
    assert queued.seconds(device.clock) == pytest.approx(operator)
    before = len(calls)
    assert queued.seconds(device.clock) == pytest.approx(operator)
    assert len(calls) - before == max(1, min(20, round(400e-6 / operator + 0.5)))


def test_what_the_host_takes_is_apart(device: FakeDevice) -> None:
    """200 us of the host for 90 us of the device, which is kept busy meanwhile."""
    queued = QueuedCall(lambda: device.give(200e-6, 90e-6), Busy(torch.device("cpu"), device.event))
    assert queued.seconds(device.clock) == pytest.approx(90e-6)
    assert queued.host_seconds == pytest.approx(200e-6)


def test_a_call_returns_when_the_device_is_done(device: FakeDevice) -> None:
    queued = QueuedCall(lambda: device.give(1e-6, 1.0), Busy(torch.device("cpu"), device.event))
    began = device.host
    queued()
    assert device.host - began == pytest.approx(1.0, rel=1e-3)


def test_a_busy_device_knows_how_much_work_it_needs(device: FakeDevice) -> None:
    busy = Busy(torch.device("cpu"), device.event)
    device.wait()
    began = device.host
    busy.for_seconds(100e-6)
    device.wait()
    assert device.host - began >= 100e-6
    assert queued_calls._LONGER > 1


def test_a_calibration_takes_such_seconds_as_they_are(device: FakeDevice) -> None:
    """A table has the device's 3 us, and the 6 of the host beside them."""
    from profilerkit import ModelInputs
    from profilerkit_predict.prediction.cases import CalibrationCase, OperatorCall
    from profilerkit_torch import TorchBackend

    queued = QueuedCall(lambda: device.give(6e-6, 3e-6), Busy(torch.device("cpu"), device.event))
    made = OperatorCall(queued, torch.nn.ReLU(), ModelInputs(torch.zeros(4)), lambda: queued.host_seconds)
    (table,) = measure_tables(TorchBackend(), [CalibrationCase("relu", lambda: made)], 0.2, device.clock).tables
    (point,) = table.points
    assert point.seconds == pytest.approx(3e-6)
    assert point.host_seconds == pytest.approx(6e-6)
