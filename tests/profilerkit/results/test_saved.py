"""Reports in files: what comes back, what earlier versions wrote, and what is said of files that are damaged."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import full_report
from hypothesis import given, settings
from hypothesis import strategies as st

import profilerkit
from profilerkit import (
    Comparative,
    Comparison,
    Completeness,
    Measurement,
    Profiler,
    Report,
    ReportFileError,
    Scale,
    compare,
    load,
    profile,
)
from profilerkit.builtin import profilerkit_renderers
from profilerkit.render import render
from profilerkit.results.json_values import from_plain, to_plain
from profilerkit.results.report import StatusRecord
from profilerkit.results.saving import parse, to_json
from profilerkit.testing import FakeBackend, FakeModel, FakeTensor
from profilerkit.trace.records import LayerTable, MemoryTimeline
from profilerkit.trace.table import Table


@pytest.fixture
def report(model: FakeModel) -> Report:
    return profile(model, FakeTensor((2, 3)), name="Mine", backend=FakeBackend(), num_iters=8, warmup=2)


@pytest.fixture
def comparison(model: FakeModel) -> Comparison:
    return compare(
        model, model, inputs=FakeTensor((2, 3)), backend=FakeBackend(), names=["A", "B"], num_iters=8, warmup=2
    )


def test_a_report_comes_back_as_it_was(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    back = Report.load(tmp_path / "report.json")
    assert str(back) == str(report)
    assert back.to_text(details=True) == report.to_text(details=True)
    time, loaded = report["execution_time"], back["execution_time"]
    assert (loaded.samples, loaded.warmup, loaded.median) == (time.samples, time.warmup, time.median)
    timed = ("execution_time", "throughput")
    without_times = {key: record for key, record in report.statuses.items() if key not in timed}
    assert {key: record for key, record in back.statuses.items() if key not in timed} == without_times
    for name in ("layers", "operators", "memory", "notes", "environment", "arguments", "created", "fingerprint"):
        assert getattr(back, name) == getattr(report, name), name
    assert back.arguments == {"num_iters": "8", "warmup": "2"}
    assert profilerkit.load(tmp_path / "report.json") == back


def test_a_saved_file_is_as_any_new_file_is(report: Report, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    report.save(tmp_path / "report.json")
    assert (tmp_path / "report.json").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "report.json"]


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("a.html", "<!doctype html>"),
        ("a.md", "### "),
        ("a.csv", "model,"),
        ("a.json", "{"),
        ("a", "{"),
    ],
)
def test_the_suffix_says_the_form(report: Report, tmp_path: Path, name: str, beginning: str) -> None:
    report.save(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").lower().startswith(beginning)


def test_where_it_cannot_be_saved_the_error_names_the_file(report: Report, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        report.save(tmp_path / "absent" / "report.json")
    assert caught.value.filename == str(tmp_path / "absent" / "report.json")


def test_what_a_trace_found_is_in_the_report(report: Report) -> None:
    assert report.operators is not None
    assert report.memory is not None
    assert sum(row["macs"] for row in report.operators) == report["macs"]
    assert [row["live_bytes"] for row in report.operators] == list(report.memory.live_bytes)


def test_the_samples_of_a_comparison_stay_pairs(comparison: Comparison, tmp_path: Path) -> None:
    comparison.save(tmp_path / "both.json")
    back = Comparison.load(tmp_path / "both.json")
    assert comparison.ratio("execution_time").paired
    assert back.ratio("execution_time") == comparison.ratio("execution_time")
    assert str(back) == str(comparison)
    assert [one.name for one in back.reports] == ["A", "B"]


def test_samples_of_different_sessions_never_pair_up(comparison: Comparison, model: FakeModel, tmp_path: Path) -> None:
    """A file may come from another process, whose sessions are counted from 1 as ours are."""
    comparison.save(tmp_path / "both.json")
    back = Comparison.load(tmp_path / "both.json")
    live = profile(model, FakeTensor((2, 3)), backend=FakeBackend(), num_iters=8, warmup=2)
    mixed = replace(live.statuses["execution_time"], value=replace(live["execution_time"], session=1))
    assert (
        not Comparison(back.reference, (replace(live, statuses={"execution_time": mixed}),))
        .ratio("execution_time")
        .paired
    )
    later = {one["value"]["session"] for one in json.loads(to_json(comparison))["reports"][0]["statuses"][-2:]}
    assert len(later) == 1
    assert not any(session.isdigit() for session in later)


def written(result: Report | Comparison) -> Any:
    return json.loads(to_json(result))


def said(content: bytes) -> str:
    with pytest.raises(ReportFileError) as caught:
        parse(content, "it.json")
    return str(caught.value)


def reseal(content: Any) -> bytes:
    """Return a file whose checksum fits: what is wrong in it must be found by itself."""
    from profilerkit.results.saving import compute_checksum

    rest = {key: value for key, value in content.items() if key != "checksum"}
    return json.dumps({**rest, "checksum": compute_checksum(rest)}).encode()


def test_a_file_that_was_cut_off_is_said(report: Report) -> None:
    content = to_json(report).encode()
    assert said(content[: content.index(b":") + 1]) == (
        "it.json is not a report of profilerkit: Input data was truncated; was it cut off?"
    )
    assert "was it cut off" in said(b"")
    assert said(b"# Title\n").endswith("JSON is malformed: invalid character (byte 0)")
    assert said(b"[1, 2]") == "it.json is not a report of profilerkit, or damaged: it holds a list, no report"


def test_a_count_beyond_floats_is_drawn_and_read_back(report: Report) -> None:
    huge = replace(report.statuses["macs"], value=10**400 + 1)
    changed = replace(report, statuses={**report.statuses, "macs": huge})
    back = parse(to_json(changed).encode(), "it.json")
    assert back["macs"] == 10**400 + 1
    for info in profilerkit_renderers():
        if info.is_text:
            assert render(back, info.name)


@pytest.mark.parametrize("column", ["throughput", "memory_footprint"])
def test_a_number_beyond_floats_in_a_sweep_is_said(column: str) -> None:
    content = written(full_report())
    place = next(index for index, status in enumerate(content["statuses"]) if status["key"] == "batch_sweep")
    sweep = content["statuses"][place]["value"]["rows"]
    rows = sweep["rows"] if isinstance(sweep, dict) else sweep
    rows[1][column] = 10**400
    assert f"statuses[{place}].value.rows[1].{column}: " in said(reseal(content))


def test_a_file_that_was_changed_is_said(report: Report) -> None:
    content = written(report)
    content["statuses"][0]["value"] += 1
    assert "checksum does not fit the content: the file was changed" in said(json.dumps(content).encode())
    del content["checksum"]
    assert "checksum" in said(json.dumps(content).encode())


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "number for text": (lambda c: c["statuses"][1].update(key=3), "statuses[1].key: expected `str`, got `int`"),
    "unknown word": (lambda c: c["statuses"][0].update(completeness="whole"), "statuses[0].completeness: invalid enum"),
    "field missing": (lambda c: c["statuses"][0].pop("shown"), "statuses[0]: object missing required field `shown`"),
    "field unknown": (lambda c: c.update(colour="red"), "colour is unknown; it can have name, backend"),
    "complete without value": (
        lambda c: c["statuses"][0].update(value=None),
        "statuses[0].value is None where completeness is complete",
    ),
    "unavailable with value": (
        lambda c: c["statuses"][0].update(completeness="unavailable"),
        "statuses[0].value is 30 where completeness is unavailable",
    ),
    "without a meaning and complete": (
        lambda c: c["statuses"][0].update(is_applicable=False),
        "statuses[0].is_applicable is false where completeness is complete",
    ),
    "unknown type": (
        lambda c: c["statuses"][0].update(value={"type": "tensor"}),
        "statuses[0].value.type is 'tensor'; it can be 'measurement', 'table'",
    ),
    "short row": (lambda c: c["layers"]["rows"][1].pop(), "layers.rows[1] has not one value for each of the"),
    "no table": (
        lambda c: c.update(layers={"type": "tuple", "items": []}),
        "layers: expected `LayerTable`, got `tuple`",
    ),
    "negative batch": (lambda c: c.update(batch_size=-1), "batch_size: expected `int` >= 0"),
    "cores beyond 64 bits": (
        lambda c: c["statuses"][-2]["value"]["conditions"].update(cores=10**400),
        "conditions.cores",
    ),
    "a column twice": (
        lambda c: c["operators"]["columns"].__setitem__(1, c["operators"]["columns"][0]),
        "each has a name of its own",
    ),
    "other format": (
        lambda c: c.update(format="csv"),
        "format is 'csv'; that of a report is 'profilerkit.report'",
    ),
    "no such schema": (lambda c: c.update(schema=0), "schema is 0, which there never was"),
    "true for a schema": (lambda c: c.update(schema=True), "schema is True, which there never was"),
    "newer schema": (
        lambda c: c.update(schema=99, profilerkit="9.0"),
        "schema is 99, written by profilerkit 9.0; this profilerkit reads up to 1: upgrade it",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_field_that_is_wrong_is_named(name: str, report: Report) -> None:
    change, expected = CHANGES[name]
    content = written(report)
    change(content)
    assert expected in said(reseal(content))


def find_table(content: Any, name: str) -> tuple[Any, str]:
    """Return a table of a report's content, and its place in messages."""
    if name in content:
        return content[name], name
    place = next(index for index, status in enumerate(content["statuses"]) if status["key"] == name)
    return content["statuses"][place]["value"], f"statuses[{place}].value"


