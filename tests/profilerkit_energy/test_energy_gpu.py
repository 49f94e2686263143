"""Energy of a GPU and of the processor that feeds it, through a stand-in for NVIDIA's module."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from energy_counters import add_zone, make_model, profile_energy

from profilerkit import Completeness
from profilerkit.results.report import StatusRecord
from profilerkit.testing import FakeClock, FakeModel
from profilerkit_energy import Hardware
from profilerkit_energy.nvml import find_nvml_counters


class Nvml:
    """Two GPUs, their millijoules, and what NVML raises for any other."""

    class NVMLError(Exception):
        pass

    def __init__(self, *names: str) -> None:
        self.millijoules = {0: 1_000, 1: 5_000}
        self.by_uuid = {"GPU-aa": 0, "GPU-bb": 1}
        self.names = names or ("H100", "H100")

    def nvmlInit(self) -> None:
        """There is nothing to set up."""

    def nvmlDeviceGetCount(self) -> int:
        return len(self.names)

    def nvmlDeviceGetName(self, handle: int) -> str:
        return self.names[handle]

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
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


def energy_on(device: str, model: FakeModel, powercap: Path, nvml: Any, clock: FakeClock | None = None) -> StatusRecord:
    hardware = Hardware(powercap=powercap, nvml=nvml, system="Linux")
    return profile_energy(model, hardware, clock or FakeClock(), device=device).status("energy")


def make_gpu_model(clock: FakeClock, nvml: Nvml, index: int, microjoules: dict[Path, int]) -> FakeModel:
    """Return a model whose passes use 2 J of its GPU; the other GPU uses 70 J, for somebody else."""
    model = make_model(clock, microjoules)
    advance = model.on_call

    def run() -> None:
        advance()
        nvml.millijoules[index] += 2_000
        nvml.millijoules[1 - index] += 70_000

    model.on_call = run
    return model


@pytest.mark.parametrize(
    ("device", "index"),
    [
        ("cuda:1", 1),
        *(
            pytest.param(*case, marks=pytest.mark.heavy)
            for case in (("cuda:0", 0), ("cuda", 0), ("/GPU:1", 1), ("gpu:0", 0))
        ),
    ],
)
def test_the_gpu_and_the_processor_that_feeds_it(tmp_path: Path, device: str, index: int) -> None:
    """2 J of the GPU and 0.5 J of the package in each pass; the other GPU is not the model's."""
    clock, nvml = FakeClock(), Nvml()
    model = make_gpu_model(clock, nvml, index, {add_zone(tmp_path, "intel-rapl:0", "package-0"): 500_000})
    record = energy_on(device, model, tmp_path, nvml, clock)
    assert record.completeness is Completeness.COMPLETE
    assert record.value.samples == (2.5,) * 3
    assert model.calls == 3 + 3 * 320, "fifty updates of 0.1 s are 320 passes of 1/64 s"


def test_without_counters_of_the_processor_it_is_a_lower_bound(tmp_path: Path) -> None:
    clock, nvml = FakeClock(), Nvml()
    record = energy_on("cuda:0", make_gpu_model(clock, nvml, 0, {}), tmp_path, nvml, clock)
    assert (record.value.median, record.completeness) == (2.0, Completeness.PARTIAL)
    assert "there is no energy counter of a processor" in record.missing[0]


def test_a_gpu_that_cannot_be_read_leaves_no_value(tmp_path: Path) -> None:
    add_zone(tmp_path, "intel-rapl:0", "package-0")
    record = energy_on("cuda:2", FakeModel(), tmp_path, Nvml())
    assert (record.value, record.completeness) == (None, Completeness.UNAVAILABLE)
    assert record.missing == ("the energy counter of GPU 2 cannot be read (Invalid Argument)",)


def test_the_package_to_read_a_gpu_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    record = energy_on("cuda:0", FakeModel(), tmp_path, None)
    assert record.missing == ("the energy counter of GPU 0 needs a package; install it with: pip install nvidia-ml-py",)


def test_nvidias_module_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    (counter,) = find_nvml_counters(1).readable
    assert counter.joules(4_000, counter.read()) == 1.0


@pytest.mark.parametrize("visible", ["1", "1, 0", "GPU-bb,GPU-aa"])
def test_the_first_visible_gpu_is_the_frameworks_first(monkeypatch: pytest.MonkeyPatch, visible: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (counter,) = find_nvml_counters(0, Nvml()).readable
    assert counter.read() == 5_000


def test_a_gpu_that_is_not_visible_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    (reason,) = find_nvml_counters(1, Nvml()).missing
    assert reason == "the energy counter of GPU 1 cannot be read (CUDA_VISIBLE_DEVICES='1' names no GPU 1)"


def test_gpus_of_several_kinds_must_be_numbered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA puts the fastest first unless it is told to keep to their slots, as NVML does: another one is read."""
    mixed = Nvml("GT 1030", "H100")
    (reason,) = find_nvml_counters(0, mixed).missing
    assert "set CUDA_DEVICE_ORDER=PCI_BUS_ID" in reason
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert [counter.read() for counter in find_nvml_counters(0, mixed).readable] == [1_000]


@pytest.mark.parametrize("device", ["gpu", "gpu.0", "tpu:0", "mps"])
def test_a_device_whose_counters_are_not_known_is_said(tmp_path: Path, device: str) -> None:
    """OpenVINO's GPUs are Intel's, and an NVIDIA GPU in the same machine has nothing to do with them."""
    add_zone(tmp_path, "intel-rapl:0", "package-0")
    record = energy_on(device, FakeModel(), tmp_path, Nvml())
    assert record.missing == (
        f"no energy counter is known for the device {device!r}; measure on a CPU, an NVIDIA GPU or Apple silicon",
    )
