"""Energy of a GPU and of the CPU that feeds it, through a stand-in for NVIDIA's module."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from powercap import add_zone, make_model
from profilerkit_energy import ComputeEnergy
from profilerkit_energy.nvml import nvml_counters

from profilerkit import Completeness, Profiler, WithoutValuesError
from profilerkit.piping.outcome import Outcome
from profilerkit.testing import FakeBackend, FakeClock, FakeModel, FakeTensor


class OnDevice(FakeBackend):
    """A fake backend whose only device has the name it is given."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def resolve_device(self, model: Any, device: Any) -> str:
        return self.device


class Nvml:
    """Two GPUs, their millijoules, and what NVML raises for any other."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.millijoules = {0: 1_000, 1: 5_000}
        self.by_uuid = {"GPU-aa": 0, "GPU-bb": 1}

    def nvmlInit(self) -> None:
        """There is nothing to set up."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index not in self.millijoules:
            raise self.NVMLError("Invalid Argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return self.by_uuid[uuid]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        return self.millijoules[handle]


@pytest.fixture(autouse=True)
def _all_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def outcome_on(device: str, model: FakeModel, powercap: Path, nvml: Any, clock: FakeClock | None = None) -> Outcome:
    profiler = Profiler(model, backend=OnDevice(device), inputs=FakeTensor((1, 3)))
    profiler.register_profiler_function(ComputeEnergy(powercap, nvml, clock or FakeClock()))
    profiler.compute_status("energy_per_inference")
    outcome = profiler.status_get("energy_per_inference", to_value=False).outcome
    assert isinstance(outcome, Outcome)
    return outcome


@pytest.mark.parametrize(("device", "index"), [("cuda:0", 0), ("cuda", 0), ("cuda:1", 1), ("/GPU:1", 1)])
def test_the_gpu_and_the_cpu_that_feeds_it(tmp_path: Path, device: str, index: int) -> None:
    """2 J of the GPU and 0.5 J of the package in each pass; the other GPU is not the model's."""
    clock, nvml = FakeClock(), Nvml()
    model = make_model(clock, {add_zone(tmp_path, "intel-rapl:0", "package-0"): 500_000})
    advance = model.on_call

    def run() -> None:
        advance()
        nvml.millijoules[index] += 2_000
        nvml.millijoules[1 - index] += 70_000

    model.on_call = run
    outcome = outcome_on(device, model, tmp_path, nvml, clock)
    assert outcome.completeness is Completeness.COMPLETE
    assert outcome.value.samples == (2.5,) * 3
    assert model.calls == 3 + 3 * 320, "fifty updates of 0.1 s are 320 passes of 1/64 s"


def test_without_counters_of_the_cpu_it_is_a_lower_bound(tmp_path: Path) -> None:
    clock, nvml = FakeClock(), Nvml()
    model = make_model(clock, {})
    advance = model.on_call

    def run() -> None:
        advance()
        nvml.millijoules[0] += 2_000

    model.on_call = run
    outcome = outcome_on("cuda:0", model, tmp_path, nvml, clock)
    assert (outcome.value.median, outcome.completeness) == (2.0, Completeness.PARTIAL)
    assert "there is no energy counter of a CPU" in outcome.missing[0]


def test_a_gpu_that_cannot_be_read_leaves_no_value(tmp_path: Path) -> None:
    add_zone(tmp_path, "intel-rapl:0", "package-0")
    outcome = outcome_on("cuda:2", FakeModel(), tmp_path, Nvml())
    assert outcome == Outcome(
        None, Completeness.UNAVAILABLE, ("the counter of GPU 2 cannot be read (Invalid Argument)",)
    )


def test_the_package_to_read_a_gpu_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    outcome = outcome_on("cuda:0", FakeModel(), tmp_path, None)
    assert outcome.missing[0].endswith("not installed; install it with: pip install nvidia-ml-py")


def test_nvidias_module_is_used_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    (counter,) = nvml_counters(1).counters
    assert counter.joules(4_000, counter.read()) == 1.0


@pytest.mark.parametrize(("visible", "expected"), [("1", 5_000), ("1, 0", 5_000), ("GPU-bb,GPU-aa", 5_000)])
def test_the_first_visible_gpu_is_the_frameworks_first(
    monkeypatch: pytest.MonkeyPatch, visible: str, expected: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (counter,) = nvml_counters(0, Nvml()).counters
    assert counter.read() == expected


def test_a_gpu_that_is_not_visible_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    (reason,) = nvml_counters(1, Nvml()).missing
    assert reason == "the counter of GPU 1 cannot be read (CUDA_VISIBLE_DEVICES='1' names no GPU 1)"


def test_other_devices_have_no_counter_that_we_know(tmp_path: Path) -> None:
    add_zone(tmp_path, "intel-rapl:0", "package-0")
    outcome = outcome_on("mps", FakeModel(), tmp_path, Nvml())
    assert outcome.missing == ("no energy counter is known for the device 'mps'; measure on a CPU or on an NVIDIA GPU",)


def test_a_model_without_values_cannot_be_run(tmp_path: Path) -> None:
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")

    def refuse() -> None:
        raise WithoutValuesError("its weights are on the meta device")

    model = make_model(clock, {package: 1})
    model.on_call = refuse
    outcome = outcome_on("cpu", model, tmp_path, None, clock)
    assert outcome == Outcome(None, Completeness.UNAVAILABLE, ("its weights are on the meta device",))
