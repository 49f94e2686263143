"""Reports and comparisons: plain data, and the console tables made of them."""

import copy
import json
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import RenderableType

from profilerkit import (
    Comparative,
    Comparison,
    Completeness,
    Measurement,
    Metric,
    Noted,
    Partial,
    Profiler,
    ProfilerFunction,
    Report,
    StatusKey,
    UnknownStatusError,
)
from profilerkit.piping.outcome import Outcome
from profilerkit.piping.quantity import Scale
from profilerkit.render.console import draw_parts, to_text
from profilerkit.render.content import parts
from profilerkit.render.layer_grids import layer_grid
from profilerkit.render.selection import Selection
from profilerkit.results.report import StatusRecord
from profilerkit.results.saving import parse, to_json
from profilerkit.testing import FakeLayer, FakeModel
from profilerkit.trace.records import LayerTable
from profilerkit_metrics import ComputeComplexity, ComputeExecutionTime

MakeProfiler = Callable[..., Profiler]


def result_table(result: Report | Comparison, details: bool = False) -> RenderableType:
    return draw_parts(parts(result, Selection(details)))


def golden(name: str) -> str:
    """Return a text that was written down, looked at, and is not to change by itself."""
    return (Path(__file__).parents[1] / "render" / "golden" / name).read_text(encoding="utf-8").rstrip("\n")


def record(key: str, value: object, shown: str, unit: str = "", **facts: object) -> StatusRecord:
    facts = {"comparative": Comparative.RECIPROCAL, "completeness": Completeness.COMPLETE, **facts}
    return StatusRecord(key, key.title(), f"What {key} is.", value, shown, unit, **facts)  # type: ignore[arg-type]


def report(name: str, *records: StatusRecord, **facts: object) -> Report:
    return Report(name, "fake", "module.Model", {r.key: r for r in records}, **facts)  # type: ignore[arg-type]


TEACHER = report(
    "Teacher",
    record("macs", 8_000_000, "8 MMACs", "MMACs"),
    record("score", 90.0, "90 %", "%", comparative=Comparative.DIFF),
    record("time", Measurement((0.002,) * 10, session=1), "2 ms [2, 2]", "ms", base_unit="s", scale=Scale.TIME),
    record("energy", None, "", completeness=Completeness.UNAVAILABLE, missing=("no counter",)),
    batch_size=1,
)
STUDENT = report(
    "Stu[dent]",
    record("macs", 2_000_000, "2 MMACs", "MMACs", completeness=Completeness.PARTIAL, missing=("my::op (2 calls)",)),
    record("score", 87.5, "87.5 %", "%", comparative=Comparative.DIFF),
    record("time", Measurement((0.001,) * 10, session=1), "1 ms [1, 1]", "ms", base_unit="s", scale=Scale.TIME),
    record("extra", 3, "3"),
    batch_size=1,
)


def test_a_metric_is_found_by_its_other_names_too() -> None:
    """``params`` is an alias of ``total_params``; a metric of just that name comes first."""
    small, large = (report(name, record("total_params", value, str(value))) for name, value in (("a", 10), ("b", 25)))
    comparison = Comparison(small, (large,))
    assert (small["params"], small.status("params").key, small.get("params"), "params" in small) == (
        10,
        "total_params",
        10,
        True,
    )
    assert (comparison["params"], "params" in comparison) == ({"a": 10, "b": 25}, True)
    assert (comparison.ratio("params").value, comparison.difference("params")) == (2.5, 15)
    assert report("a", record("params", 3, "3"))["params"] == 3
    with pytest.raises(UnknownStatusError, match="unknown metric 'total_params'; this report knows"):
        report("a", record("macs", 3, "3"))["params"]
    assert "params" not in report("a", record("macs", 3, "3"))


def test_a_report_is_read_by_key(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeComplexity(), name="Mine")
    profiler.compute_network_status()
    made = profiler.report()
    assert made["macs"] == 300
    assert "macs" in made
    assert "layerwise_data" not in made, "a status that is no metric belongs to no table"
    assert list(made)[:2] == ["total_params", "trainable_params"]
    assert made.layers is not None
    assert [row["path"] for row in made.layers.top(1)] == ["second"]
    assert (made.name, made.backend, made.model_type) == ("Mine", "fake", "profilerkit.testing.fakes.FakeModel")
    assert made.environment["fake"] == "1.0"
    with pytest.raises(UnknownStatusError, match="unknown metric 'mac'; this report knows, nearest first: macs"):
        made["mac"]