EMPTY_TABLE: dict[str, Any] = {"type": "table", "columns": [], "rows": []}


@pytest.mark.parametrize("wrong", [{}, [[3.5]], 10**400, EMPTY_TABLE], ids=["mapping", "list", "number", "table"])
@pytest.mark.parametrize("name", ["layers", "operators", "operator_table"])
def test_a_cell_of_another_kind_than_its_column_is_named(name: str, wrong: Any) -> None:
    """Whatever the column; only one of mappings takes a mapping."""
    for index, column in enumerate(find_table(written(full_report()), name)[0]["columns"]):
        content = written(full_report())
        table, where = find_table(content, name)
        table["rows"][1][index] = wrong
        if (column, wrong) != ("params_by_dtype", {}):
            assert f"{where}.{column}[1]" in said(reseal(content))


@pytest.mark.parametrize("name", ["layers", "operators"])
def test_a_table_without_a_column_is_refused_or_drawn(name: str) -> None:
    refused = 0
    for index, column in enumerate(written(full_report())[name]["columns"]):
        content = written(full_report())
        content[name]["columns"][index] = "other"
        try:
            back = parse(reseal(content), "it.json")
        except ReportFileError as error:
            assert f"{name}.columns has no {column!r}" in str(error)
            refused += 1
        else:
            assert all(render(back, info.name) for info in profilerkit_renderers() if info.is_text)
    assert refused


