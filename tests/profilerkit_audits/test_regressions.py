"""Regressions of a store: counts exactly, times by model, and what is the machine's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import add_nights, begun, count_row, network_report, noisy

from profilerkit import ArgumentError
from profilerkit_audits import Store, regressions

pytest.importorskip("scipy")
pytestmark = pytest.mark.heavy

NIGHTS = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs.db") as opened:
        yield opened


def fleet(count: int, noise: float = 0.01) -> dict[str, list[float]]:
    return {f"net.py:net_{number}": noisy(NIGHTS, noise, number) for number in range(count)}


def test_a_count_that_moved_names_its_layer_once(store: Store) -> None:
    """dense(4, 8), dense(8, 2) has 32 + 16 MACs; dense(4, 8), dense(8, 3) has 32 + 24."""
    versions = [{"torch": "1"}, {"torch": "1"}, {"torch": "2"}, {"torch": "2"}]
    for night, width in enumerate([2, 2, 3, 3]):
        report = network_report(4, 8, width)
        store.add(count_row(begun(store, night), night, "net.py:f", report, versions=versions[night]), report)
    (change,) = [one_change for one_change in regressions(store).changes if one_change.metric == "macs"]
    assert (change.before.value, change.after.value, change.difference) == (48, 56, 8)
    assert change.verdict == "worse"
    assert len(change.layers) == 1
    assert change.layers[0].endswith("(Dense): +8")
    assert change.causes == ("torch 1 -> 2", "commit c1 -> c2")
    params = next(one_change for one_change in regressions(store).changes if one_change.metric == "total_params")
    assert params.difference == 9, "8 weights and a bias"


def test_a_value_is_lost_once_and_compared_with_the_last_one(store: Store) -> None:
    for night, width in enumerate([2, None, None, 2, 3]):
        report = None if width is None else network_report(4, 8, width)
        store.add(count_row(begun(store, night), night, "net.py:f", report), report)
    moved = [(change.new.run[:7], change.verdict) for change in regressions(store).changes if change.metric == "macs"]
    assert moved == [("run-001", "lost"), ("run-004", "worse")], "it comes back with the same count at night 3"
    since = regressions(store, since="last~1").changes
    assert {item.new.run[:7] for item in since} == {"run-004"}


@pytest.mark.slow
def test_a_step_of_one_model_is_told_with_its_night(store: Store) -> None:
    series = fleet(8)
    series["net.py:net_3"] = [*series["net.py:net_3"][:22], *(1.10 * night for night in series["net.py:net_3"][22:])]
    add_nights(store, series)
    result = regressions(store)
    assert [(step.case and step.case.spec, step.new.run) for step in result.steps] == [("net.py:net_3", "run-022-m")]
    assert result.steps[0].change == pytest.approx(0.10, abs=0.02)
    assert (result.machines, result.series) == ((), 8)
    content = json.loads(json.dumps(result.to_dict()))
    assert (content["steps"][0]["spec"], content["series"]) == ("net.py:net_3", 8)


@pytest.mark.slow
def test_all_models_together_are_the_machine(store: Store) -> None:
    series = {spec: [*times[:20], *(1.15 * time for time in times[20:])] for spec, times in fleet(8).items()}
    add_nights(store, series)
    result = regressions(store)
    assert result.steps == ()
    assert [(machine.case, machine.new.run) for machine in result.machines] == [(None, "run-020-m")]
    assert result.machines[0].change == pytest.approx(0.15, abs=0.02)


def test_a_slower_machine_is_no_step_of_the_models_of_a_small_night(store: Store) -> None:
    """All are 15 % slower from night 20 on; of the last ten nights each has three models, which tell no machine."""
    series = {spec: [*times[:20], *(1.15 * time for time in times[20:])] for spec, times in fleet(8).items()}
    small = [f"net.py:net_{number}" for number in range(3)]
    add_nights(store, {spec: times if spec in small else times[:20] for spec, times in series.items()})
    result = regressions(store)
    assert (result.steps, result.machines) == ((), ())
    assert any("10 nights left out with fewer than 5 models" in note for note in result.notes)


@pytest.mark.slow
def test_two_kinds_of_machine_are_never_one_series(store: Store) -> None:
    """The second machine takes twice as long from night 30 on: another machine, and no step."""
    add_nights(store, fleet(6))
    slower = {spec: [2 * time for time in times] for spec, times in fleet(6).items()}
    add_nights(store, slower, machine="other")
    result = regressions(store)
    assert (result.steps, result.machines, result.series) == ((), (), 12)


def test_what_is_not_searched_is_told(store: Store) -> None:
    add_nights(store, {"net.py:short": noisy(5, 0.01, 1), "net.py:long": noisy(12, 0.01, 2)})
    add_nights(store, {"net.py:odd": noisy(12, 0.01, 3)}, machine="flagged", flags=("execution_time: odd",))
    notes = " | ".join(regressions(store).notes)
    assert "1 series of times not searched: fewer than 8 nights on one machine" in notes
    assert "12 measured values left out: of rows that are flagged as not plausible" in notes
    assert "fewer than 5 models a night" in notes


def test_bad_arguments(store: Store) -> None:
    with pytest.raises(ArgumentError, match="rate=1: give a number from 0 on and below 1"):
        regressions(store, rate=1)
    with pytest.raises(ArgumentError, match="window=3: a step is looked for in 8 nights at the least"):
        regressions(store, window=3)
    with pytest.raises(ArgumentError, match="there is no run 'last': the store has 0 runs"):
        regressions(store, since="last")
