"""Energy from the counters of processor packages, worked out by hand on a tree of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from energy_counters import add_zone, count_up, make_model, profile_energy

from profilerkit import Completeness
from profilerkit.results.report import StatusRecord
from profilerkit.testing import FakeClock, FakeModel
from profilerkit_energy import Hardware


def compute_energy(model: FakeModel, powercap: Path, clock: FakeClock, **arguments: Any) -> StatusRecord:
    """Return the energy of a pass on a CPU of Linux."""
    hardware = Hardware(powercap=powercap, system="Linux")
    return profile_energy(model, hardware, clock, **arguments).status("energy")


def test_joules_of_one_pass(tmp_path: Path) -> None:
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0", energy=123_456)
    record = compute_energy(make_model(clock, {package: 250_000}), tmp_path, clock)
    assert record.value.samples == (0.25,) * 12
    assert record.completeness is Completeness.COMPLETE
    assert record.shown == "250 mJ [250, 250]"


def test_a_sample_is_as_many_passes_as_fifty_updates_take(tmp_path: Path) -> None:
    """Passes of 1/64 s: four of them are the first that take 50 ms or more."""
    clock = FakeClock()
    model = make_model(clock, {add_zone(tmp_path, "intel-rapl:0", "package-0"): 1_000_000})
    compute_energy(model, tmp_path, clock)
    assert model.calls == 3 + 12 * 4, "those that warm up, and twelve samples"


def test_the_caller_says_how_many_samples_and_how_many_passes_before_them(tmp_path: Path) -> None:
    clock = FakeClock()
    model = make_model(clock, {add_zone(tmp_path, "intel-rapl:0", "package-0"): 1_000_000})
    record = compute_energy(model, tmp_path, clock, num_iters=2, warmup=5)
    assert len(record.value.samples) == 2
    assert model.calls == 5 + 2 * 4


def make_uneven_model(clock: FakeClock, package: Path, microjoules: list[int]) -> FakeModel:
    """Return a model each pass of which uses another energy."""
    uses = iter(microjoules)
    model = make_model(clock, {})
    advance = model.on_call

    def run() -> None:
        advance()
        count_up(package, next(uses))

    model.on_call = run
    return model


def test_warmup_is_left_out_and_a_sample_is_the_mean_of_its_passes(tmp_path: Path) -> None:
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    uses = [9_000_000] * 3 + [1_000_000, 2_000_000, 3_000_000, 6_000_000] * 100
    record = compute_energy(make_uneven_model(clock, package, uses), tmp_path, clock)
    assert record.value.samples == (3.0,) * 12


def test_packages_and_their_memory_are_added_up_and_nothing_twice(tmp_path: Path) -> None:
    """Cores and graphics are part of the package, psys holds all of it, and mmio shows the same counter again."""
    clock = FakeClock()
    added = {
        add_zone(tmp_path, "intel-rapl:0", "package-0"): 250_000,
        add_zone(tmp_path, "intel-rapl:0:2", "dram"): 62_500,
        add_zone(tmp_path, "intel-rapl:1", "package-1"): 125_000,
    }
    contained = {
        add_zone(tmp_path, "intel-rapl:0:0", "core"): 200_000,
        add_zone(tmp_path, "intel-rapl:0:1", "uncore"): 50_000,
        add_zone(tmp_path, "intel-rapl:2", "psys"): 900_000,
        add_zone(tmp_path, "intel-rapl-mmio:0", "package-0"): 250_000,
    }
    record = compute_energy(make_model(clock, {**added, **contained}), tmp_path, clock)
    assert record.value.median == 0.4375
    assert record.completeness is Completeness.COMPLETE
    assert "package-0 (intel-rapl:0), dram (intel-rapl:0:2), package-1 (intel-rapl:1)" in record.note


def test_a_counter_that_wraps_goes_on(tmp_path: Path) -> None:
    """It wraps after 1 J, four passes use 0.8 J: 0.2 J of each, in every sample."""
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0", energy=900_000, highest=1_000_000)
    record = compute_energy(make_model(clock, {package: 200_000}, highest=1_000_000), tmp_path, clock)
    assert record.value.samples == pytest.approx([0.2] * 12, rel=1e-12)


@pytest.mark.parametrize(("highest", "completeness"), [(62_600_000, "complete"), (62_400_000, "partial")])
def test_a_sample_in_which_a_counter_may_wrap_twice_is_a_lower_bound(
    tmp_path: Path, highest: int, completeness: str
) -> None:
    """No package uses more than 1000 W, so a sample of 1/16 s has 62.5 J at most."""
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0", highest=highest)
    record = compute_energy(make_model(clock, {package: 250_000}, highest), tmp_path, clock)
    assert record.value.median == pytest.approx(0.25, rel=1e-12)
    assert record.completeness.value == completeness
    words = ["package-0 (intel-rapl:0) may have started again at zero more than once within a sample of 62.5 ms"]
    assert [reason.partition("counter of ")[2].partition(";")[0] for reason in record.missing] == (
        [] if completeness == "complete" else words
    )


def test_time_runs_out_after_three_samples_at_least(tmp_path: Path) -> None:
    clock = FakeClock()
    model = make_model(clock, {add_zone(tmp_path, "intel-rapl:0", "package-0"): 1_000_000})
    for max_seconds, samples in ((0.001, 3), (5 / 16, 5)):  # a sample takes 1/16 s
        value = compute_energy(model, tmp_path, clock, max_seconds=max_seconds, relative_precision=1e-9).value
        assert len(value.samples) == samples


def test_samples_go_on_until_their_median_is_known_well_enough(tmp_path: Path) -> None:
    """Samples of 1 J and 3 J in turn: their interval is from 1 to 3 J, half its width is 50 % of the median of 2 J."""
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    uses = [0] * 3 + ([1_000_000] * 4 + [3_000_000] * 4) * 100
    value = compute_energy(make_uneven_model(clock, package, uses), tmp_path, clock, max_seconds=2.0).value
    assert len(value.samples) == 2 * 16
    assert value.median == 2.0
    assert "noisy" in value.warning


def test_no_counter_at_all_is_said(tmp_path: Path) -> None:
    record = compute_energy(FakeModel(), tmp_path, FakeClock())
    assert (record.value, record.completeness) == (None, Completeness.UNAVAILABLE)
    (reason,) = record.missing
    assert f"{tmp_path / 'intel-rapl:0' / 'energy_uj'} does not exist" in reason
    assert "virtual machines and containers hide it: measure on the machine itself" in reason


def test_counters_of_other_kinds_are_named_if_there_is_no_processor(tmp_path: Path) -> None:
    add_zone(tmp_path, "intel-rapl:0", "psys")
    add_zone(tmp_path, "intel-rapl:0:0", "core")
    record = compute_energy(FakeModel(), tmp_path, FakeClock())
    zones = "psys (intel-rapl:0), core (intel-rapl:0:0)"
    assert record.missing == (f"there is no energy counter of a processor: {tmp_path} has counters of {zones} alone",)


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Files that may not be read; the mode of a file is no obstacle to root, who may run the tests."""
    files: set[Path] = set()
    read_text = Path.read_text

    def guard(path: Path, *args: Any, **kwargs: Any) -> str:
        if path in files:
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", guard)
    return files


