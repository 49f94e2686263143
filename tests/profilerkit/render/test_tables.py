"""Tables print themselves: as text, in a notebook and to files; short reports; forms of other profilers."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from drawn_reports import STUDENT, TEACHER

from profilerkit import Comparative, Completeness, Measurement, Report
from profilerkit.errors import ArgumentError
from profilerkit.render import render
from profilerkit.render.ranks import describe_first_row
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import StatusRecord
from profilerkit.times.operator_times import (
    KernelTime,
    OperatorTime,
    OperatorTimes,
    OperatorTimeTable,
    Work,
)
from profilerkit.times.operator_totals import operator_totals
from profilerkit.trace.records import LayerTable, ModelTrace, OpRecord
from profilerkit.trace.table import Table


def layer(path: str, kind: str, depth: int, seconds: float, is_leaf: bool = True, macs: int = 0) -> dict[str, Any]:
    times = {"forward_seconds": seconds, "own_forward_seconds": seconds if is_leaf else 0.0}
    counts = {"macs": macs, "own_macs": macs if is_leaf else 0}
    return {"path": path, "type": kind, "depth": depth, "is_leaf": is_leaf, "calls": 1, **times, **counts}


#: A root with thirty layers; the slowest is layer 29, with 29 ms.
MANY = LayerTable(
    [
        layer("", "Net", 0, 0.435, is_leaf=False, macs=435),
        *(layer(f"l{number}", "Conv", 1, number / 1000, macs=number) for number in range(30)),
    ]
)


def test_statistics_print_in_the_unit_of_their_column() -> None:
    """Samples of 3 and 7 ms: median 5, deviation the root of (4 + 4) / 1 = 2.828; noise of zeros is no number."""
    facts = {"path": "a", "type": "Conv", "samples": 2}
    table = Table(
        [
            {**facts, "column": "own_forward_seconds", "median": 0.005, "std": 0.002828, "noise": 0.4},
            {**facts, "column": "backward_seconds", "median": 0.0, "std": 0.0, "noise": float("inf")},
        ]
    )
    first, second = [" ".join(line.split()) for line in table.to_text().splitlines() if line.startswith(" a")]
    assert first == "a Conv 2 Own forward time 5 ms 2.828 ms 40.0 %"
    assert second == "a Conv 2 Backward time 0 s 0 s -"


def record(key: str, value: object, shown: str = "1", **facts: Any) -> StatusRecord:
    facts = {"comparative": Comparative.RECIPROCAL, "completeness": Completeness.COMPLETE, "unit": "", **facts}
    return StatusRecord(key, key.replace("_", " ").title(), "", value, shown, **facts)


def report(*records: StatusRecord, name: str = "Net", **facts: Any) -> Report:
    return Report(name, "fake", "module.Model", {one_record.key: one_record for one_record in records}, **facts)


def body(text: str) -> list[str]:
    """Return the rows of the first table in a text."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if "───" in line) + 1
    return lines[start : next((index for index in range(start, len(lines)) if not lines[index].strip()), len(lines))]


def test_a_long_table_prints_ten_rows_the_slowest_first() -> None:
    for text in (str(MANY), repr(MANY), MANY.to_text()):
        assert text.splitlines()[0] == "LayerTable, the 10 of 31 with the most own forward time"
        assert [row.split()[0] for row in body(text)] == [f"l{number}" for number in range(29, 19, -1)]
    assert len(body(MANY.to_text(top=3))) == 3
    assert len(body(MANY.to_text(top=None))) == 31
    assert len(body(MANY.to_text(depth=0))) == 1
    assert len(body(MANY.to_text(top=None, depth=-1))) == 31


def test_a_short_table_prints_whole_in_its_order() -> None:
    text = Table(
        [{"operator": "mm", "macs": 8_000, "note": None}, {"operator": "add", "macs": 0, "note": None}]
    ).to_text()
    assert text.splitlines()[0] == "Table, 2 rows"
    assert [row.split() for row in body(text)] == [["mm", "8", "k"], ["add", "0"]]
    assert "ote" not in text, "a column without a value"
    assert str(Table([])) == "Table, 0 rows"


