"""What a report says of measured times, of how the model was run, and of where it was measured."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profilerkit import Comparison, Measurement, ModelInputs, NotOfferedError, Report, compare, load, profile
from profilerkit.backend import RunOptions
from profilerkit.piping.outcome import Outcome
from profilerkit.render import render
from profilerkit.results.report import StatusRecord
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.times import conditions
from profilerkit.times.conditions import Conditions
from profilerkit.trace.records import LayerTable
from profilerkit_metrics import ExecutionTime


def model() -> FakeModel:
    return FakeModel([FakeLayer("layer", macs=10, params=5)])


X = FakeTensor((2, 3))


def test_every_statistic_is_in_the_data_and_in_the_details() -> None:
    report = profile(model(), X, backend=FakeBackend(), num_iters=10, drop_first=4, metrics="execution_time")
    time = Measurement(
        (1.0, 3.0, 2.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0, 2.0), warmup=(4.0,) * 4, session=report["execution_time"].session
    )
    record = replace(report.statuses["execution_time"], value=time)
    report = replace(report, statuses={"execution_time": record})
    said = report.to_dict()["statuses"][0]["value"]
    assert {**said, "session": time.session} == {**time.to_dict(), "type": "measurement", "precision": time.precision}
    assert len(said["samples"]) == 10
    assert len(said["warmup"]) == 4
    shown = report.to_text(details=True)
    for word in (
        "Median",
        "95 % interval",
        "Noise",
        "Mean",
        "Interquartile range",
        "Smallest",
        "Largest",
        "p90",
    ):
        assert word in shown
    assert "p95" not in shown  # none of ten samples is expected above it, and the largest has its own line
    assert "10 after 4 left out" in shown
    assert "Interquartile" not in report.to_text()


MACHINE = Conditions(
    wall_seconds=2.0,
    cpu_seconds=0.5,
    involuntary_switches=7,
    load_before=1.25,
    load_after=1.5,
    cores=2,
    threads=9,
    governor="powersave",
    process="p",
)


def make_timed(*samples: float, session: str | None = "s", machine: Conditions | None = MACHINE) -> Report:
    report = profile(model(), X, backend=FakeBackend(), num_iters=6, metrics="execution_time")
    record = report.statuses["execution_time"]
    value = Measurement(samples, session=session, precision=0.02, conditions=machine)
    execution_time = ExecutionTime().with_outcome(Outcome(value, record.completeness))
    return replace(report, statuses={"execution_time": StatusRecord.of(execution_time)}, notes=())


@pytest.mark.parametrize("form", ["table", "markdown", "latex", "csv", "html"])
def test_three_samples_are_a_range_in_every_form(form: str) -> None:
    drawn = render(make_timed(0.001, 0.003, 0.002), form, details=True).replace("\\%", "%").replace("&nbsp;", " ")
    assert "ange of 3 samples, 75 %" in drawn
    assert "95 %" not in drawn.partition("<script")[0] if form == "html" else "95 % interval" not in drawn
    assert make_timed(0.001, 0.003, 0.002).status("execution_time").shown == "2 ms ±50% [1 to 3, 3 samples]"


@pytest.mark.parametrize(
    ("samples", "noise"),
    [
        ((0.001, 0.1, 0.002), "±2,475%"),  # (0.1 - 0.001) / 2 / 0.002 is 24.75 times the median
        ((1.0, 1.001, 1.002), "±0.1%"),  # 0.002 / 2 / 1.001
        ((1.0, 1.00001, 1.00002), "±<0.1%"),
        ((1.0, 1.1, 1.2), "±9%"),  # 0.2 / 2 / 1.1
    ],
)
def test_noise_is_never_said_to_be_none(samples: tuple[float, ...], noise: str) -> None:
    assert f" {noise} [" in make_timed(*samples).status("execution_time").shown


def test_a_noisy_value_is_marked_and_that_it_is_complete_is_not() -> None:
    color = render(make_timed(0.001, 0.003, 0.002), "table", color=True)
    assert "\x1b[33m2 ms" in color or "\x1b[33m2 ±50%" in color
    assert "\x1b[33mcomplete" not in color


def test_three_samples_are_a_range_in_json() -> None:
    value = make_timed(0.001, 0.003, 0.002).to_dict()["statuses"][0]["value"]
    assert (value["low"], value["high"], value["coverage"], value["is_range"]) == (0.001, 0.003, 0.75, True)


def test_three_pairs_have_no_verdict() -> None:
    """Ratios of 3, 2 and 4: all are above 1, and so are three in four of three coins that fell alike."""
    comparison = Comparison(make_timed(0.001, 0.001, 0.001), (make_timed(0.003, 0.002, 0.004),))
    shown = " ".join(str(comparison).split())
    assert "3x more [2 to 4]" in shown
    assert "≈" not in shown
    assert "no real difference" not in shown
    assert "3 pairs are too few for an interval; ±1.0% was requested" in shown
    assert not comparison.ratio("execution_time").is_real


def test_a_noisy_ratio_is_said_below_the_comparison() -> None:
    first = make_timed(*[0.001] * 8)
    other = make_timed(*(0.001 * factor for factor in (1.0, 1.2, 1.1, 1.1, 1.2, 1.0, 1.1, 1.1)))
    shown = " ".join(str(Comparison(first, (other,))).split())
    assert "Execution Time: noisy: the ratio is precise to ±9.1%, ±1.0% was requested" in shown


def test_two_processes_are_said() -> None:
    first, alike = make_timed(*[0.001] * 8), make_timed(*[0.002] * 8)
    other = make_timed(*[0.002] * 8, machine=replace(MACHINE, process="q"))
    note = "Each model was measured in a process of its own."
    assert note in " ".join(str(Comparison(first, (other,))).split())
    assert note not in str(Comparison(first, (alike,)))


def test_the_machine_stands_beside_each_time() -> None:
    shown = make_timed(0.001, 0.003, 0.002).to_text(details=True)
    facts = {line.split("  ")[0].strip(): line.split("  ")[-1].strip() for line in shown.splitlines() if "  " in line}
    assert facts["Processor time"] == "500 ms in 2 s"
    assert facts["Interruptions"] == "7"
    assert facts["Threads of the process"] == "9"
    assert facts["Frequency governor"] == "powersave"
    assert facts["Load of the machine"] == "1.2 before, 1.5 after on 2 cores"


def test_a_saved_time_has_its_machine(tmp_path: Path) -> None:
    report = make_timed(0.001, 0.003, 0.002)
    report.save(str(tmp_path / "report.json"))
    saved = load(str(tmp_path / "report.json"))
    assert isinstance(saved, Report)
    assert saved["execution_time"].conditions == MACHINE
    unknown = make_timed(0.001, machine=None)
    unknown.save(str(tmp_path / "unknown.json"))
    saved = load(str(tmp_path / "unknown.json"))
    assert isinstance(saved, Report)
    assert saved["execution_time"].conditions is None


def test_what_both_times_are_warned_of_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "MOST_LOAD_OF_A_CORE", 0.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0, 3.0, 3.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    names = ["execution_time", "throughput"]
    report = profile(model(), X, backend=FakeBackend(), num_iters=6, metrics=names)
    assert report.notes == ("Execution Time, Throughput: busy machine: a load of 3.0 on 2 cores",)
    comparison = compare(model(), model(), inputs=X, backend=FakeBackend(), num_iters=6, metrics=names)
    assert str(comparison).count("busy machine: a load of 3.0 on 2 cores") == 1


def test_details_of_a_comparison_have_the_statistics_of_each_model() -> None:
    comparison = compare(
        model(), model(), inputs=X, backend=FakeBackend(), names=("A", "B"), num_iters=6, metrics="execution_time"
    )
    shown = comparison.to_text(details=True)
    assert "Measurements of A" in shown
    assert "Measurements of B" in shown
    assert shown.count("\nEnvironment\n") == 1, "it is the same for both"


def test_measurements_of_different_confidence_stand_in_one_table() -> None:
    report = profile(model(), X, backend=FakeBackend(), num_iters=6, metrics=["execution_time", "first_call_time"])
    statuses = dict(report.statuses)
    value = Measurement((1.0, 3.0, 2.0, 2.0, 3.0, 1.0))
    record = statuses["execution_time"] = replace(statuses["execution_time"], value=value)
    statuses["other"] = replace(record, key="other", value=replace(record.value, confidence=0.5))
    lines = replace(report, statuses=statuses).to_text(details=True).splitlines()
    found = [line.split("  ")[0].strip() for line in lines if "% interval" in line]
    assert found == ["95 % interval", "50 % interval"]


def test_layers_of_a_metric_need_not_say_how_often_they_are_called() -> None:
    """A metric of the user's may have a table of its own for the layers, with no more than times in it."""
    report = profile(model(), X, backend=FakeBackend(), metrics="macs")
    row = {"path": "", "type": "Net", "depth": 0, "is_leaf": True, "forward_seconds": 0.5}
    record = replace(report.status("macs"), key="mine", friendly_name="Mine", value=LayerTable([row]))
    text = replace(report, statuses={**report.statuses, "mine": record}).to_text(details=True)
    assert re.search(r"\(model\)\s+Net\s+500 ms", text)


