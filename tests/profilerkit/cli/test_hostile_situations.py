"""Closed descriptors, full disks and poor locales: no traceback, and never the exit code of a budget."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from drawn_reports import STUDENT, TEACHER
from time_limits import run_program

from profilerkit import ArgumentError, Comparison, StoreError, cli
from profilerkit.isolation import processes
from profilerkit.process.clean_output import standard_descriptors
from profilerkit.process.progress import track
from profilerkit_audits.database import lock

COMMAND = f"{sys.executable} -c 'from profilerkit.cli import main; main()'"
POOR = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
#: How a saved report is shown, and the exit code: 2 where the result cannot be printed.
SITUATIONS = {
    "standard output is closed": (">&-", 2),
    "standard output is full": (">/dev/full", 2),
    "standard error is closed": ("2>&-", 0),
    "standard input is closed": ("<&-", 0),
    "all are closed": ("<&- >&- 2>&-", 2),
    "the reader goes away": ("| true", 0),
    "a narrow terminal": ("--format tree", 0),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the shell of POSIX")
@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_command_ends_with_a_line_and_its_exit_code(situation: str, tmp_path: Path) -> None:
    Comparison(TEACHER, (STUDENT,)).save(tmp_path / "both.json")
    redirected, code = SITUATIONS[situation]
    line = f"set -o pipefail; {COMMAND} show both.json {redirected}"
    environment = {**os.environ, **POOR, "COLUMNS": "10", "TERM": "dumb"}
    environment.pop("HOME", None)
    done = run_program(["bash", "-c", line], check=False, cwd=tmp_path, env=environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code and "2>&-" not in redirected:
        assert "Error: " in done.stderr and "standard output" in done.stderr


def test_an_error_that_nobody_expects_has_not_the_code_of_a_budget(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, message in (
        (OSError(30, "Read-only file system", "zoo.db"), "Error: zoo.db: Read-only file system"),
        (OSError(28, "No space left on device"), "Error: No space left on device"),
        (OSError("odd"), "Error: odd"),
        (ConnectionRefusedError(), "Error: ConnectionRefusedError"),
        (MemoryError(), "Error: this process is out of memory"),
        (MemoryError("of 3 GiB"), "Error: this process is out of memory: of 3 GiB"),
        (KeyError("x"), "Error: KeyError: 'x'; this is a mistake of profilerkit or a plugin; --traceback shows where"),
    ):

        def fails(*arguments: object, raised: Exception = error, **further: object) -> None:
            raise raised

        monkeypatch.setattr(cli, "cli", fails)
        with pytest.raises(SystemExit) as end:
            cli.main(["list"])
        assert (end.value.code, capsys.readouterr().err.strip()) == (3, message)


def test_a_store_in_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object, **further: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "open", fails)
    with (
        pytest.raises(StoreError, match=r"the store .*zoo\.db cannot be written: Read-only file system; use one in"),
        lock(tmp_path / "zoo.db"),
    ):
        pass


def test_printing_a_report_where_the_locale_has_no_lines_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    target = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", target)
    for shown in (TEACHER, Comparison(TEACHER, (STUDENT,)), TEACHER.layers):
        target.write(str(shown))
    target.flush()


@pytest.mark.parametrize("name", ["report.xlsx", "report.jsn", "report.pdf"])
def test_a_suffix_that_names_no_format_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=rf"{name}': the suffix names no format; use one of these, nearest first"):
        TEACHER.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    TEACHER.save(tmp_path / "report")
    assert TEACHER.load(tmp_path / "report").name == "Teacher"


def test_progress_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert list(track([1, 2], "Counting")) == [1, 2]


def test_an_interrupt_after_a_file_was_written_does_not_say_that_nothing_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("profilerkit.cli.output.emit", interrupt)
    TEACHER.save(tmp_path / "saved.json")
    with pytest.raises(SystemExit) as raised:
        cli.main(["show", str(tmp_path / "saved.json"), "--output", str(tmp_path / "shown.md")])
    assert raised.value.code == cli.INTERRUPTED
    assert (tmp_path / "shown.md").exists()
    assert capsys.readouterr().err.strip() == "Interrupted."


CLOSED = """
import os, sys
import profilerkit

if __name__ == "__main__":
    os.close(0)
    os.close(1)
    report = profilerkit.isolated("nets.py:net_03", metrics=["macs"])
    still = [fd for fd in (0, 1) if os.path.exists(f"/proc/self/fd/{fd}")]
    sys.stderr.write(f"{report['macs']} {still}")
"""


@pytest.mark.heavy
@pytest.mark.skipif(not processes.LINUX, reason="looks at the descriptors of the process")
def test_a_process_of_its_own_without_standard_input_and_output(tmp_path: Path) -> None:
    """By hand: 4 x 3 + 3 x 2 = 18 multiply-accumulates; the descriptors are closed again."""
    from audited import write_nets

    write_nets(tmp_path, 3)
    (tmp_path / "main.py").write_text(CLOSED, encoding="utf-8")
    done = run_program([sys.executable, "main.py"], check=False, cwd=tmp_path)
    assert done.stderr.strip() == "18 []"


def test_standard_descriptors_are_opened_for_the_block_alone() -> None:
    before = os.open(os.devnull, os.O_RDONLY)
    os.close(before)
    with standard_descriptors():
        pass
    after = os.open(os.devnull, os.O_RDONLY)
    os.close(after)
    assert before == after, "the next free descriptor is the same"
