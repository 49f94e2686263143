"""The page of a store: which rows it has, what is left out of it, and the pages of models beside it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audit_rows import fill, make_rows
from msgspec.structs import replace
from page_reports import unpack

from profilerkit import ArgumentError, Completeness, Report, StoreError, profile
from profilerkit_audits import FailureCode, Row, RowStatus, Run, Store, Value
from profilerkit_audits.dashboard import render, write
from profilerkit_audits.dashboard.page_data import make_page_data
from profilerkit_audits.dashboard.subjects import group_rows
from profilerkit_metrics import ComputeEvalMetric
from profilerkit_numpy.layers import Sequential, dense
from profilerkit_pages.html import render as to_html

FACTS = {"system": "Linux", "cpu": "A 1", "cores": "2", "usable_cores": "2", "memory_bytes": str(3 * 2**30)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs.db") as opened:
        yield opened


def read_data(page: str) -> dict[str, Any]:
    """Return what the scripts of a page read."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    content: dict[str, Any] = json.loads(match[1])
    return content


def begun(store: Store, **fields: Any) -> str:
    return store.begin_run(Run("", "", machine="m", **fields), {"cpu": "A", "host": "box"}).run


def test_each_model_is_one_row_with_its_newest_values(store: Store) -> None:
    fill(store, 30, times=2)
    data = read_data(render(store))
    assert len(data["ids"]) == 30
    assert unpack(data["columns"]["spec"]) == [f"zoo:model_{number:05d}" for number in range(30)]
    macs = next(metric for metric in data["metrics"] if metric["name"] == "macs")
    # Number 1: (7919 mod 30 + 1) * 1000 = (29 + 1) * 1000; number 5 is doubled: 5 * 7919 mod 30 = 25.
    assert (macs["values"][1], macs["values"][5]) == (30_000, 52_000)
    assert macs["values"][9] is None, "a failed model has no number, and no zero"
    assert macs["incomplete"]["9"] == ["failed", "the process was ended by the signal SIGSEGV"]
    assert macs["incomplete"]["6"] == ["partial", "aten.odd (2 calls)"]
    # Number 6: (6 * 7919 mod 30 + 1) * 1000 = (24 + 1) * 1000, which is partial.
    assert macs["signed"]["6"] == ["≥ ", 25_000]
    assert data["histories"]["5"]["values"]["macs"] == [26_000, 52_000]
    assert data["histories"]["1"]["values"]["macs"] == 30_000, "one number for what never moved"
    assert data["histories"]["6"]["signs"]["macs"] == {"0": "≥ ", "1": "≥ "}
    assert data["versions"][data["histories"]["5"]["versions"][1]]["torch"] == "2.13"


def test_a_run_has_its_rows_and_what_was_before(store: Store) -> None:
    first, second = fill(store, 10, times=2)
    (third,) = [begun(store)]
    store.add(replace(next(make_rows(1, third, 3)), spec="zoo:other", key="o" * 64))
    data = read_data(render(store, run=first))
    assert len(data["ids"]) == 10
    assert data["histories"] == {}, "what came later is not part of a run"
    assert set(read_data(render(store, run=second))["histories"]) == {str(number) for number in range(10)}
    assert unpack(read_data(render(store, run=third))["columns"]["spec"]) == ["zoo:other"]
    with pytest.raises(ArgumentError, match="there is no run 'x'; the newest are: "):
        render(store, run="x")
    assert len(read_data(render(store, run="last~2"))["ids"]) == 10


def test_entries_of_a_plan_that_measure_one_case_are_one_row(store: Store) -> None:
    """The first entry counts, the second one times; the next night only what changed is measured, the rest reused."""
    run = begun(store)
    values = {"macs": Value(56, "MACs")}
    counted = store.add(Row("net.py:k", "c" * 64, RowStatus.COMPLETE, values=values, run=run, machine="m"))
    timed = replace(counted, key="t" * 64, values={"execution_time": Value(0.5, "s", samples=9)})
    store.add(timed)
    night = begun(store)
    store.reuse(night, [counted.id or 0])
    store.add(replace(timed, run=night, attempt=2, status=RowStatus.FAILED, values={}, reason="it crashed"))
    for name, times in ((run, [0.5]), (night, [0.5, None])):
        data = read_data(render(store, run=name))
        by_name = {metric["name"]: metric["values"] for metric in data["metrics"]}
        assert len(data["ids"]) == 1
        assert (by_name["macs"], by_name["execution_time"]) == ([56], times[-1:])
    assert unpack(data["columns"]["status"]) == ["failed"]
    assert unpack(data["columns"]["reason"]) == ["it crashed"]
    assert data["histories"]["0"]["values"] == {"macs": 56, "execution_time": [0.5, None]}