def test_a_report_holds_what_is_computed_and_nothing_else(model: FakeModel, make_profiler: MakeProfiler) -> None:
    empty = make_profiler(model, ComputeComplexity()).report()
    assert (list(empty), empty.batch_size, empty.layers) == ([], None, None)


def test_batches_of_different_sizes_are_said(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeComplexity(), ComputeExecutionTime())
    profiler.compute_status("macs", batch_size=8)
    profiler.compute_status("execution_time", batch_size=1, num_iters=2, warmup=0)
    made = profiler.report(["macs", "execution_time"])
    assert made.batch_size is None
    assert any("batches of different sizes" in note and "macs of 8" in note for note in made.notes)


@pytest.mark.parametrize("last", ["macs", "execution_time"])
def test_a_report_of_named_metrics_has_their_inputs(last: str, model: FakeModel, make_profiler: MakeProfiler) -> None:
    """What was computed of another batch, before or after them, is no part of the report, and no note is of it."""
    arguments: dict[str, dict[str, Any]] = {
        "macs": {"batch_size": 8},
        "execution_time": {"batch_size": 3, "num_iters": 2, "warmup": 0},
    }
    profiler = make_profiler(model, ComputeComplexity(), ComputeExecutionTime())
    for name in sorted(arguments, key=lambda name: name == last):
        profiler.compute_status(name, **arguments[name])
    for name, size in (("macs", 8), ("execution_time", 3)):
        made = profiler.report([name])
        assert made.batch_size == size
        assert f"({size}," in made.inputs
        assert not any("batches of different sizes" in note for note in made.notes)
        assert ("device" in made.environment) == (name == "execution_time"), "the model was run for the time alone"


def test_a_report_is_plain_data(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeComplexity(), ComputeExecutionTime())
    profiler.compute_network_status(num_iters=6, warmup=0)
    data = json.loads(json.dumps(profiler.report().to_dict()))
    by_key = {status["key"]: status for status in data["statuses"]}
    assert by_key["macs"]["value"] == 300
    assert by_key["macs"]["comparative"] == "reciprocal"
    assert len(by_key["execution_time"]["value"]["samples"]) == 6
    assert [row[data["layers"]["columns"].index("path")] for row in data["layers"]["rows"]] == ["", "first", "second"]
    both = json.loads(json.dumps(Comparison(TEACHER, (STUDENT,)).to_dict()))
    assert both["reports"][1]["statuses"][0]["missing"] == ["my::op (2 calls)"]


def test_the_table_of_one_model() -> None:
    shown = replace(STUDENT, notes=("counted in a real run",))
    assert to_text(result_table(shown), width=80) == golden("report.txt")


def test_the_table_of_a_comparison() -> None:
    comparison = Comparison(TEACHER, (STUDENT,))
    assert str(comparison) == comparison.to_text(form="table") == to_text(result_table(comparison))
    assert to_text(result_table(comparison), width=100) == golden("comparison.txt")


def test_no_real_difference_is_said() -> None:
    times = [
        Measurement((1.0, 2.0, 1.0, 2.0, 1.0, 2.0), session=5),
        Measurement((2.0, 1.0, 2.0, 1.0, 2.0, 1.0), session=5),
    ]
    reports = [report(name, record("time", time, "1 s", "s")) for name, time in zip("ab", times, strict=True)]
    shown = str(Comparison(reports[0], (reports[1],)))
    assert "≈ the same" in shown
    assert "≈ marks a ratio whose interval holds 1: no real difference was found." in shown


def test_details_add_descriptions_and_layers(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeComplexity())
    profiler.compute_network_status()
    made = profiler.report()
    assert "Elements of the distinct parameters" in made.to_text(details=True)
    assert "second" in made.to_text(details=True)
    assert "Layers\n" not in made.to_text()
    both = Comparison(made, (made,)).to_text(details=True)
    assert "Layers of FakeModel (1) and FakeModel (2)" in both
    assert len([line for line in both.splitlines() if line.endswith("   same")]) == 3, "each layer"


