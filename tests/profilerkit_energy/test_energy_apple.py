"""Energy of Apple silicon, through a stand-in for the monitor of zeus-apple-silicon."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from energy_counters import make_model, profile_energy

from profilerkit import Completeness
from profilerkit.results.report import StatusRecord
from profilerkit.testing import FakeClock
from profilerkit_energy import Hardware


class Monitor:
    """A chip, the millijoules of its parts, and what a pass adds to them."""

    def __init__(self, **millijoules_of_pass: int | None) -> None:
        self.uses = millijoules_of_pass
        self.passes = 0

    def get_cumulative_energy(self) -> Any:
        fields = {name: None if used is None else used * self.passes for name, used in self.uses.items()}
        return SimpleNamespace(efficiency_cores_mj=[1, 2], **fields)


def energy_of_chip(monitor: Any, device: str = "mps") -> StatusRecord:
    clock = FakeClock()
    model = make_model(clock, {})
    advance = model.on_call

    def run() -> None:
        advance()
        monitor.passes += 1

    if monitor is not None:
        model.on_call = run
    return profile_energy(model, Hardware(apple=monitor, system="Darwin"), clock, device=device).status("energy")


@pytest.mark.parametrize("device", ["mps", "cpu", "/CPU:0"])
def test_the_parts_of_the_chip_are_added_up(device: str) -> None:
    """1 J of the processor, 2 J of the GPU, 0.25 J of memory, 0.5 J of the neural engine."""
    record = energy_of_chip(Monitor(cpu_total_mj=1_000, gpu_mj=2_000, dram_mj=250, ane_mj=500), device)
    assert record.value.median == 3.75
    assert record.completeness is Completeness.COMPLETE


def test_a_part_that_the_chip_does_not_tell_makes_a_lower_bound() -> None:
    record = energy_of_chip(Monitor(cpu_total_mj=1_000, gpu_mj=2_000, dram_mj=None, ane_mj=500))
    assert (record.value.median, record.completeness) == (3.5, Completeness.PARTIAL)
    assert record.missing == ("this chip does not tell the energy of its memory",)


def test_a_part_that_a_model_does_not_use_may_stand_still() -> None:
    record = energy_of_chip(Monitor(cpu_total_mj=1_000, gpu_mj=0, dram_mj=250, ane_mj=0), "cpu")
    assert (record.value.median, record.completeness) == (1.25, Completeness.COMPLETE)


def test_a_chip_that_tells_nothing_has_no_energy() -> None:
    record = energy_of_chip(Monitor(cpu_total_mj=None, gpu_mj=None, dram_mj=None, ane_mj=None))
    assert (record.value, record.completeness) == (None, Completeness.UNAVAILABLE)
    assert "this chip does not tell the energy of its CPU" in record.missing[0]


def test_the_package_to_read_the_chip_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", None)
    assert energy_of_chip(None).missing == (
        "the energy counters of Apple silicon need a package; install it with: pip install zeus-apple-silicon",
    )


def test_a_monitor_that_fails_is_said() -> None:
    class Broken:
        passes = 0

        def get_cumulative_energy(self) -> Any:
            raise RuntimeError("no channels")

    assert energy_of_chip(Broken()).missing == ("the energy counters of Apple silicon cannot be read (no channels)",)
