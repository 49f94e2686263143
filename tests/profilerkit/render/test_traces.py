"""The forms for trace viewers: speedscope's file format, and the Chrome trace that Perfetto reads."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drawn_reports import STUDENT, TEACHER, record

import profilerkit
from profilerkit import Comparison, Report
from profilerkit.render import render
from profilerkit.times.layer_times import LayerTime, layer_time_table
from profilerkit.trace.records import LayerTable
from profilerkit.trace.table import Table

#: Own seconds; with the layers inside the model takes 1 + 2 + 4 = 7 forward and 3 + 0 + 5 = 8 backward.
TIMES = layer_time_table(
    [
        LayerTime("", "Net", 1, (1.0, 1.0), (3.0, 3.0)),
        LayerTime("block", "Sequential", 1, (0.0, 0.0), (0.0, 0.0)),
        LayerTime("block.0", "Linear", 2, (2.0, 2.0), (-0.5, -0.5), missing="a part"),
        LayerTime("block.1", "Linear", 1, (4.0, 4.0), (5.0, 5.0)),
    ]
)
OPERATORS = Table(
    [
        {"operator": "mm", "layer": "block.0", "phase": "forward", "calls": 2, "seconds": 1.5, "macs": 8},
        {"operator": "add", "layer": "block.0", "phase": "forward", "calls": 2, "seconds": 0.25, "macs": None},
        {"operator": "mm", "layer": "block.0", "phase": "backward", "calls": 4, "seconds": 0.75, "macs": 16},
    ]
)


def report() -> Report:
    statuses = {
        "layer_times": record("layer_times", TIMES, "4 layers"),
        "operator_table": record("operator_table", OPERATORS, "3 rows"),
    }
    return replace(TEACHER, statuses=statuses)


def speedscope(result: Report | Comparison) -> dict[str, Any]:
    """Return the profiles by name, each with the sum of its stacks; the file keeps to the schema of speedscope."""
    file = json.loads(render(result, "speedscope"))
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = file["shared"]["frames"]
    assert all(isinstance(frame["name"], str) for frame in frames)
    for profile in file["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "seconds", 0)
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= index < len(frames) for sample in profile["samples"] for index in sample)
        assert all(weight >= 0 for weight in profile["weights"])
        assert profile["endValue"] == pytest.approx(sum(profile["weights"]))
    return {
        profile["name"]: {
            tuple(frames[index]["name"] for index in sample): weight
            for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
        }
        for profile in file["profiles"]
    }


def test_speedscope_has_the_own_seconds_of_each_stack() -> None:
    profiles = speedscope(report())
    assert list(profiles) == [
        "Teacher: layers, forward",
        "Teacher: layers, backward",
        "Teacher: operators, forward",
        "Teacher: operators, backward",
    ]
    model, block = "(model) (Net)", "block (Sequential)"
    assert profiles["Teacher: layers, forward"] == {
        (model,): 1.0,
        (model, block): 0.0,
        (model, block, "block.0 (Linear)"): 2.0,
        (model, block, "block.1 (Linear)"): 4.0,
    }
    assert sum(profiles["Teacher: layers, backward"].values()) == 8.0, "3 + 5, and a time below zero is none"
    assert profiles["Teacher: operators, forward"] == {
        ("block.0",): 0.0,
        ("block.0", "mm"): 1.5,
        ("block.0", "add"): 0.25,
    }


def chrome(result: Report | Comparison) -> list[dict[str, Any]]:
    file = json.loads(render(result, "chrome-trace"))
    assert set(file) == {"traceEvents", "displayTimeUnit", "otherData"}
    for event in file["traceEvents"]:
        assert {"ph", "name", "pid", "tid", "ts"} <= set(event) and event["ph"] in "XM"
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0 and math.isfinite(event["dur"])
    return list(file["traceEvents"])


def test_a_chrome_trace_nests_the_layers_in_microseconds() -> None:
    events = chrome(report())
    tracks = {event["args"]["name"]: event["tid"] for event in events if event["name"] == "thread_name"}
    forward = [event for event in events if event["ph"] == "X" and event["tid"] == tracks["layers, forward"]]
    assert [(event["name"], event["ts"], event["dur"]) for event in forward] == [
        ("(model) (Net)", 0.0, 7e6),
        ("block (Sequential)", 0.0, 6e6),
        ("block.0 (Linear)", 0.0, 2e6),
        ("block.1 (Linear)", 2e6, 4e6),
    ]
    assert forward[2]["args"] == {"calls": 2, "missing": "a part", "own_seconds": 2.0}
    assert forward[0]["args"]["macs"] == 192, "the counts of the report stand beside its times"
    layers = [{**row, "macs_low": 192, "macs_high": None} for row in TEACHER.layers or ()]
    bounded = replace(report(), layers=LayerTable(layers))
    (event,) = [
        event for event in chrome(bounded) if event["name"] == "(model) (Net)" and event["cat"] == "layers, forward"
    ]
    assert event["args"]["macs"] == "≥ 192", "at least so many"


def test_models_side_by_side_are_processes() -> None:
    both = Comparison(report(), (replace(report(), name="Second"),))
    events = chrome(both)
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == ["Teacher", "Second"]
    assert {event["pid"] for event in events} == {1, 2}
    assert len(speedscope(both)) == 8


def test_a_report_without_times_says_so() -> None:
    assert speedscope(STUDENT_WITHOUT) == {}
    assert [event["args"] for event in chrome(STUDENT_WITHOUT)] == [
        {"name": "Student"},
        {"labels": "no times of layers or operators were measured"},
    ]


STUDENT_WITHOUT = replace(STUDENT, statuses={})


def test_layers_nested_to_a_great_depth() -> None:
    depth = 1_200  # beyond what recursion reaches
    paths = [".".join("a" * length) for length in range(depth)]
    times = layer_time_table([LayerTime(path, "Net", 1, (1.0,)) for path in paths])
    deep = replace(TEACHER, statuses={"layer_times": record("layer_times", times, "many")})
    slices = [event for event in chrome(deep) if event["ph"] == "X"]
    assert (slices[0]["dur"], slices[-1]["dur"], len(slices)) == (depth * 1e6, 1e6, depth)
    assert len(json.loads(render(deep, "speedscope"))["profiles"][0]["samples"]) == depth


@pytest.mark.parametrize("form", ["speedscope", "chrome-trace"])
def test_the_tables_of_real_metrics_become_tracks(form: str, tmp_path: Path) -> None:
    nn = pytest.importorskip("torch").nn
    names = ["layer_times", "operator_table"]
    measured = profilerkit.profile(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), input_shape=(4,), metrics=names, passes=1)
    tracks = [f"{kind}, {phase}" for kind in ("layers", "operators") for phase in ("forward", "backward")]
    measured.save(tmp_path / "report.json")
    for report in (measured, Report.load(tmp_path / "report.json")):
        text = render(report, form)
        assert [track for track in tracks if track in text] == tracks
        assert len(report.layerwise) == 3 and "forward_seconds" in report.layerwise.columns


@pytest.mark.parametrize("form", ["speedscope", "chrome-trace"])
def test_layers_are_in_the_order_of_the_model(form: str) -> None:
    """Neither the tenth block stands before the second one, nor the head before the stem."""
    paths = ["", "stem", "blocks", *(f"blocks.{index}" for index in range(12)), "head"]
    times = layer_time_table([LayerTime(path, "Linear", 1, (1.0,)) for path in paths])
    drawn = render(replace(TEACHER, statuses={"layer_times": record("layer_times", times, "")}), form)
    places = [drawn.index(f'"{path or "(model)"} (Linear)"') for path in paths]
    assert places == sorted(places)


@pytest.mark.parametrize("form", ["speedscope", "chrome-trace"])
def test_operators_are_in_the_order_in_which_they_ran(form: str) -> None:
    """A table has the slowest first: here those of the head, which ran last, and of the stem the second."""
    ran = [("conv", "stem", 1.0), ("norm", "stem", 2.0), ("mm", "head", 4.0)]
    rows = [
        {"operator": operator, "layer": layer, "phase": "forward", "order": order, "seconds": seconds}
        for order, (operator, layer, seconds) in enumerate(ran)
    ]
    drawn = render(replace(TEACHER, statuses={"t": record("t", Table(reversed(rows)), "")}), form)
    places = [drawn.index(f'"{name}"') for name in ("stem", "conv", "norm", "head", "mm")]
    assert places == sorted(places)