def test_the_layer_table(model: FakeModel) -> None:
    rows = [
        {
            "path": path, "type": kind, "depth": depth, "is_leaf": depth == 1, "calls": calls, "params": params,
            "macs": macs, "flops": 2 * macs, "own_macs": macs, "own_flops": 2 * macs,
            "input_shapes": (), "output_shapes": shapes,
        }
        for path, kind, depth, calls, params, macs, shapes in [
            ("", "Net", 0, 1, 1500, 3_000_000, ((1, 10),)),
            ("a[0]", "Li[near]", 1, 2, 1500, 3_000_000, ((1, 10), (1,))),
            ("unused", "ReLU", 1, 0, 0, 0, ()),
        ]
    ]  # fmt: skip
    assert to_text(draw_parts([layer_grid(LayerTable(rows))]), width=100) == golden("layers.txt")


def test_reports_render_themselves_in_rich() -> None:
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(TEACHER, Comparison(TEACHER, (STUDENT,)))
    assert "Enhancement" in console.file.getvalue()  # type: ignore[attr-defined]


def test_which_of_several_models() -> None:
    three = Comparison(TEACHER, (STUDENT, replace(STUDENT, name="Tiny")))
    assert three.enhancement("score", "Tiny") == three.enhancement("score", 1) == -2.5
    assert three.ratio("macs", 0).value == 0.25
    assert "Enhancement\n" in str(three) or "Tiny" in str(three)
    with pytest.raises(ValueError, match="has several models: Stu.dent., Tiny; name one"):
        three.ratio("macs")
    with pytest.raises(ValueError, match="no model 'Huge' in this comparison; it has: Stu.dent., Tiny"):
        three.ratio("macs", "Huge")
    with pytest.raises(ValueError, match="no model 7 in this comparison; it has 2: "):
        three.ratio("macs", 7)
    with pytest.raises(UnknownStatusError, match="this comparison knows, nearest first: macs"):
        three.enhancement("mac", 0)
    with pytest.raises(ValueError, match="needs at least one report beside the reference"):
        Comparison(TEACHER, ())


def test_a_metric_that_cannot_be_shown_fails_alone(make_profiler: MakeProfiler, model: FakeModel) -> None:
    class Shy(Metric):
        NAME = "shy"

        def get_value(self) -> float:
            raise ZeroDivisionError("not today")

    class ComputeShy(ProfilerFunction):
        def get_bounded_status_keys(self) -> type[Metric]:
            return Shy

        def __call__(self) -> int:
            return 1

    profiler = make_profiler(model, ComputeShy(), ComputeComplexity())
    profiler.compute_network_status()
    made = profiler.report()
    assert made["macs"] == 300
    assert made.status("shy").missing == ("Shy cannot be shown: ZeroDivisionError: not today",)
    assert "Shy cannot be shown" in str(made)


@pytest.mark.parametrize(
    ("attribute", "value", "problem"),
    [
        ("FRIENDLY_NAME", 5, "friendly_name=5"),
        ("UNIT", ["B"], r"(base_)?unit=\['B'\]"),
        ("friendly_name", lambda self: None, "friendly_name=None"),
        ("description", lambda self: None, "description=None"),
        ("get_units", lambda self: b"B", "unit=b'B'"),
        ("show", lambda self: 3.5, "shown=3.5"),
    ],
)
def test_the_words_of_a_metric_are_texts(
    attribute: str, value: Any, problem: str, make_profiler: MakeProfiler, model: FakeModel
) -> None:
    odd = type("Odd", (Metric,), {"NAME": "odd", attribute: value})
    compute = type("ComputeOdd", (ProfilerFunction,), {"KEYS": odd, "__call__": lambda self: 1})
    profiler = make_profiler(model, compute(), ComputeComplexity())
    profiler.compute_network_status()
    made = profiler.report()
    assert made["macs"] == 300
    assert re.fullmatch(f"Odd cannot be shown: TypeError: {problem} is no text", made.status("odd").missing[0])
    for form in ("summary", "table", "markdown"):
        assert "cannot be shown" in made.to_text(form=form)


def test_a_metric_may_have_none_as_its_unit(make_profiler: MakeProfiler, model: FakeModel) -> None:
    plain = type("PlainCount", (Metric,), {"NAME": "plain", "UNIT": None})
    compute = type("ComputePlain", (ProfilerFunction,), {"KEYS": plain, "__call__": lambda self: 1})
    profiler = make_profiler(model, compute())
    profiler.compute(["plain"])
    record = profiler.report(["plain"]).status("plain")
    assert (record.shown, record.unit, record.base_unit) == ("1", "", "")