def test_times_of_two_machines_are_two_rows() -> None:
    """Counts of two machines are one history; so are a crash and what was there before it."""
    timed = {"execution_time": Value(0.5, "s", samples=12)}
    base = Row("net.py:build", "k", RowStatus.COMPLETE, values=timed, machine="a", created="2026-01-01")
    rows = [base, replace(base, machine="b"), replace(base, values={}, status=RowStatus.FAILED, created="2026-01-02")]
    assert [[row.machine for row in subject.rows] for subject in group_rows(rows)] == [["a", "a"], ["b"]]
    counted = [replace(row, values={"macs": Value(1, "MACs")}) for row in rows]
    (subject,) = group_rows(counted)
    assert len(subject.rows) == 3
    assert subject.newest.status is RowStatus.FAILED


def test_the_settings_that_rows_do_not_share_stand_beside_their_models() -> None:
    base = Row("net.py:build", "k", RowStatus.COMPLETE, settings={"batch_size": 1, "input_shape": [3]})
    rows = [base, replace(base, key="l", settings={"batch_size": 2, "input_shape": [3]}), replace(base, spec="other")]
    columns = make_page_data(group_rows(rows), {}, private=True)["columns"]
    assert sorted(unpack(columns["differing"])) == ["batch_size 1", "batch_size 1", "batch_size 2"]
    assert "batch_size 2, input_shape [3]" in unpack(columns["settings"])


def test_the_id_of_a_row_stays_when_its_code_and_versions_change() -> None:
    base = Row("net.py:build", "k", RowStatus.COMPLETE, settings={"batch_size": 1})
    (before,) = group_rows([base])
    (after,) = group_rows([replace(base, key="other", versions={"torch": "3"}, code="c", machine="b")])
    (other,) = group_rows([replace(base, settings={"batch_size": 2})])
    assert before.id == after.id != other.id


def test_paths_and_secrets_leave_the_page_unless_it_is_private(store: Store) -> None:
    run = begun(store)
    reason = "no file /home/someone/nets/net.py; token=abcdef123 </script><script>alert(1)"
    store.add(Row("/srv/nets/net.py:build", "k" * 64, RowStatus.FAILED, reason=reason, run=run, machine="m"))
    page = render(store)
    assert not re.search(r"someone|abcdef123|/srv/nets|box", page.partition('id="data">')[2].partition("</script>")[0])
    assert unpack(read_data(page)["columns"]["spec"]) == ["…/net.py:build"]
    assert "<script>alert" not in page
    private = read_data(render(store, private=True))
    assert unpack(private["columns"]["reason"]) == [reason]
    assert unpack(private["columns"]["spec"]) == ["/srv/nets/net.py:build"]


def test_a_page_of_each_model_stands_beside_and_is_written_once(store: Store, tmp_path: Path) -> None:
    report = profile(Sequential(dense(4, 8)), input_shape=(4,), metrics=["macs"], name="at /srv/nets/small")
    run = begun(store)
    store.add(Row("a", "a" * 64, RowStatus.COMPLETE, run=run, machine="m"), report)
    store.add(Row("b", "b" * 64, RowStatus.FAILED, run=run, machine="m"))
    output = tmp_path / "out" / "audit.html"
    output.parent.mkdir()
    written = write(store, output)
    assert (written.rows, written.pages) == (2, 1)
    address, none = read_data(output.read_text(encoding="utf-8"))["pages"]
    assert none == ""
    page = output.parent / address
    assert page.parent.name == "audit-models"
    content = page.read_text(encoding="utf-8")
    assert "32" in content, "4 x 8 MACs"
    assert "/srv/nets" not in content
    page.write_text("kept", encoding="utf-8")
    write(store, output)
    assert page.read_text(encoding="utf-8") == "kept", "what is there is not written again"
    write(store, output, private=True)
    private = output.parent / read_data(output.read_text(encoding="utf-8"))["pages"][0]
    assert "/srv/nets" in private.read_text(encoding="utf-8")
    assert read_data(render(store))["pages"] == []


def test_the_page_loads_nothing(store: Store) -> None:
    fill(store, 3)
    page = render(store)
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!#|data:,)', page)


def test_the_reasons_of_failures_add_up_to_the_number_of_failed_rows(store: Store) -> None:
    """Two timeouts and one row of each of four other reasons: 6 rows."""
    run = begun(store)
    for number, failure in enumerate(["timeout", "timeout", "memory", "signal", "exit", "model"]):
        spec = f"{number}.onnx"
        store.add(Row(spec, str(number) * 64, RowStatus.FAILED, FailureCode(failure), "it failed", run=run))
    assert "timeout: 2, memory: 1, signal: 1, exit: 1, model: 1<" in render(store)


def test_what_does_not_apply_is_told_from_what_is_missing(store: Store) -> None:
    run = begun(store)
    about: dict[str, Any] = {
        "completeness": Completeness.UNAVAILABLE,
        "reason": "a file has no weights",
        "is_applicable": False,
    }
    values = {"macs": Value(1, "MACs"), "trainable_params": Value(None, **about)}
    store.add(Row("a.onnx", "a" * 64, RowStatus.COMPLETE, values=values, run=run, machine="m"))
    params = next(item for item in read_data(render(store))["metrics"] if item["name"] == "trainable_params")
    assert params["incomplete"]["0"] == ["does not apply", "a file has no weights"]


