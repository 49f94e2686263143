"""What follows from the joules of a pass: those of a sample and of a token, and the power, running and idle."""

from __future__ import annotations

from pathlib import Path

import pytest
from energy_counters import KEYS, add_zone, make_model, profile_energy

from profilerkit import ArgumentError, Completeness, ModelInputs, Profiler, WithoutValuesError, profile
from profilerkit.testing import FakeBackend, FakeClock, FakeModel, FakeTensor
from profilerkit.times.sampling import Sampling
from profilerkit_energy import ComputeEnergy, Hardware, plugin

KEYS_OF_SIZES = ["energy_per_sample", "energy_per_token"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return add_zone(tmp_path, "intel-rapl:0", "package-0")


@pytest.fixture
def hardware(tmp_path: Path) -> Hardware:
    return Hardware(powercap=tmp_path, system="Linux")


def test_joules_of_a_sample_and_of_a_token(hardware: Hardware, package: Path, clock: FakeClock) -> None:
    """A pass over 4 sequences of 8 tokens uses 2 J: half a joule each, and 1/16 J for each of 32 tokens."""
    inputs = {"input_ids": FakeTensor((4, 8)), "attention_mask": FakeTensor((4, 8))}
    report = profile_energy(make_model(clock, {package: 2_000_000}), hardware, clock, inputs=inputs)
    assert report["energy"].median == 2.0
    assert report["energy_per_sample"].samples == (0.5,) * 12
    assert report["energy_per_token"].samples == (1 / 16,) * 12


def test_the_caller_says_how_many_tokens_a_pass_has(hardware: Hardware, package: Path, clock: FakeClock) -> None:
    model = make_model(clock, {package: 2_000_000})
    assert profile_energy(model, hardware, clock, tokens=64)["energy_per_token"].median == 1 / 32


def test_without_tokens_the_reason_says_what_to_do(hardware: Hardware, package: Path, clock: FakeClock) -> None:
    report = profile_energy(make_model(clock, {package: 2_000_000}), hardware, clock)
    record = report.status("energy_per_token")
    assert record.completeness is Completeness.UNAVAILABLE
    assert "pass them as the input input_ids, or say it with tokens=" in record.missing[0]
    assert report["energy"].median == 2.0


@pytest.mark.parametrize(("shape", "missing"), [((0, 8), KEYS_OF_SIZES), ((4, 0), KEYS_OF_SIZES[1:])])
def test_nothing_has_no_energy_for_each(
    shape: tuple[int, ...], missing: list[str], hardware: Hardware, package: Path, clock: FakeClock
) -> None:
    """Of an empty batch, and of sequences without tokens: the energy of the pass is still known."""
    model = make_model(clock, {package: 2_000_000})
    report = profile_energy(model, hardware, clock, inputs={"input_ids": FakeTensor(shape)})
    assert report["energy"].median == 2.0
    assert [key for key in KEYS_OF_SIZES if report[key] is None] == missing


def test_what_generate_makes_is_not_counted_by_its_prompt(hardware: Hardware, package: Path, clock: FakeClock) -> None:
    inputs = ModelInputs(input_ids=FakeTensor((1, 8))).given_to(lambda model, input_ids: model(input_ids))
    report = profile_energy(make_model(clock, {package: 1_000_000}), hardware, clock, inputs=inputs)
    assert report.status("energy_per_token").value is None


@pytest.mark.parametrize("tokens", [0, -1, 1.5, "many"])
def test_tokens_are_a_number_from_one(hardware: Hardware, clock: FakeClock, tokens: object) -> None:
    with pytest.raises(ArgumentError, match="how many tokens a forward pass has, such as 128"):
        profile_energy(FakeModel(), hardware, clock, tokens=tokens)  # type: ignore[arg-type]


def test_idle_power_stands_beside_and_is_not_subtracted(hardware: Hardware, package: Path, clock: FakeClock) -> None:
    """250 mJ in 1/64 s are 16 W; while the process waits it is 5 W, for one second."""
    model = make_model(clock, {package: 250_000})
    report = profile_energy(model, hardware, clock, idle_watts={package: 5.0})
    assert report["energy"].median == 0.25
    assert report["power"].samples == (16.0,) * 12
    assert report["idle_power"] == 5.0
    assert report.status("energy").note == "package-0 (intel-rapl:0): 16 W while the model ran, 5 W idle"
    assert report.status("idle_power").shown == "5 W"


def test_an_idle_power_of_nothing_is_no_zero(hardware: Hardware, package: Path, clock: FakeClock) -> None:
    report = profile_energy(make_model(clock, {package: 250_000}), hardware, clock)
    record = report.status("idle_power")
    assert (record.value, record.missing) == (None, ("the energy counters did not change while nothing ran",))
    assert report.status("energy").note.endswith("16 W while the model ran, an unknown power idle")


def test_without_counters_each_value_says_so(tmp_path: Path, clock: FakeClock) -> None:
    report = profile_energy(FakeModel(), Hardware(powercap=tmp_path, system="Linux"), clock)
    assert {report.status(key).completeness for key in KEYS} == {Completeness.UNAVAILABLE}
    assert {"there is no energy counter of a processor" in report.status(key).missing[0] for key in KEYS} == {True}


def test_a_model_without_values_cannot_be_run(hardware: Hardware, package: Path, clock: FakeClock) -> None:
    def refuse() -> None:
        raise WithoutValuesError("its weights are on the meta device")

    model = make_model(clock, {package: 1})
    model.on_call = refuse
    assert profile_energy(model, hardware, clock).status("energy").missing == ("its weights are on the meta device",)


def test_the_model_is_run_through_the_backend_alone(hardware: Hardware, package: Path, clock: FakeClock) -> None:
    backend = FakeBackend()
    profiler = Profiler(make_model(clock, {package: 1_000_000}), backend=backend, inputs=FakeTensor((1, 3)))
    profiler.register_profiler_function(ComputeEnergy(hardware, clock.advance))
    assert profiler.compute_status("energy", sampling=Sampling(clock=clock)).median == 1.0
    assert backend.preserving == 0, "no guard around it, since run() hands the model back"


def test_a_profile_measures_no_energy_unless_it_is_requested() -> None:
    assert [function.ON_DEMAND for function in plugin.profilerkit_profiler_functions()] == [True]
    assert tuple(key.NAME for key in plugin.profilerkit_status_keys()) == KEYS
    assert "energy" not in profile(FakeModel(), FakeTensor((1, 3)), backend=FakeBackend()).statuses
