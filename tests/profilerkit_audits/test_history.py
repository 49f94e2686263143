"""Histories, and runs that are over: what moved between two, and which limits one keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace as replace_struct
from stores import begun, count_row, network_report

from profilerkit import ArgumentError, Completeness
from profilerkit.cli import main
from profilerkit.errors import BudgetError
from profilerkit.trace.records import LayerTable
from profilerkit_audits import Store, Value, check_run, diff_runs, history, regressions
from profilerkit_budgets import Budget, Verdict

pytestmark = pytest.mark.heavy


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Three runs: ``net.py:f`` has 48, 48 and 56 MACs; ``net.py:g`` 32 in the first two and fails in the last."""
    with Store.open(tmp_path / "runs.db") as opened:
        for night, width in enumerate([2, 2, 3]):
            run = begun(opened, night, plan={"budgets": {"macs": "<= 50"}})
            f, g = network_report(4, 8, width), None if night == 2 else network_report(4, 8)
            opened.add(count_row(run, night, "net.py:f", f), f)
            opened.add(count_row(run, night, "net.py:g", g), g)
        yield opened


def test_a_history_has_every_measurement_and_marks_what_moved(store: Store) -> None:
    (f,) = history(store, "net.py:f", "macs")
    assert [point.value.value for point in f.points] == [48, 48, 56]
    assert [point.moved for point in f.points] == [None, False, True]
    assert f.points[2].causes == ("commit c1 -> c2",)
    f, g = history(store, "net.py:*", "macs")
    assert [point.value.value for point in g.points] == [32, 32, None]


def test_counts_that_are_equal_in_short_are_written_in_full(store: Store) -> None:
    """100 * 200 + 200 = 20,200 MACs, and 100 * 200 + 201 = 20,201 with one layer more, of 1 * 1."""
    reports = [network_report(100, 200, 1), network_report(100, 200, 1, 1), None]
    for night, report in enumerate(reports, 3):
        store.add(count_row(begun(store, night), night, "net.py:h", report), report)
    (h,) = history(store, "net.py:h", "macs")
    assert [cells[3:5] for cells in h.grid().rows] == [("20,200", ""), ("20,201", "changed"), ("-", "failed")]
    (f,) = history(store, "net.py:f", "macs")
    assert [cells[3] for cells in f.grid().rows] == ["48 MACs", "48 MACs", "56 MACs"]


def test_a_commit_in_short_keeps_the_mark_of_changed_files(store: Store) -> None:
    """Else a row from changed files would have the commit that it differs from."""
    for night, commit in ((3, "c" * 40), (4, f"{'c' * 40}+")):
        report = network_report(4, 8)
        row = count_row(begun(store, night), night, "net.py:h", report, commit=commit)
        store.add(row, report)
    (h,) = history(store, "net.py:h", "macs")
    assert h.points[1].causes == ("commit cccccccccccc -> cccccccccccc+",)
    assert [cells[1] for cells in h.grid().rows] == ["cccccccccc", "cccccccccc+"]


def test_a_model_is_found_by_its_name_though_its_last_row_has_none(store: Store) -> None:
    """A model that could not be built has no report, and so no name."""
    for night, name in ((3, "Dense Net"), (4, "")):
        store.add(count_row(begun(store, night), night, "net.py:k", network_report(4, 8), name=name), None)
    (k,) = history(store, "Dense Net", "macs")
    assert len(k.points) == 2


def test_a_model_or_metric_that_is_not_there_names_the_nearest(store: Store) -> None:
    with pytest.raises(ArgumentError, match="no model 'net.py:ff'; the nearest are: net.py:f, net.py:g"):
        history(store, "net.py:ff", "macs")
    with pytest.raises(ArgumentError, match="has no metric 'mac' in the store; the nearest are: macs"):
        history(store, "net.py:f", "mac")


def test_a_difference_has_each_value_that_moved(store: Store) -> None:
    result = diff_runs(store, "last~1", "last")
    moved = {(change.case.spec, change.metric): change for change in result.changes}
    assert {key for key in moved if key[1] != "memory_footprint"} == {
        ("net.py:f", "macs"),
        ("net.py:f", "total_params"),
        ("net.py:g", "macs"),
    }
    assert moved["net.py:f", "macs"].difference == 8
    assert moved["net.py:f", "macs"].layers[0].endswith("(Dense): +8")
    assert moved["net.py:g", "macs"].verdict == "lost"
    assert moved["net.py:g", "macs"].after.reason == "the process was killed"
    same = diff_runs(store, "run-000", "run-001")
    assert (same.changes, same.same) == ((), 6)