@pytest.mark.parametrize("page", ["the page of a store", "the page of a report"])
def test_both_pages_fill_one_frame(store: Store, page: str) -> None:
    """Head, policy and end of both are the same but for title, digests and what stands between."""
    fill(store, 3)
    report = profile(Sequential(dense(4, 8)), input_shape=(4,), metrics=["macs"])
    html = render(store) if page == "the page of a store" else to_html(report)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'; script-src 'sha256-" in html
    order = [
        "<!DOCTYPE html>",
        "Content-Security-Policy",
        'class="skip"',
        "<main",
        "<noscript>",
        'id="data"',
        "</html>",
    ]
    assert [html.count(name) for name in order] == [1] * len(order)
    assert sorted(order, key=html.index) == order
    assert len(re.findall("<section id=", html)) == len(re.findall("</section>", html)) - html.count('class="about"')


def test_a_store_without_rows_has_a_page(store: Store) -> None:
    data = read_data(render(store))
    assert (data["ids"], data["metrics"]) == ([], [])


def test_the_metric_itself_says_whether_more_is_better(store: Store) -> None:
    """Of an evaluation its function says it, in the report of the row; where nobody knows, more is not better."""
    run = begun(store)
    model = Sequential(dense(4, 2))
    values = {"accuracy": 0.5, "loss": 0.2, "drift": 0.1}
    function = ComputeEvalMetric(lambda model, data: values, key="accuracy", better="higher")
    function = function.with_secondary_metric("loss", better="lower").with_secondary_metric("drift")
    names = ["eval_metric", "loss", "drift", "macs"]
    report = profile(model, input_shape=(4,), functions=[function], metrics=names, data_splits={"test": []})
    store.add(
        Row(
            "a",
            "a" * 64,
            RowStatus.COMPLETE,
            values={key: Value.of(record) for key, record in report.statuses.items()},
            run=run,
            machine="m",
        ),
        report,
    )
    metrics = {metric["name"]: metric["more"] for metric in read_data(render(store))["metrics"]}
    assert metrics == {"eval_metric": True, "loss": False, "drift": False, "macs": False}


@pytest.mark.parametrize("first", ["evaluated", "counted"])
def test_whether_more_is_better_is_asked_of_the_report_that_has_the_metric(first: str) -> None:
    """Two entries of a plan measure one case, each with its own report; the report of another model is damaged."""
    values = {"evaluated": {"eval_metric": Value(0.5)}, "counted": {"macs": Value(8, "MACs")}}
    function = ComputeEvalMetric(lambda model, data: {"accuracy": 0.5}, key="accuracy", better="higher")
    model = Sequential(dense(4, 2))
    reports = {
        "evaluated": profile(
            model, input_shape=(4,), functions=[function], metrics=["eval_metric"], data_splits={"test": []}
        ),
        "counted": profile(model, input_shape=(4,), metrics=["macs"]),
    }
    entries = [first, *(values.keys() - {first})]
    damaged = Row("a", "d", RowStatus.COMPLETE, values=values["evaluated"], run="r", checksum="damaged", id=0)
    joined = [
        Row("b", name, RowStatus.COMPLETE, values=values[name], run="r", checksum=name, created="2026", id=number)
        for number, name in enumerate(entries, start=1)
    ]

    def find_report(row: Row) -> Report | None:
        if row is damaged:
            raise StoreError("the report is damaged")
        return reports.get(row.checksum)

    subjects = group_rows([damaged, *joined], lambda run: (0, 1, 2))
    assert [set(subject.newest.values) for subject in subjects] == [{"eval_metric"}, {"eval_metric", "macs"}]
    metrics = make_page_data(subjects, {}, private=True, find_report=find_report)["metrics"]
    assert {metric["name"]: metric["more"] for metric in metrics} == {"eval_metric": True, "macs": False}


def test_a_machine_is_written_for_people() -> None:
    """3 * 2**30 bytes are 3 GiB; usable cores are mentioned if they are not all, and never the host."""
    row = Row("a.py:f", "k", RowStatus.COMPLETE, machine="m", created="2026-01-01")
    machines = {"m": {**FACTS, "host": "box"}, "n": {**FACTS, "cores": "64"}}
    subjects = group_rows([row, replace(row, spec="b.py:f", machine="n")])
    column = make_page_data(subjects, machines, private=True)["columns"]["machine"]
    assert unpack(column) == [
        "Linux, A 1, 2 cores, 3 GiB of memory",
        "Linux, A 1, 64 cores, 2 of them usable, 3 GiB of memory",
    ]


def test_a_history_tells_where_code_and_machine_changed() -> None:
    values = {"macs": Value(3, "MACs")}
    base = Row("a.py:f", "k", RowStatus.COMPLETE, values=values, machine="m", code="one", created="2026-01-01")
    second = replace(base, code="two", created="2026-01-02")
    third = replace(second, machine="n", created="2026-01-03")
    (history,) = make_page_data(group_rows([base, second, third]), {}, private=False)["histories"].values()
    assert (history["code"], history["machine"]) == ([0, 1, 1], [0, 0, 1])
