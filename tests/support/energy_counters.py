"""Planted energy counters: a tree of files like Linux's, which a fake model's passes and an idle machine count up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from profilerkit import Report, profile
from profilerkit.testing import FakeBackend, FakeClock, FakeLayer, FakeModel, FakeTensor
from profilerkit.times.sampling import Sampling
from profilerkit_energy import ComputeEnergy, Hardware

#: Seconds of a pass; a power of two, so that adding them up is exact. Four of them make a sample of 50 ms.
SECONDS = 1 / 64
KEYS = ("energy", "energy_per_sample", "energy_per_token", "power", "idle_power")


class OnDevice(FakeBackend):
    """A fake backend whose only device has the name it is given."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def resolve_device(self, model: Any, device: Any) -> str:
        return self.device


def add_zone(powercap: Path, zone: str, name: str, energy: int = 0, highest: int = 10**12) -> Path:
    """Add a counter and return the file that holds its microjoules."""
    folder = powercap / zone
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text(f"{highest}\n")
    (folder / "energy_uj").write_text(f"{energy}\n")
    return folder / "energy_uj"


def count_up(file: Path, microjoules: float, highest: int = 10**12) -> None:
    """Add to a counter, which starts again at zero after ``highest``."""
    file.write_text(f"{(int(file.read_text()) + int(microjoules)) % highest}\n")


def make_model(clock: FakeClock, microjoules: Mapping[Path, int], highest: int = 10**12) -> FakeModel:
    """Return a model of 30 parameters whose passes take `SECONDS` and count up, to ``highest``."""

    def run() -> None:
        clock.advance(SECONDS)
        for file, used in microjoules.items():
            count_up(file, used, highest)

    return FakeModel([FakeLayer("first", params=10), FakeLayer("second", params=20)], run)


def make_sleep(clock: FakeClock, watts: Mapping[Path, float]) -> Callable[[float], None]:
    """Return a function that waits on a fake clock, while counters go up with a number of watts."""

    def sleep(seconds: float) -> None:
        clock.advance(seconds)
        for file, power in watts.items():
            count_up(file, power * seconds * 1e6)

    return sleep


def profile_energy(
    model: FakeModel,
    hardware: Hardware,
    clock: FakeClock,
    *,
    inputs: Any = None,
    device: str = "cpu",
    idle_watts: Mapping[Path, float] | None = None,
    tokens: int | None = None,
    **sampling: Any,
) -> Report:
    """Return a report of all metrics of energy."""
    further: dict[str, Any] = {} if tokens is None else {"tokens": tokens}
    return profile(
        model,
        FakeTensor((1, 3)) if inputs is None else inputs,
        backend=OnDevice(device),
        functions=[ComputeEnergy(hardware, make_sleep(clock, idle_watts or {}))],
        metrics=KEYS,
        sampling=Sampling(clock=clock, **sampling),
        **further,
    )