def test_a_table_in_a_notebook_is_escaped() -> None:
    html = LayerTable([layer("<b>", "Conv", 1, 0.5)])._repr_html_()
    assert html is not None
    assert html.startswith("<table") and "&lt;b&gt;" in html and "<b>" not in html


def test_tables_are_written_in_the_form_of_a_suffix(tmp_path: Path) -> None:
    for suffix in ("csv", "json", "txt", "md"):
        MANY.save(tmp_path / f"table.{suffix}")
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 32
    assert json.loads((tmp_path / "table.json").read_text())[30]["own_forward_seconds"] == 0.029
    assert len(body((tmp_path / "table.txt").read_text())) == 31
    assert (tmp_path / "table.md").read_text().count("&emsp;l") == 30
    with pytest.raises(
        ArgumentError, match=r"a table is written as .csv, .json, .txt, .md; give one of these suffixes"
    ):
        MANY.save(tmp_path / "table.xls")


def test_a_report_stays_short_whatever_was_measured() -> None:
    full = report(record("layer_times", MANY, "31 layers"), record("training_layers", MANY, "31 layers"))
    text = " ".join(str(full).split())
    assert len(str(full).splitlines()) < 25
    assert (
        "Layer Times, Training Layers" in text or "Layer Times: the slowest of 31 layers is l29 (Conv), 29 ms" in text
    )
    assert "--layers" in text
    assert len(body(render(full, top=4).partition("Layer Times")[2])) >= 1
    detailed = full.to_text(details=True)
    assert detailed.count("the 10 of 31 with the most own forward time") == 2
    assert render(full, top=4).count("the 4 of 31 with the most own forward time") == 2
    assert render(full, depth=0).count("(model)") == 2


def test_types_that_cost_most_at_each_depth() -> None:
    rows = list(MANY.by_depth(k=1))
    assert [(row["depth"], row["by"], row["type"], row["value"]) for row in rows] == [
        (0, "forward_seconds", "Net", 0.435),
        (0, "macs", "Net", 435),
        (1, "forward_seconds", "Conv", pytest.approx(0.435)),
        (1, "macs", "Conv", 435),
    ]
    assert MANY.by_depth(depth=9) == MANY.by_depth(depth=-1) == MANY.by_depth()
    assert {row["depth"] for row in MANY.by_depth(depth=0)} == {0}


def test_a_share_at_a_depth_is_of_the_whole_model() -> None:
    """The model has 60 MACs, 40 of its own: at depth 1 its one layer has a third, as in a tree, and not all."""
    root = {**layer("", "Net", 0, 0.0, is_leaf=False, macs=60), "own_macs": 40}
    table = LayerTable([root, layer("inner", "Conv", 1, 0.0, macs=20)])
    assert {row["type"]: row["share"] for row in table.by_depth()} == {"Net": 1.0, "Conv": pytest.approx(1 / 3)}
    assert [row["share"] for row in LayerTable([table["inner"]]).by_depth()] == [None]


def test_minus_one_is_the_innermost_and_too_deep_is_the_deepest() -> None:
    assert MANY.top(2, depth=-1) == MANY.top(2) == MANY.top(2, depth=1) == MANY.top(2, depth=50)
    assert [row["type"] for row in MANY.by_type(depth=-1)] == ["Conv"]
    times = LayerTable({name: value for name, value in row.items() if "macs" not in name} for row in MANY)
    assert [row["path"] for row in times.top(1)] == ["l29"], "a table of times is ranked by own time"


def make_timed(operator: str, layer: str, seconds: float, own: float) -> OperatorTime:
    kernels = (KernelTime(operator, 2, (own,)), KernelTime("inner", 2, (seconds - own,)))
    return OperatorTime(operator, layer, "forward", 2, (seconds,), kernels)


