"""Energy from the counters of CPU packages, worked out by hand on a tree of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from powercap import add_zone, make_model
from profilerkit_energy import ComputeEnergy

from profilerkit import Completeness, Profiler, StatusKey
from profilerkit.testing import FakeBackend, FakeClock, FakeModel, FakeTensor


def compute_energy(model: FakeModel, powercap: Path, clock: FakeClock, **arguments: Any) -> StatusKey:
    """Compute the energy and return its status."""
    profiler = Profiler(model, backend=FakeBackend(), inputs=FakeTensor((1, 3)))
    profiler.register_profiler_function(ComputeEnergy(powercap, clock=clock))
    profiler.compute_status("energy_per_inference", **arguments)
    status = profiler.status_get("energy_per_inference", to_value=False)
    assert isinstance(status, StatusKey)
    return status


def test_joules_of_one_pass(tmp_path: Path) -> None:
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0", energy=123_456)
    status = compute_energy(make_model(clock, {package: 250_000}), tmp_path, clock)
    assert status.value.samples == (0.25,) * 12
    assert status.outcome.completeness is Completeness.COMPLETE
    assert status.show() == "250 mJ [250, 250]"  # type: ignore[attr-defined]


def test_a_sample_is_as_many_passes_as_fifty_updates_take(tmp_path: Path) -> None:
    """Passes of 1/64 s: four of them are the first that take 50 ms or more."""
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    model = make_model(clock, {package: 1_000_000})
    compute_energy(model, tmp_path, clock)
    assert model.calls == 3 + 12 * 4, "those that warm up, and twelve samples"


def test_warmup_is_left_out_and_a_sample_is_the_mean_of_its_passes(tmp_path: Path) -> None:
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    used = iter([9_000_000] * 3 + [1_000_000, 2_000_000, 3_000_000, 6_000_000] * 100)
    model = make_model(clock, {})
    advance = model.on_call

    def run() -> None:
        advance()
        package.write_text(str(int(package.read_text()) + next(used)))

    model.on_call = run
    assert compute_energy(model, tmp_path, clock).value.samples == (3.0,) * 12


def test_packages_and_their_memory_are_added_up_and_nothing_twice(tmp_path: Path) -> None:
    """Cores and graphics are part of the package, and psys holds all of it: they are in it already."""
    clock = FakeClock()
    counted = {
        add_zone(tmp_path, "intel-rapl:0", "package-0"): 250_000,
        add_zone(tmp_path, "intel-rapl:0:2", "dram"): 62_500,
        add_zone(tmp_path, "intel-rapl:1", "package-1"): 125_000,
    }
    inside = {
        add_zone(tmp_path, "intel-rapl:0:0", "core"): 200_000,
        add_zone(tmp_path, "intel-rapl:0:1", "uncore"): 50_000,
        add_zone(tmp_path, "intel-rapl:2", "psys"): 900_000,
    }
    status = compute_energy(make_model(clock, {**counted, **inside}), tmp_path, clock)
    assert status.value.median == 0.4375
    assert status.outcome.completeness is Completeness.COMPLETE


def test_a_counter_that_wraps_goes_on(tmp_path: Path) -> None:
    """It wraps after 1 J, four passes use 0.8 J: 0.2 J of each, in every sample."""
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0", energy=900_000, highest=1_000_000)
    status = compute_energy(make_model(clock, {package: 200_000}, highest=1_000_000), tmp_path, clock)
    assert status.value.samples == pytest.approx([0.2] * 12, rel=1e-12)


def test_time_runs_out_after_three_samples_at_least(tmp_path: Path) -> None:
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    model = make_model(clock, {package: 1_000_000})
    assert len(compute_energy(model, tmp_path, clock, max_seconds=0.001).value.samples) == 3
    assert len(compute_energy(model, tmp_path, clock, max_seconds=5 / 16).value.samples) == 5, "each takes 1/16 s"


def test_samples_go_on_until_their_median_is_known_well_enough(tmp_path: Path) -> None:
    """Samples of 1 J and 3 J in turn: their interval is from 1 to 3 J, half its width is 50 % of the median of 2 J."""
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    used = iter([0] * 3 + ([1_000_000] * 4 + [3_000_000] * 4) * 100)
    model = make_model(clock, {})
    advance = model.on_call

    def run() -> None:
        advance()
        package.write_text(str(int(package.read_text()) + next(used)))

    model.on_call = run
    value = compute_energy(model, tmp_path, clock, max_seconds=2.0).value
    assert len(value.samples) == 2 * 16
    assert value.median == 2.0
    assert "noisy" in value.warning


def test_no_counter_at_all_is_said(tmp_path: Path) -> None:
    status = compute_energy(FakeModel(), tmp_path, FakeClock())
    assert (status.value, status.outcome.completeness) == (None, Completeness.UNAVAILABLE)
    (reason,) = status.outcome.missing
    assert f"nothing like {tmp_path / 'intel-rapl:0' / 'energy_uj'} is here" in reason
    assert "virtual machines and containers hide it" in reason


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Files that may not be read; the mode of a file is no obstacle to root, who may run the tests."""
    files: set[Path] = set()
    read_text = Path.read_text

    def guarded(path: Path, *args: Any, **kwargs: Any) -> str:
        if path in files:
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", guarded)
    return files