class SilentError(Exception):
    """An error whose own code, which writes its message, raises."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("where", ["shown", "computed"])
def test_an_error_that_cannot_be_written_fails_alone(where: str, make_profiler: MakeProfiler, model: FakeModel) -> None:
    class Mute(Metric):
        NAME = "mute"

        def get_value(self) -> float:
            raise SilentError

    class ComputeMute(ProfilerFunction):
        def get_bounded_status_keys(self) -> type[Metric]:
            return Mute

        def __call__(self) -> int:
            if where == "computed":
                raise SilentError
            return 1

    profiler = make_profiler(model, ComputeMute(), ComputeComplexity())
    profiler.compute_network_status()
    made = profiler.report()
    assert made["macs"] == 300
    (reason,) = made.status("mute").missing
    assert "SilentError" in reason
    assert made.status("mute").completeness is Completeness.FAILED


def test_a_long_name_leaves_the_values_in_sight() -> None:
    long = replace(record("macs", 8, "8 MMACs", "MMACs"), friendly_name="multiply accumulates " * 5)
    one = report("Teacher", long)
    for text in (to_text(result_table(one), 80), to_text(result_table(Comparison(one, (one,))), 80)):
        assert "8" in text
        assert "MMACs" in text


@pytest.mark.parametrize("partial", [0, 1])
def test_a_bound_has_no_enhancement_and_a_ratio_with_two_ends(partial: int) -> None:
    """Of 10 and "25 or more" the ratio is 2.5 or more; of "10 or more" and 25 it is 2.5 or less."""
    reports = []
    for index, value in enumerate((10, 25)):
        completeness = Completeness.PARTIAL if index == partial else Completeness.COMPLETE
        one = replace(record("macs", value, str(value)), completeness=completeness)
        reports.append(report("ab"[index], replace(one, comparative=Comparative.RECIPROCAL)))
    comparison = Comparison(reports[0], (reports[1],))
    assert (comparison.enhancement("macs"), comparison.difference("macs")) == (None, None)
    ratio = comparison.ratio("macs")
    assert (ratio.low, ratio.high) == ((0, 2.5) if partial == 0 else (2.5, math.inf))


def test_times_compare_by_their_pairs() -> None:
    comparison = Comparison(TEACHER, (STUDENT,))
    assert comparison.enhancement("time") == pytest.approx(2.0)
    assert comparison.ratio("time").paired
    with pytest.raises(ValueError, match="energy of Teacher .1. has no ratio .unavailable.: no counter"):
        Comparison(TEACHER, (TEACHER,)).ratio("energy")


def test_a_noisy_time_is_noted_once(make_profiler: MakeProfiler, model: FakeModel) -> None:
    profiler = make_profiler(model, ComputeExecutionTime())
    profiler.load_from_dict({"execution_time": Measurement((1.0, 3.0, 2.0, 2.0, 3.0, 1.0), precision=0.02)})
    assert profiler.report().notes == ("Execution Time: noisy: the median is precise to ±50.0%, ±2.0% was requested",)


def test_the_layer_table_as_data(model: FakeModel, make_profiler: MakeProfiler) -> None:
    table = make_profiler(model, ComputeComplexity()).compute_status("layerwise_data")
    assert [row["path"] for row in table.top(5, by="params")] == ["second", "first"]
    assert [row["path"] for row in table.top(5, depth=0)] == [""]
    with pytest.raises(KeyError, match="no layer 'secnd'; the nearest are: second, first\"$"):  # not the model, ""
        table["secnd"]
    frame = table.to_pandas()
    assert list(frame["macs"]) == [300, 100, 200]
    assert repr(table).startswith("LayerTable, 3 rows\n")
    assert [row["path"] for row in table[1:].top(1)] == ["second"]
    assert table == copy.deepcopy(table)
    assert table != list(table)


def test_reports_survive_pickling_and_copying(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeComplexity())
    profiler.compute_network_status()
    made = profiler.report()
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    with pytest.raises(UnknownStatusError) as caught:
        made["mac"]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas\(\) needs pandas; install profilerkit\[pandas\]"):
        LayerTable([]).to_pandas()


def test_what_must_be_said_of_a_value_is_said_with_its_name() -> None:
    outcome = Outcome.of(Noted(Partial(5, ("something",)), "of half of it"))
    assert (outcome.value, outcome.completeness, outcome.note) == (5, Completeness.PARTIAL, "of half of it")

    class Half(Metric):
        NAME = "half"

    record = StatusRecord.of(Half().with_outcome(outcome))
    assert record.note == "of half of it"


def test_what_holds_for_all_reports_is_said_once_and_the_rest_by_name() -> None:
    both, alone = "times are noisy", "counted in a real run"
    reports = replace(TEACHER, notes=(both,)), replace(STUDENT, notes=(both, alone))
    text = to_text(result_table(Comparison(reports[0], (reports[1],))), width=120)
    assert text.count("Times are noisy") == 1
    assert f"{STUDENT.name}: {alone}" in text


def test_measured_layers_are_shown_below_the_table() -> None:
    rows = LayerTable(
        [
            {"path": "", "type": "Net", "depth": 0, "calls": 1, "forward_seconds": 0.25, "backward_seconds": None},
            {"path": "a.b", "type": "Dense", "depth": 2, "calls": 3, "forward_seconds": 0.002, "backward_seconds": 0.5},
        ]
    )
    timed = report("Timed", record("layer_times", rows, "2 layers"))
    lines = [line.split() for line in to_text(result_table(timed, details=True), width=80).splitlines()]
    assert ["Layer", "Type", "Calls", "Forward", "Backward"] in lines
    assert ["(model)", "Net", "1", "250", "ms", "-"] in lines
    assert ["b", "Dense", "3", "2", "ms", "500", "ms"] in lines


def test_layers_that_were_asked_for_are_in_the_report(make_profiler: MakeProfiler, model: FakeModel) -> None:
    profiler = make_profiler(model, ComputeComplexity())
    profiler.compute(["layerwise_data", "layerwise_summary"])
    shown = profiler.report(["layerwise_data", "layerwise_summary"])
    assert [row["path"] for row in shown["layerwise_data"]] == ["", "first", "second"]
    assert "second" in shown["layerwise_summary"]
    assert "layerwise_data" in shown
    assert to_text(result_table(shown), width=100).count("second") == 1
    assert not profiler.report().data


def test_layers_that_could_not_be_had_are_said(make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(FakeModel(), ComputeComplexity(), inputs=None)
    profiler.compute(["layerwise_data"])
    shown = profiler.report(["layerwise_data"])
    assert shown["layerwise_data"] is None, "as a metric that failed"
    assert "not shown here" not in str(shown)
    assert parse(to_json(shown).encode(), "a file")["layerwise_data"] is None
    assert any(note.startswith("layerwise_data failed: there is nothing to run the model with") for note in shown.notes)


def test_data_that_no_text_shows_is_named_and_so_is_what_it_lacks(make_profiler: MakeProfiler) -> None:
    class Kinds(StatusKey):
        """How many layers there are of each type."""

        NAME = "kinds"

    class ComputeKinds(ProfilerFunction):
        KEYS = (Kinds,)

        def __call__(self, given: Any) -> Any:
            return given() if callable(given) else given

    def ask(given: Any) -> Report:
        profiler = make_profiler(FakeModel([FakeLayer("only")]), ComputeKinds())
        profiler.compute(["kinds"], given=given)
        return profiler.report(["kinds"])

    partial = ask({"kinds": Partial({"Linear": 2}, ("half of them",))})
    assert partial["kinds"] == {"Linear": 2}
    assert "kinds partial: half of them" in partial.notes
    text = to_text(result_table(partial, details=True), width=100)
    assert "Not shown here: kinds; report[...] has it, and --format json" in text
    assert "Metrics" not in text, "there are none to describe"

    def fail() -> Any:
        raise KeyError("x")

    line = fail.__code__.co_firstlineno + 1
    assert f"kinds failed: KeyError: 'x'; raised at line {line} of {__name__}" in ask(fail).notes


def test_whole_numbers_stay_whole_in_json_and_what_it_cannot_write_is_marked() -> None:
    numbers = report("n", record("big", np.int64(2**60 + 1), "big"), record("odd", float("nan"), "nan"))
    values = {status["key"]: status["value"] for status in json.loads(json.dumps(numbers.to_dict()))["statuses"]}
    assert values == {"big": 2**60 + 1, "odd": {"type": "float", "value": "nan"}}