def test_a_case_that_two_entries_of_a_plan_measure_is_one(store: Store) -> None:
    """One entry counts 48 and then 56 MACs, the other measures nothing but parameters: 59 in both runs."""
    for night, width in ((3, 2), (4, 3)):
        run = begun(store, night)
        for name, report in (("macs", network_report(4, 8, width)), ("total_params", network_report(4, 8, 2))):
            only = replace(report, statuses={name: report.statuses[name]})
            store.add(count_row(run, night, "net.py:k", only), only)
    result = diff_runs(store, "last~1", "last")
    moved = [(change.metric, change.difference, change.verdict) for change in result.changes]
    assert moved == [("macs", 8, "worse")], "which the report of the other entry does not tell"
    assert result.same == 1


def test_metrics_that_are_measured_no_more_are_named(store: Store) -> None:
    report = network_report(4, 8)
    for night, names in ((3, list(report.statuses)), (4, ["macs"])):
        only = replace(report, statuses={name: report.statuses[name] for name in names})
        store.add(count_row(begun(store, night), night, "net.py:k", only), only)
    result = diff_runs(store, "last~1", "last")
    assert result.changes == ()
    assert list(result.removed_metrics) == [name for name in report.statuses if name != "macs"]
    assert f"metrics only before: {next(iter(result.removed_metrics))} of net.py:k, " in result.summary()
    assert diff_runs(store, "last", "last~1").removed_metrics == {}


def test_a_metric_that_one_case_of_several_loses_is_named_with_it(store: Store) -> None:
    """The other case has it in both runs, so the run after still has the metric."""
    report = network_report(4, 8)
    for night, lacking in ((3, ""), (4, "net.py:k")):
        run = begun(store, night)
        for spec in ("net.py:j", "net.py:k"):
            names = [name for name in report.statuses if not (spec == lacking and name == "macs")]
            only = replace(report, statuses={name: report.statuses[name] for name in names})
            store.add(count_row(run, night, spec, only), only)
    result = diff_runs(store, "last~1", "last")
    assert {name: list(map(str, cases)) for name, cases in result.removed_metrics.items()} == {"macs": ["net.py:k"]}
    assert "metrics only before: macs of net.py:k" in result.summary()
    assert result.to_dict()["removed_metrics"] == {"macs": ["net.py:k"]}


@pytest.mark.parametrize("kept", [Completeness.FAILED, Completeness.UNAVAILABLE])
def test_a_table_that_is_lost_is_a_change_though_it_is_no_number(kept: Completeness, store: Store) -> None:
    """Of three nights with a table, without and without, it is lost once."""
    report = network_report(4, 8)
    for night, value in enumerate([Value(None), Value(None, "", kept, "gone"), Value(None, "", kept, "gone")], 3):
        row = count_row(begun(store, night), night, "net.py:k", report)
        store.add(replace_struct(row, values={**row.values, "layer_times": value}), report)
    for changes in (diff_runs(store, "last~2", "last").changes, regressions(store, since="last~2").changes):
        (change,) = [change for change in changes if change.case.spec == "net.py:k"]
        assert (change.metric, change.verdict) == ("layer_times", "lost")
        assert change.describe() == f"complete -> {kept.value} (gone)"
    assert diff_runs(store, "last~1", "last").changes == ()


def test_a_count_that_became_partial_has_its_sign(store: Store) -> None:
    """The same 32 MACs, of which not all is counted any more."""
    for night, completeness in ((3, Completeness.COMPLETE), (4, Completeness.PARTIAL)):
        report = network_report(4, 8)
        macs = replace(report.statuses["macs"], completeness=completeness)
        partial = replace(report, statuses={**report.statuses, "macs": macs})
        store.add(count_row(begun(store, night), night, "net.py:k", partial), partial)
    (points,) = history(store, "net.py:k", "macs")
    assert [cells[3:5] for cells in points.grid().rows] == [("32 MACs", ""), ("≥ 32 MACs", "changed")]
    (change,) = [change for change in diff_runs(store, "last~1", "last").changes if change.metric == "macs"]
    assert change.describe() == "32 MACs -> ≥ 32 MACs"


def test_runs_are_named_by_their_beginning(store: Store) -> None:
    assert diff_runs(store, "run-000-m", "run-002").new.run == "run-002-m"
    with pytest.raises(ArgumentError, match="3 runs begin with 'run-'"):
        diff_runs(store, "run-", "last")
    with pytest.raises(ArgumentError, match="there is no run 'x'; the newest are: run-002-m"):
        diff_runs(store, "x", "last")