@pytest.mark.parametrize("kind", [Table, LayerTable])
@pytest.mark.parametrize("name", ["path", "operator", "type"])
def test_a_table_of_a_plugin_has_cells_of_any_kind(name: str, kind: type[Table], report: Report) -> None:
    """Its columns are its own, also one that is called as a column of layers or operators is."""
    rest = {"calls": "many", "depth": 7, "node": 3, "cache_share": "half"}
    table = kind([{name: ("a",), **rest}, {name: 3, **rest}])
    record = StatusRecord("mine", "mine", "What it is.", table, "", "", Comparative.NONE, Completeness.COMPLETE)
    changed = replace(report, data={"further": table}, statuses={**report.statuses, "mine": record})
    back = parse(to_json(changed).encode(), "it.json")
    assert back["further"] == back["mine"] == table


@pytest.mark.parametrize("column", ["last_call", "bytes", "fallback_share", "cache_low", "node_seconds"])
@pytest.mark.parametrize("value", ["aten.mm", True, ("a", 3)])
def test_a_column_of_a_plugin_in_a_table_by_layer_has_cells_of_any_kind(
    column: str, value: Any, report: Report
) -> None:
    """Its name may end as a column of numbers does; the file was saved, and could not be loaded."""
    table = LayerTable([{"path": "", "type": "Net", "depth": 0, "is_leaf": True, column: value}])
    back = parse(to_json(replace(report, data={"mine": table})).encode(), "it.json")
    assert back["mine"] == table