def test_a_counter_that_may_not_be_read_is_named(tmp_path: Path, locked: set[Path]) -> None:
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    locked.add(package)
    status = compute_energy(FakeModel(), tmp_path, FakeClock())
    assert status.value is None
    assert status.outcome.missing == (
        f"{package} cannot be read (permission denied): run as root, or let an administrator allow it with chmod a+r "
        f"{package}",
    )


def test_with_one_package_of_two_it_is_a_lower_bound(tmp_path: Path, locked: set[Path]) -> None:
    clock = FakeClock()
    first = add_zone(tmp_path, "intel-rapl:0", "package-0")
    second = add_zone(tmp_path, "intel-rapl:1", "package-1")
    locked.add(second)
    status = compute_energy(make_model(clock, {first: 500_000}), tmp_path, clock)
    assert (status.value.median, status.outcome.completeness) == (0.5, Completeness.PARTIAL)
    assert [str(second) in missing for missing in status.outcome.missing] == [True]


def test_a_file_that_holds_no_number_is_named(tmp_path: Path) -> None:
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    package.write_text("")
    (reason,) = compute_energy(FakeModel(), tmp_path, FakeClock()).outcome.missing
    assert f"{package} cannot be read (invalid literal for int()" in reason


def test_counters_that_stand_still_are_no_zero(tmp_path: Path) -> None:
    """As on virtual machines, which show a counter and never move it."""
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0", energy=7)
    memory = add_zone(tmp_path, "intel-rapl:0:0", "dram", energy=7)
    status = compute_energy(make_model(clock, {}), tmp_path, clock)
    assert status.value is None
    assert status.outcome.missing == (
        "the counter of package-0 (intel-rapl:0) stands still; the counter of dram (intel-rapl:0:0) stands still",
    )
    status = compute_energy(make_model(clock, {package: 1_000_000}), tmp_path, clock)
    assert (status.value.median, status.outcome.completeness) == (1.0, Completeness.PARTIAL)
    assert memory.read_text() == "7\n"
    assert status.outcome.missing == ("the counter of dram (intel-rapl:0:0) stands still",)


def test_the_model_is_run_through_the_backend_alone(tmp_path: Path) -> None:
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    backend = FakeBackend()
    profiler = Profiler(make_model(clock, {package: 1_000_000}), backend=backend, inputs=FakeTensor((1, 3)))
    profiler.register_profiler_function(ComputeEnergy(tmp_path, clock=clock))
    assert profiler.compute_status("energy_per_inference").median == 1.0
    assert backend.preserving == 0, "no guard around it, since forward() hands the model back"