def test_budgets_over_a_run(store: Store) -> None:
    """56 MACs are over 50, and what failed proves nothing."""
    checked = check_run(store, "last")
    verdicts = {case.spec: findings[0].verdict for case, findings in checked.findings.items()}
    assert verdicts == {"net.py:f": Verdict.FAILED, "net.py:g": Verdict.FAILED}
    assert not check_run(store, "last~1").is_broken()
    f, g = checked.list_failed()
    assert f == "net.py:f: macs <= 50: 56 MACs, 112 % of the limit"
    assert "the process was killed" in g
    suites = ET.fromstring(checked.write("junit"))
    assert [suites.get(name) for name in ("tests", "failures", "skipped")] == ["2", "2", "0"]
    assert "the process was killed" in checked.write("junit")
    markdown = checked.write("markdown")
    assert "### Budget of net.py:f" in markdown
    assert "| FAILED | macs &lt;= 50 | 56 MACs, 112 % of the limit |" in markdown
    assert "2 models, 2 limits: 2 failed" in markdown


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"macs": "<= 5 GiB"}, "macs <= 5 GiB: 'GiB' cannot be read; the unit of macs is MACs"),
        ({"macs": "<= 1.5x"}, "an audit has no baseline for a limit in x"),
        ({"layers": {"*": {"execution_time": "<= 5 ms"}}}, "layers have limits of params, "),
    ],
)
def test_a_limit_that_fits_no_report_is_no_fault_of_the_models(
    store: Store, limits: dict[str, object], said: str
) -> None:
    with pytest.raises(BudgetError, match=said):
        check_run(store, "last", Budget.of(limits))


def test_a_limit_without_a_layer_hides_no_limit_that_is_broken(store: Store) -> None:
    """56 MACs are over 50, whatever else the budget has."""
    checked = check_run(store, "last", Budget.of({"macs": "<= 50", "layers": {"zzz": {"macs": "<= 1"}}}))
    assert checked.is_broken()
    assert "2 models, 4 limits: 4 failed" in checked.write("console")
    lines = list(checked.list_failed())
    assert lines[0] == "net.py:f: macs <= 50: 56 MACs, 112 % of the limit"
    assert lines[-1] == "all models: zzz: macs <= 1: no model of the run has a layer that this matches"


