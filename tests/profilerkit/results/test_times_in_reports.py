"""What a report says of measured times, of how the model was run, and of where it was measured."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import replace
from typing import Any

import pytest

from profilerkit import ModelInputs, NotOfferedError, compare, profile
from profilerkit.backend import RunOptions
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.trace.records import LayerTable


def model() -> FakeModel:
    return FakeModel([FakeLayer("layer", macs=10, params=5)])


X = FakeTensor((2, 3))


def test_every_statistic_is_in_the_data_and_in_the_details() -> None:
    report = profile(model(), X, backend=FakeBackend(), num_iters=10, drop_first=4, metrics="execution_time")
    time = report["execution_time"]
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
        "p99",
    ):
        assert word in shown
    assert "10 after 4 left out" in shown
    assert "Interquartile" not in report.to_text()


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
    record = statuses["execution_time"]
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
    assert re.search(r"\(model\)\s+Net\s+-\s+500 ms", text)


def test_a_report_says_where_it_was_made() -> None:
    facts = profile(model(), X, backend=FakeBackend(), metrics="macs").environment
    assert facts["host"] == platform.node()
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
        FakeBackend().running(model(), ModelInputs(X), options=RunOptions(**options))
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
