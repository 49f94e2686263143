"""``profilerkit audit`` and ``profilerkit export``, as a user runs them."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from audited import MACS, NETS, PARAMS, write_nets

from profilerkit import StoreError
from profilerkit.cli import main
from profilerkit.isolation import processes
from profilerkit_audits import Row, RowStatus, Store, read_export
from profilerkit_audits.cases import Case
from profilerkit_audits.commands.progress import ShownProgress
from profilerkit_audits.engine import Engine, Outcome
from profilerkit_audits.summary import AuditResult, summarize

pytestmark = pytest.mark.skipif(not processes.LINUX, reason="audits run their models in processes of their own")

PLAN = 'metrics = ["macs", "total_params"]\ntimeout = 60\n[[models]]\nspec = "nets.py:net_*"\n'


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(map(str, arguments)))
    return int(end.value.code or 0)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    write_nets(tmp_path, 2)
    (tmp_path / "zoo.toml").write_text(PLAN)
    return tmp_path / "zoo.toml"


def test_a_dry_run_says_what_would_run_and_runs_nothing(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("audit", zoo, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "would run   nets.py:net_01\nwould run   nets.py:net_02\n2 to run, 0 in the store" in shown
    assert [path.name for path in zoo.parent.iterdir() if path.suffix == ".db"] == []
    assert run("audit", zoo, "--dry-run", "--format", "json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert [case["runs"] for case in planned["cases"]] == [True, True]
    assert run("audit", zoo, "--dry-run", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.heavy
def test_rows_as_json_and_the_summary(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("audit", zoo, "--format", "json") == 0
    captured = capsys.readouterr()
    rows = {row["spec"]: row for row in json.loads(captured.out)}
    values = {name: value["value"] for name, value in rows["nets.py:net_02"]["values"].items()}
    assert values == {"macs": MACS[2], "total_params": PARAMS[2]}
    assert {(row["status"], row["reason"]) for row in rows.values()} == {("complete", "")}
    assert "2 cases, 0 of them in the store already" in captured.err
    assert re.search(r"\[2/2, 0 s left\] complete nets\.py:net_0", captured.err)
    assert run("audit", zoo) == 0
    shown = capsys.readouterr().out
    assert re.search(rf"net_02 +{MACS[2]} MACs +{PARAMS[2]}\n +nets.py:net_01 +{MACS[1]} MACs +{PARAMS[1]}\n", shown)
    assert "2 complete\n0 measured, 2 in the store before; run " in shown
    assert shown.endswith(
        "environment variables that a model's code reads are not compared: after a change, --rerun all)\n"
    )
    assert run("audit", zoo, "--dry-run") == 0
    assert "are not compared: after a change, --rerun all" in capsys.readouterr().out
    assert run("audit", zoo, "--dry-run", "--rerun", "all") == 0
    assert "2 to run, 0 in the store" in capsys.readouterr().out
    assert run("export", zoo.with_suffix(".db"), "--output", zoo.with_name("rows.jsonl")) == 0
    assert capsys.readouterr().out.startswith("2 rows in ")
    assert {row["macs"] for row, _ in read_export(zoo.with_name("rows.jsonl"))} == {MACS[1], MACS[2]}


@pytest.mark.heavy
def test_budgets_and_strict_make_the_exit_code_1(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.write_text(PLAN + f'[budgets]\nmacs = "<= {MACS[1]}"\n')
    assert run("audit", zoo, "-q") == 1
    errors = capsys.readouterr().err
    assert f"Budget not kept: nets.py:net_02: macs <= {MACS[1]}: " in errors
    assert "nets.py:net_01" not in errors
    zoo.write_text(PLAN + '[budgets.layers.zzz]\nmacs = "<= 1"\n')  # a misspelt layer keeps no limit
    assert run("audit", zoo, "-q") == 1
    unmatched = "Budget not kept: all models: zzz: macs <= 1: no model of the run has a layer that this matches"
    assert unmatched in capsys.readouterr().err
    zoo.write_text(PLAN.replace("net_*", "nothing_there"))
    assert run("audit", zoo, "-q") == 0
    assert run("audit", zoo, "-q", "--strict") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zoo.toml", "--engine", "lokal"], "there is no engine 'lokal'; there are, nearest first: local"),
        (["zoo.toml", "--format", "yaml"], "'yaml': there are console, json"),
        (["none.toml"], "cannot read the plan none.toml: No such file"),
        (["bad.toml"], "bad.toml: unknown key 'metrik'; did you mean 'metrics'?"),
        (["zoo.toml", "--address", "ray://x"], "address='ray://x': the engine 'local' has no cluster"),
        (["zoo.toml", "--store", "mysql://x/y"], "a store in mysql is not offered"),
    ],
)
def test_a_mistake_is_said_in_a_line(
    arguments: list[str], message: str, zoo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(zoo.parent)
    Path("bad.toml").write_text("metrik = 1\n" + PLAN)
    assert run("audit", *arguments) in (2, 3)
    assert message in " ".join(capsys.readouterr().err.split())


def test_an_interrupted_audit_says_where_its_rows_are(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch("profilerkit_audits.running.Audit.run", side_effect=KeyboardInterrupt):
        assert run("audit", zoo) == 130
    error = capsys.readouterr().err
    assert (
        f"Interrupted: the rows so far are in {zoo.with_suffix('.db')}; the same command goes on from there." in error
    )


def test_passwords_of_stores_are_not_printed() -> None:
    finished = AuditResult("a" * 32, "postgresql://me:pa/s:s@w@host/runs", {"complete": 1}, 1, 0)
    with mock.patch.object(AuditResult, "rows", lambda self: iter(())):
        text = summarize(finished)
    assert "in postgresql://me:***@host/runs\n" in text
    assert "pa/s:s" not in text
    with pytest.raises(StoreError, match=r"'postgresql://me:\*\*\*@host:port/runs' is no URL of a store"):
        Store.open("postgresql://me:secret@host:port/runs")


@pytest.mark.heavy
def test_warnings_are_counted_at_the_end(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An argument that nothing takes is most often a typo: it is no error, and it is named once for all rows."""
    zoo.write_text("arguments = {foo = 3}\n" + zoo.read_text())
    assert run("audit", zoo, "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    warned = [row for row in rows if "'foo'" in " ".join(row["conditions"].get("warnings", ()))]
    assert len(warned) == 2
    assert run("audit", zoo) == 0
    lines = capsys.readouterr().out.splitlines()
    start = "warning of 2 rows: no registered function takes an argument 'foo'"
    assert sum(line.startswith(start) for line in lines) == 1


def test_export_of_a_store_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", tmp_path / "no.db", "--output", tmp_path / "o.csv") == 3
    assert "there is no store" in capsys.readouterr().err


def test_a_profile_goes_into_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(NETS + "\ndef build():\n    return net(3)\n")
    assert run("profile", "nets.py:build", "--metric", "macs", "--store", "runs.db", "-q") == 0
    with Store.open("runs.db", create=False) as store:
        (row,) = store.rows()
        report = store.report(row)
    assert (row.spec, row["macs"], row.status) == ("nets.py:build", MACS[3], RowStatus.COMPLETE)
    assert report is not None
    assert report["macs"] == MACS[3]


# Progress -------------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(stream: Any) -> str:
    cases = [Case(f"nets.py:net_{number}", Path(), key=str(number)) for number in range(3)]
    with ShownProgress(stream) as shown:
        shown.begin(4, 1)
        for case in cases:
            shown.start(case)
        shown.end(cases[0], Row(cases[0].spec, "k", RowStatus.COMPLETE))
        shown.end(cases[1], Row(cases[1].spec, "k", RowStatus.FAILED, reason="it\ncrashed [bold]"))
        shown.end(cases[2], Row(cases[2].spec, "k", RowStatus.COMPLETE, settings={"batch_size": 8}))
    return str(stream.getvalue())


def test_plain_lines_in_a_pipe() -> None:
    assert told(io.StringIO()).splitlines() == [
        "4 cases, 1 of them in the store already",
        "[2/4, 0 s left] complete nets.py:net_0",
        "[3/4, 0 s left] failed nets.py:net_1: it crashed [bold]",
        "[4/4, 0 s left] complete nets.py:net_2 batch_size=8",
    ]


def test_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = told(Terminal())
    assert "3 running, 1/4 done, 0 failed" in shown
    assert "1 running, 3/4 done, 1 failed, 0 s left" in shown
    assert "failed nets.py:net_1: it crashed [bold]" in shown


class IdleEngine(Engine):
    """Runs no case, and ends as a test says: with an error, or with no outcome."""

    ending: BaseException | None = None

    def run(self, cases: Iterable[Case]) -> Generator[Outcome, None, None]:
        for case in cases:
            self.tell_start(case)
        if self.ending is not None:
            raise self.ending
        yield from ()


@pytest.mark.parametrize(
    ("ending", "code"), [(None, 0), (KeyboardInterrupt(), 130), (StoreError("the disk is full"), 3)], ids=repr
)
def test_a_terminal_is_as_it_was_however_an_audit_ends(
    ending: BaseException | None, code: int, zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is erased (``ESC [ 2 K``), the streams are the process's own, and the cursor was never hidden.

    A signal that ends the process at any moment, such as SIGTERM, leaves the cursor as it is.
    """
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(IdleEngine, "ending", ending)
    monkeypatch.setattr("profilerkit_audits.running.find_engine", lambda name: IdleEngine)
    terminal, output = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", output)
    assert run("audit", zoo) == code
    assert (sys.stdout, sys.stderr) == (output, terminal)
    assert set(re.findall(r"\x1b\[[^A-Za-z]*[A-Za-z]", terminal.getvalue())) == {"\x1b[2K"}
    assert "running" not in terminal.getvalue().rpartition("\x1b[2K")[2]


@pytest.mark.parametrize(("columns", "bar"), [(120, "#" * 15 + "-" * 15), (40, "####-----")])
def test_the_bar_is_shorter_where_the_counts_need_the_room(
    columns: int, bar: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 40 columns one stays free, 29 are for the counts and one before them: 9 are for the bar."""
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Terminal()
    ShownProgress(terminal).begin(cases=2, reused=1)
    assert terminal.getvalue() == f"\r\x1b[2K{bar} 0 running, 1/2 done, 0 failed"