def test_the_name_of_the_host_is_there_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILERKIT_KEEP_HOST", "1")
    assert profile(model(), X, backend=FakeBackend(), metrics="macs").environment["host"] == platform.node()


def test_what_ran_has_its_device() -> None:
    timed = profile(model(), X, backend=FakeBackend(), metrics="latency", num_iters=2)
    assert timed.environment["device"] == "cpu"
    assert ", cpu" in str(timed).splitlines()[1]
    assert "device" not in profile(model(), X, backend=FakeBackend(), metrics="macs").environment, "nothing ran"


def test_a_report_says_where_it_was_made() -> None:
    facts = profile(model(), X, backend=FakeBackend(), metrics="macs").environment
    assert "host" not in facts, "reports are shared"
    assert facts["cores"] == str(os.cpu_count())
    assert facts["python"] == platform.python_version()
    assert facts["fake"] == "1.0", "the backend's own"
    assert {"os", "cpu"} <= facts.keys()
    if hasattr(os, "sched_getaffinity"):
        assert facts["usable_cores"] == str(len(os.sched_getaffinity(0)))
    assert "Environment\n" not in profile(model(), X, backend=FakeBackend(), metrics="macs").to_text(details=True)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"training": True}, "training=True"),
        ({"compile": "x"}, "compile='x'"),
        ({"autocast": True, "num_threads": 2}, "autocast=True, num_threads=2"),
    ],
)
def test_a_backend_that_offers_no_options_says_so(options: dict[str, Any], asked: str) -> None:
    message = f"the fake backend runs a model as it is, for inference: it offers no {asked}"
    with pytest.raises(NotOfferedError, match=message):
        FakeBackend().run(model(), ModelInputs(X), options=RunOptions(**options))
    report = profile(model(), X, backend=FakeBackend(), metrics=["macs", "execution_time", "throughput"], **options)
    assert report["macs"] == 20
    for key in ("execution_time", "throughput"):
        assert report.status(key).completeness.value == "unavailable"
        assert message in report.status(key).missing[0]


def test_training_times_are_unavailable_where_there_are_no_training_steps() -> None:
    report = profile(model(), X, backend=FakeBackend(), metrics="training_time")
    assert "it offers no training=True" in report.status("training_time").missing[0]


def test_options_in_words() -> None:
    assert str(RunOptions()) == ""
    assert str(RunOptions(compile=True, num_threads=2)) == "compiled, on 2 threads"
    assert (
        str(RunOptions(compile="aot_eager", autocast="bfloat16")) == "compiled (aot_eager), under autocast to bfloat16"
    )
    assert str(RunOptions(training=True)).startswith("one training step: ")
