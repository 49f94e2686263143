"""A run on devices that still work when a call has returned."""

from __future__ import annotations

from collections.abc import Callable

from profilerkit.backend_kit.passes import DevicePass


class Device:
    """A device whose work takes seconds of its own clock, which only run while somebody waits."""

    def __init__(self) -> None:
        self.now, self.queued = 0.0, 0.0

    def work(self, seconds: float) -> str:
        self.queued += seconds
        return "outputs"

    def wait(self) -> None:
        self.now, self.queued = self.now + self.queued, 0.0

    def clock(self) -> float:
        return self.now

    def step(self, between: Callable[[], None]) -> None:
        self.work(2)
        between()
        self.work(5)


def test_a_call_returns_when_the_device_is_done() -> None:
    device = Device()
    run = DevicePass(lambda: device.work(3), device.wait, first_call_seconds=7.0)
    assert (run(), device.now, device.queued) == ("outputs", 3.0, 0.0)
    assert run.seconds(device.clock) == 3.0
    assert run.first_call_seconds == 7.0


def test_the_parts_of_a_step_are_timed_without_the_work_before_it() -> None:
    device = Device()
    run = DevicePass(lambda: None, device.wait, device.step)
    device.work(11)
    assert run.parts(device.clock) == {"forward": 2.0, "backward": 5.0}


def test_a_pass_without_parts_has_none_and_is_not_run_for_them() -> None:
    device = Device()
    assert DevicePass(lambda: device.work(3), device.wait).parts(device.clock) == {}
    assert device.queued == 0.0