OPERATORS = OperatorTimeTable(
    OperatorTimes(
        (make_timed("conv", "a", 4.0, 1.0), make_timed("conv", "b", 2.0, 0.5), make_timed("add", "b", 2.0, 2.0)),
        {"forward": (8.0,)},
    ),
    [Work(10, 20), Work(5, 10), Work(None, None, "unknown")],
    {},
)


def test_operators_summed_by_name_with_self_time_average_and_calls() -> None:
    conv, add = operator_totals(OPERATORS)
    assert (conv["operator"], conv["calls"], conv["seconds"], conv["own_seconds"]) == ("conv", 4, 6.0, 1.5)
    assert (conv["average_seconds"], conv["share"], conv["macs"], conv["flops"]) == (1.5, 0.75, 15, 30)
    assert (add["own_seconds"], add["average_seconds"], add["macs"]) == (2.0, 1.0, None)


def test_an_operator_that_is_not_counted_has_no_counts_in_the_sums() -> None:
    """Its row in a trace says so, and zero MACs would be taken for a count; its bytes are known."""
    product = OpRecord("mm", "a", 0, 6, 12, 8, 4, ())
    unknown = OpRecord("custom", "b", 0, 0, 0, 16, 2, (), missing="my::custom")
    trace = ModelTrace((), (product, unknown, unknown))
    assert [row["missing"] for row in trace.operator_table] == ["", *["not counted: my::custom"] * 2]
    assert "missing" not in ModelTrace((), (product,)).operator_table.columns
    assert [line.split()[3:5] for line in body(str(trace.operator_table))] == [["6", "12"], ["-", "-"], ["-", "-"]]
    counted, missing = operator_totals(trace.operator_table)
    assert (counted["macs"], counted["flops"], counted["bytes_read"]) == (6, 12, 8)
    assert (missing["calls"], missing["macs"], missing["flops"], missing["bytes_read"]) == (2, None, None, 32)


def test_the_forms_of_aggregates() -> None:
    full = report(
        record("operator_table", OPERATORS, "2 operators"), record("layer_times", MANY, "31 layers"), layers=MANY
    )
    assert [row.split()[0] for row in body(render(full, "operators"))] == ["conv", "add"]
    assert len(body(render(full, "operators", top=1))) == 1
    assert "MACs" in render(full, "depths", depth=0) and "Conv" not in render(full, "depths", depth=0)
    nothing = report(record("macs", 1))
    assert "no layers" in render(nothing, "depths") and "no operators" in render(nothing, "operators")


def test_the_tree_shows_flops_shapes_and_on_request_the_configuration() -> None:
    facts = {"flops": 20, "input_shapes": ((1, 3),), "output_shapes": ((1, 4),), "configuration": "in_features=3"}
    rows = LayerTable(
        [{**layer("", "Net", 0, 0.1, is_leaf=False), **facts}, {**layer("fc", "Linear", 1, 0.1), **facts}]
    )
    tree = render(report(layers=rows), "tree")
    assert "fc: Linear" in tree and "[1, 3] -> [1, 4]" in tree and "20 FLOPs" in tree and "in_features" not in tree
    assert "fc: Linear(in_features=3)" in render(report(layers=rows), "tree", configuration=True)


def test_a_container_with_time_is_not_called_uncalled() -> None:
    idle = {**layer("idle", "Conv", 1, 0.0), "calls": 0}
    rows = LayerTable(
        [layer("", "Net", 0, 1.0, is_leaf=False), {**layer("blocks", "ModuleList", 1, 1.0), "calls": 0}, idle]
    )
    lines = {line.split(":")[0].split()[-1]: line for line in render(report(layers=rows), "tree").splitlines()[2:]}
    assert "not called" not in lines["blocks"]
    assert "not called" in lines["idle"]


