"""What the tests share: a tree like Linux's of energy counters, in which a fake model's passes use energy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from profilerkit.testing import FakeClock, FakeLayer, FakeModel

#: Seconds of a pass; a power of two, so that adding them up is exact. Four of them make a sample of 50 ms.
SECONDS = 1 / 64


def add_zone(powercap: Path, zone: str, name: str, energy: int = 0, highest: int = 10**12) -> Path:
    """Add a counter and return the file that holds its microjoules."""
    folder = powercap / zone
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text(f"{highest}\n")
    (folder / "energy_uj").write_text(f"{energy}\n")
    return folder / "energy_uj"


def make_model(clock: FakeClock, microjoules: Mapping[Path, int], highest: int = 10**12) -> FakeModel:
    """Return a model of 30 parameters whose passes take `SECONDS` and add to counters, which wrap after ``highest``."""

    def run() -> None:
        clock.advance(SECONDS)
        for file, used in microjoules.items():
            file.write_text(f"{(int(file.read_text()) + used) % highest}\n")

    return FakeModel([FakeLayer("first", params=10), FakeLayer("second", params=20)], run)