SAMPLES: dict[str, tuple[dict[str, Any], str]] = {
    "no samples": ({"samples": []}, ": samples=(): a Measurement needs at least one sample"),
    "text": ({"samples": ["fast"]}, ".samples[0]: expected `float`, got `str`"),
    "truth": ({"samples": [True]}, ".samples[0]: expected `float`, got `bool`"),
    "no list": ({"samples": 3}, ".samples: expected `array`, got `int`"),
    "certain": ({"confidence": 1.5}, ": confidence=1.5: give a probability between 0 and 1"),
    "number for a session": ({"session": 4}, ".session is 4"),
    "a machine in words": ({"conditions": "quiet"}, ".conditions: expected `object`, got `str`"),
    "a machine without seconds": (
        {"conditions": {"cpu_seconds": 1.0, "process": ""}},
        ".conditions: object missing required field `wall_seconds`",
    ),
    "a machine of text": (
        {"conditions": {"wall_seconds": 1.0, "cpu_seconds": 1.0, "process": "", "cores": "two"}},
        ".conditions.cores: expected `int | null`, got `str`",
    ),
    "a machine of more": (
        {"conditions": {"wall_seconds": 1.0, "cpu_seconds": 1.0, "process": "", "weather": 1}},
        ".conditions.weather is unknown; it can have wall_seconds, cpu_seconds",
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_measurement_that_cannot_be_is_named(name: str, report: Report) -> None:
    change, expected = SAMPLES[name]
    content = written(report)
    place, status = next((i, s) for i, s in enumerate(content["statuses"]) if s["key"] == "execution_time")
    status["value"].update(change)
    assert f"statuses[{place}].value{expected}" in said(reseal(content))


def test_keys_of_a_mapping_that_read_alike_all_come_back(report: Report) -> None:
    counts = replace(report.status("macs"), value={1: 10, "1": 20, 2: 30})
    content = json.dumps(replace(report, statuses={"macs": counts}).to_dict()).encode()
    assert parse(content, "it.json")["macs"] == {"1 (int)": 10, "1": 20, "2": 30}


def test_no_entry_is_lost_whatever_the_keys_read_like() -> None:
    """The text of one key may be what another key is written as."""
    for keys in ((1, "1", "1 (int)"), (True, "True", "True (bool)", "True (bool) (1)")):
        assert sorted(to_plain(dict(zip(keys, "abcd", strict=False))).values()) == list("abcd"[: len(keys)])


def test_a_comparison_needs_two_reports(comparison: Comparison) -> None:
    content = written(comparison)
    content["reports"].pop()
    assert "reports: a comparison holds two reports or more" in said(reseal(content))
    content = written(comparison)
    content["reports"][1]["name"] = None
    assert "reports[1].name: expected `str`, got `null`" in said(reseal(content))


def test_a_report_is_not_taken_for_a_comparison(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    with pytest.raises(ReportFileError, match=r"holds a Report, not a Comparison; read it with Report\.load"):
        Comparison.load(tmp_path / "report.json")
    with pytest.raises(ReportFileError, match=r"cannot read .*nowhere\.json: No such file"):
        load(tmp_path / "nowhere.json")


def test_a_report_that_cannot_be_written_leaves_the_file_that_was_there(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("mine", encoding="utf-8")
    spoilt = replace(report, notes=(object(),))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        spoilt.save(path)
    assert path.read_text(encoding="utf-8") == "mine"
    assert [found.name for found in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize("kind", ["report", "comparison"])
def test_damaged_bytes_are_an_error_and_never_another_number(kind: str, request: pytest.FixtureRequest) -> None:
    """A thousand damaged files: cut, overwritten, doubled, parts swapped; each is refused, or says what it said."""
    original = request.getfixturevalue(kind)
    content = to_json(original).encode()
    whole, chance = str(original), random.Random(7)
    refused = 0
    for _ in range(500):
        start, length = chance.randrange(len(content)), chance.choice((1, 1, 1, 8, 200))
        piece = bytes(chance.randrange(32, 127) for _ in range(length))
        damaged = chance.choice(
            (
                content[:start],
                content[:start] + piece + content[start + length :],
                content[:start] + content[start + length :],
                content[:start] + content[start : start + length] + content[start:],
                content[start:] + content[:start],
            )
        )
        try:
            assert str(parse(damaged, "it")) == whole
        except ReportFileError:
            refused += 1
    assert refused > 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["type", "format", "schema", "reports", "a"]), inner)
    ),
)


@pytest.mark.slow
@given(JSON)
def test_any_json_is_refused_in_words(value: Any) -> None:
    message = said(json.dumps(value).encode())
    assert message.startswith("it is no report") or "it.json" in message


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=40)
@given(PLAIN)
def test_plain_values_come_back(value: Any) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False))) == value