def made(name: str, hour: int, cpu: str = "A", value: object = None, **facts: str) -> Report:
    created = datetime(2026, 1, 2, hour, tzinfo=UTC).isoformat()
    time = record("time", Measurement((1.0, 1.0)) if value is None else value)
    return report(time, name=name, created=created, environment={"cpu": cpu, **facts})


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            made("B", 20),
            "The times were taken at different times, so that they compare with care (A: 2026-01-02 01:00; ",
        ),
        (
            made("B", 1, "C"),
            "taken on different machines, so that they compare with care (A: 2026-01-02 01:00, cpu A; B:",
        ),
        (made("B", 20, "C"), "taken at different times and on different machines, so that"),
        (made("B", 1), None),
        (made("B", 20, "C", value=7), None),
        (made("B", 1, devices="cpu"), None),
    ],
)
def test_a_saved_report_beside_a_live_one_says_when_and_where(other: Report, words: str | None) -> None:
    text = " ".join(str(Comparison(made("A", 1), (other,))).split())
    assert words in text if words else "compare with care" not in text


def test_devices_are_told_apart_within_a_framework() -> None:
    """Each framework names the devices of one machine in its own words."""
    first, second = made("A", 1, devices="/device:CPU:0"), made("B", 1, devices="cpu")
    same_framework = str(Comparison(first, (second,)))
    assert "on different machines" in " ".join(same_framework.split())
    assert "compare with care" not in str(Comparison(first, (replace(second, backend="jax"),)))
    on_gpu = Comparison(made("A", 1, device="cpu"), (made("B", 1, device="cuda:0"),))
    assert "on different devices, so that" in " ".join(str(on_gpu).split())


@pytest.mark.parametrize("depth", [None, -1, 1, 9])
def test_the_layers_that_differ_most_at_any_depth(depth: int | None) -> None:
    """-1 is the innermost layers, and a depth beyond the deepest is that of the deepest."""
    text = Comparison(TEACHER, (STUDENT,)).to_text(depth=depth, top=1)
    rows = [line.split()[0] for line in text.splitlines() if "Linear" in line]
    assert rows == ["first"], "128 MACs of it are 32 in the student, and 64 of the second are 16"


@pytest.mark.parametrize(
    ("macs", "high", "written"), [(0, None, "≥ 0 MACs"), (12, None, "≥ 12 MACs"), (12, 12, "12 MACs")]
)
def test_a_bound_has_its_sign_in_trees_and_notes(macs: int, high: int | None, written: str) -> None:
    """Such as a model whose only operator has no formula: nothing said of it would be taken for nothing."""
    row = {"path": "", "type": "Net", "depth": 0, "is_leaf": True, "calls": 1, "params": 0, "macs": macs}
    table = LayerTable([{**row, "macs_low": macs, "macs_high": high}])
    work = {"flops": 8, "flops_low": 8, "flops_high": high and 8, "forward_seconds": 2.0}
    timed = report(layers=LayerTable([{**row, **work}]))
    achieved = "≥ 4 FLOP/s" if high is None else " 4 FLOP/s"
    assert render(timed, "tree").splitlines()[1].endswith(f", {achieved.strip()}")
    assert achieved in render(timed, "table", depth=-1), "8 FLOPs in two seconds, or more"
    share = "" if "≥" in written else " (100.0 %)"
    assert render(report(layers=table), "tree").splitlines()[1] == f"Net  {written}{share}"
    if macs:
        assert describe_first_row(table) == f"the one with the most MACs of 1 layer is Net, {written}"


def test_a_table_without_innermost_layers_ranks_all_of_its_layers() -> None:
    """Twelve layers that hold others, the outer ones of a deeper table: the ten with the most MACs are shown."""
    table = LayerTable(layer(f"l{number}", "Block", 1, 0.0, is_leaf=False, macs=number) for number in range(12))
    drawn = [line.split()[0] for line in table.to_text().splitlines()[3:]]
    assert drawn == [f"l{number}" for number in range(11, 1, -1)]
    assert describe_first_row(table).startswith("the one with the most MACs of 12 layers is l11 (Block)")