def test_a_limit_without_a_layer_is_not_kept_by_models_of_one_layer(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs.db") as store:
        run, report = begun(store, 0), network_report(4, 8)
        assert report.layers is not None
        report = replace(report, layers=LayerTable(report.layers[:1]))
        store.add(count_row(run, 0, "net.py:f", report), report)
        assert find_exceeded(store, "last", {"layers": {"zzz": {"macs": "<= 1"}}}) == [
            "all models: zzz: macs <= 1: no model of the run has a layer that this matches"
        ]


def find_exceeded(store: Store, run: str, limits: dict[str, object]) -> list[str]:
    """Return a line for each limit that a row of a run does not keep."""
    return list(check_run(store, run, Budget.of(limits)).list_failed())


def test_budgets_are_for_all_rows_of_a_case(store: Store) -> None:
    """One entry of a plan counts 56 MACs, the next one 59 parameters of the same model, and the third one crashes."""
    run, whole = begun(store, 3), network_report(4, 8, 3)
    for name in ("macs", "total_params"):
        only = replace(whole, statuses={name: whole.statuses[name]})
        store.add(count_row(run, 3, "net.py:k", only), only)
    limits = {"macs": "<= 50", "total_params": "<= 100", "flops": "<= 1 G"}
    budget = Budget.of({**limits, "layers": {"*": {"macs": ">= 0"}}})
    (findings,) = check_run(store, "last", budget).findings.values()
    verdicts = [finding.verdict for finding in findings if finding.limit.pattern is None]
    assert verdicts == [Verdict.FAILED, Verdict.PASSED, Verdict.FAILED], "neither row has FLOPs"
    assert findings[0].detail.startswith("56 MACs")
    paths = [finding.subject for finding in findings if finding.limit.pattern is not None]
    assert paths
    assert len(paths) == len(set(paths)), "both rows have the same layers"
    assert len(find_exceeded(store, run, {"macs": "<= 50"})) == 1
    store.add(count_row(run, 3, "net.py:k", None), None)
    (line,) = find_exceeded(store, run, {"total_params": "<= 100"})
    assert line.startswith("net.py:k: total_params <= 100: nothing was computed: ")


def test_a_limit_of_layers_is_not_kept_by_a_model_whose_layers_are_not_known(store: Store) -> None:
    """Its report has no layers; another model of the run has some, so that the limit itself is for something."""
    run, whole = begun(store, 3), network_report(4, 8)
    for spec, report in (("net.py:k", whole), ("net.py:m", replace(whole, layers=None))):
        store.add(count_row(run, 3, spec, report), report)
    (line,) = find_exceeded(store, run, {"layers": {"*": {"macs": ">= 0"}}})
    assert line.startswith("net.py:m: *: macs >= 0: layers '*': macs >= 0: the report of ")
    store.add(count_row(run, 3, "net.py:m", whole), whole)
    assert find_exceeded(store, run, {"layers": {"*": {"macs": ">= 0"}}}) == [], "another row of the case has layers"


def test_each_case_that_does_not_keep_a_limit_is_named(store: Store) -> None:
    run = begun(store, 3)
    for name, batch, width in (("k", 1, 2), ("k", 4, 3), ("m", 1, 3), ("m", 4, 3)):
        report = network_report(4, 8, width)
        store.add(count_row(run, 3, f"net.py:{name}", report, settings={"batch_size": batch}), report)
    assert find_exceeded(store, run, {"macs": "<= 50"}) == [
        "net.py:k (batch_size=4): macs <= 50: 56 MACs, 112 % of the limit",
        "net.py:m (batch_size=1): macs <= 50: 56 MACs, 112 % of the limit",
        "net.py:m (batch_size=4): macs <= 50: 56 MACs, 112 % of the limit",
    ]


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize("option", [("--dry-run",), ("--rerun", "all"), ("--engine", "local"), ("--address", "x")])
@pytest.mark.parametrize("shown", [("--diff", "last~1", "last"), ("--check", "last")])
def test_what_runs_nothing_takes_no_option_of_running(
    shown: tuple[str, ...], option: tuple[str, ...], store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = command(capsys, "audit", *shown, *option, "--store", str(tmp_path / "runs.db"))
    assert (code, f"{shown[0]} runs nothing; leave out {option[0]}" in err) == (2, True)


def test_options_of_pyproject_are_for_the_calls_that_have_them(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.profilerkit.audit]\nengine = 'local'\nbudget = 'budgets.toml'\n")
    monkeypatch.chdir(tmp_path)
    where = ("--store", str(tmp_path / "runs.db"))
    code, _, err = command(capsys, "audit", "--diff", "last~1", "last", *where)
    assert (code, err) == (0, "")
    (tmp_path / "plan.toml").write_text("[[models]]\nmodel = 'none.py:none'\ninput_shape = [1]\n")
    _, _, err = command(capsys, "audit", str(tmp_path / "plan.toml"), "--dry-run", *where)
    assert "--budget" not in err


@pytest.mark.parametrize(("form", "shown"), [("json", ("--check", "last")), ("junit", ("--diff", "last~1", "last"))])
def test_a_format_of_pyproject_is_for_the_calls_that_have_it(
    form: str,
    shown: tuple[str, ...],
    store: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = (*shown, "--store", str(tmp_path / "runs.db"))
    code, out, _ = command(capsys, "audit", *where, "--format", "console")
    (tmp_path / "pyproject.toml").write_text(f"[tool.profilerkit.audit]\nformat = '{form}'\n")
    monkeypatch.chdir(tmp_path)
    assert command(capsys, "audit", *where) == (code, out, "")
    code, _, err = command(capsys, "audit", *where, "--format", form)
    assert (code, f"'{form}': with {shown[0]} there are console, " in err) == (2, True)


def test_commands(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--store", str(tmp_path / "runs.db"))
    code, out, _ = command(capsys, "history", "net.py:f", "--metric", "macs", *where, "--format", "json")
    assert (code, [point["value"] for point in json.loads(out)[0]["points"]]) == (0, [48, 48, 56])
    code, out, _ = command(capsys, "audit", "--diff", "last~1", "last", *where, "--format", "markdown")
    assert code == 0
    assert "48 MACs -&gt; 56 MACs" in out
    assert "What else changed for net.py:f, net.py:g: commit c1 -> c2\n" in out
    code, out, _ = command(capsys, "audit", "--check", "last", *where, "--format", "junit")
    assert (code, ET.fromstring(out).get("failures")) == (1, "2")
    code, _, err = command(capsys, "audit", "--check", "last", *where, "--format", "json")
    assert (code, "with --check there are console, markdown, junit" in err) == (2, True)
    code, _, err = command(capsys, "audit", "plan.toml", *where, "--format", "markdown")
    assert (code, "'markdown': of rows there are console, json" in err) == (2, True)
    code, _, err = command(capsys, "audit", "--diff", "last", "nowhere", *where)
    assert (code, "there is no run 'nowhere'" in err) == (2, True)
    output = tmp_path / "rows.csv"
    code, out, _ = command(capsys, "export", where[1], "-o", str(output), "--run", "last")
    assert (code, out) == (0, f"{len(list(store.rows(run='run-002-m')))} rows in {output}\n")
    code, _, err = command(capsys, "export", where[1], "-o", str(output), "--run", "nowhere")
    assert (code, "there is no run 'nowhere'" in err) == (2, True)
    code, _, err = command(capsys, "audit")
    assert (code, "Missing argument 'PLAN'" in err) == (2, True)