def test_a_counter_that_may_not_be_read_is_named(tmp_path: Path, locked: set[Path]) -> None:
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    locked.add(package)
    record = compute_energy(FakeModel(), tmp_path, FakeClock())
    assert record.value is None
    assert record.missing == (
        f"{package} cannot be read (permission denied): run as root, or let an administrator allow it with chmod a+r "
        f"{package}",
    )


def test_a_range_that_may_not_be_read_is_named(tmp_path: Path, locked: set[Path]) -> None:
    highest = add_zone(tmp_path, "intel-rapl:0", "package-0").with_name("max_energy_range_uj")
    locked.add(highest)
    (reason,) = compute_energy(FakeModel(), tmp_path, FakeClock()).missing
    assert reason.startswith(f"{highest} cannot be read (permission denied)")
    assert reason.endswith(f"chmod a+r {highest}")


def test_with_one_package_of_two_it_is_a_lower_bound(tmp_path: Path, locked: set[Path]) -> None:
    clock = FakeClock()
    first = add_zone(tmp_path, "intel-rapl:0", "package-0")
    second = add_zone(tmp_path, "intel-rapl:1", "package-1")
    locked.add(second)
    record = compute_energy(make_model(clock, {first: 500_000}), tmp_path, clock)
    assert (record.value.median, record.completeness) == (0.5, Completeness.PARTIAL)
    assert [str(second) in missing for missing in record.missing] == [True]


def test_a_file_that_holds_no_number_is_named(tmp_path: Path) -> None:
    package = add_zone(tmp_path, "intel-rapl:0", "package-0")
    package.write_text("")
    (reason,) = compute_energy(FakeModel(), tmp_path, FakeClock()).missing
    assert f"{package} cannot be read (invalid literal for int()" in reason


def test_counters_that_stand_still_are_no_zero(tmp_path: Path) -> None:
    """As on virtual machines, which show a counter and never move it."""
    clock = FakeClock()
    package = add_zone(tmp_path, "intel-rapl:0", "package-0", energy=7)
    memory = add_zone(tmp_path, "intel-rapl:0:0", "dram", energy=7)
    record = compute_energy(make_model(clock, {}), tmp_path, clock)
    assert record.value is None
    assert record.missing == (
        "the energy counter of package-0 (intel-rapl:0) stands still; the energy counter of dram (intel-rapl:0:0) "
        "stands still",
    )
    record = compute_energy(make_model(clock, {package: 1_000_000}), tmp_path, clock)
    assert (record.value.median, record.completeness) == (1.0, Completeness.PARTIAL)
    assert memory.read_text() == "7\n"
    assert record.missing == ("the energy counter of dram (intel-rapl:0:0) stands still",)