VALUES: tuple[Any, ...] = (
    math.inf,
    -math.inf,
    2**80,
    {"type": "measurement"},
    Measurement((1.0, 2.0, 3.0), warmup=(math.inf,), precision=0.02),
    Table([{"operator": "mm", "shape": ((1, 2), (3,)), "macs": None}]),
    LayerTable([{"path": "", "type": "Net", "depth": 0, "is_leaf": True, "macs": 3}]),
    LayerTable([]),
    LayerTable([{"path": "", "type": "Net", "depth": 0, "macs": 3, "own_macs": 3}]).by_type(),
    Table([{"path": 3, "gained_macs": -1.5, "type": None, "seconds": "a"}]),
    ((1, (2,)), "x"),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_other_values_come_back(value: Any) -> None:
    back = from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)))
    assert back == value
    assert type(back) is type(value)


def test_what_has_no_plain_form_is_its_text() -> None:
    assert to_plain(object) == "<class 'object'>"
    assert to_plain(np.float32(0.5)) == 0.5
    assert math.isnan(from_plain(to_plain(np.float64("nan"))))
    assert to_plain({1: np.int8(3)}) == {"1": 3}
    assert to_plain(np.bool_(True)) is True


def test_unusual_reports_come_back() -> None:
    """Names with anything in them, values that are no numbers, nothing traced."""
    odd = StatusRecord(
        *("odd", "<b>|&\n\x00", "", math.nan, "nan", "", Comparative.NONE, Completeness.PARTIAL, ("x\x00",)),
        scale=Scale.IEC,
    )
    memory = MemoryTimeline(1, 2, (3,), "note", {"op": 1})
    plain = Report("a\nb\u2028", "fake", "m.M", {"odd": odd}, memory=memory)
    back = parse(to_json(plain).encode(), "it")
    assert isinstance(back, Report)
    assert math.isnan(back["odd"])
    assert replace(back, statuses={}) == replace(plain, statuses={})
    assert back.status("odd").friendly_name == odd.friendly_name
    assert to_json(back) == to_json(plain)


def test_half_a_surrogate_pair_is_written_as_a_question_mark() -> None:
    back = parse(to_json(Report("a\ud800", "fake", "m.M", {})).encode(), "it")
    assert back == Report("a?", "fake", "m.M", {})


def test_frames_of_a_report(report: Report, model: FakeModel) -> None:
    pytest.importorskip("pandas")
    layers, operators, iterations = (report.to_pandas(name) for name in ("layers", "operators", "iterations"))
    assert list(layers["path"]) == ["", "first", "second"]
    assert report.to_pandas().equals(layers)
    assert operators["macs"].sum() == report["macs"]
    times = iterations[(iterations["metric"] == "execution_time") & ~iterations["warmup"]]
    assert tuple(times["value"]) == report["execution_time"].samples
    assert len(iterations[iterations["warmup"]]) == 2 * 2  # of the time and of the throughput
    with pytest.raises(ValueError, match="no table 'layer' in a report; it has 'layers', 'operators', 'iterations'"):
        report.to_pandas("layer")  # type: ignore[arg-type]
    untraced = Profiler(model, backend=FakeBackend(), inputs=FakeTensor((2, 3))).report()
    with pytest.raises(ValueError, match="holds no layers: the model was not traced"):
        untraced.to_pandas()
