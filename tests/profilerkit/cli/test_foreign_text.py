"""Texts of models, plugins and files reach no terminal, spreadsheet or pull request as commands."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from audited import MACS, write_nets
from drawn_reports import TEACHER

from profilerkit.cli import main
from profilerkit.foreign_text import on_terminal
from profilerkit.isolation import processes
from profilerkit.render import render
from profilerkit_audits import Store
from profilerkit_audits.exporting import export

#: A title, a cleared screen, a C1 control, a carriage return, a text that runs backwards, and a color.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\rgone\u202e\x1b[31m"
BAD = f"""
import torch

class Raises(torch.nn.Module):
    def forward(self, x):
        raise RuntimeError({EVIL!r})

class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module({EVIL!r}, torch.nn.Linear(4, 2))

    def forward(self, x):
        return getattr(self, {EVIL!r})(x)

def breaks():
    raise RuntimeError({EVIL!r})
"""
#: What may not reach a terminal; of what a pipe gets, colors too.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("torch")
    (tmp_path / "evil.py").write_text(BAD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return "evil.py"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return all that a command prints, on both streams."""
    with pytest.raises(SystemExit):
        main(list(arguments))
    captured = capsys.readouterr()
    return captured.out + captured.err


LINES: dict[str, Callable[[str], tuple[str, ...]]] = {
    "an error of forward": lambda file: ("profile", f"{file}:Raises", "--metric", "macs"),
    "with its traceback": lambda file: ("--traceback", "profile", f"{file}:Raises", "--metric", "macs", "--strict"),
    "an error of a builder": lambda file: ("profile", f"{file}:breaks"),
    "names of layers": lambda file: ("profile", f"{file}:Named", "--metric", "macs", "--layers"),
    "names in JSON": lambda file: ("profile", f"{file}:Named", "--metric", "macs", "--format", "json"),
    "names in a tree": lambda file: ("profile", f"{file}:Named", "--metric", "macs", "--format", "tree"),
    "names in CSV": lambda file: ("profile", f"{file}:Named", "--metric", "macs", "--format", "layers-csv"),
    "names in HTML": lambda file: ("profile", f"{file}:Named", "--metric", "macs", "--format", "html"),
    "a name of a model": lambda file: ("profile", f"{file}:Named", "--metric", "macs", "--name", EVIL),
    "a limit of layers": lambda file: ("check", f"{file}:Named", "--limit", "macs <= 1"),
    "a name that is not there": lambda file: ("profile", f"{file}:{EVIL}"),
    "a file that is not there": lambda file: ("show", f"{EVIL}.json"),
    "a metric that is not there": lambda file: ("profile", f"{file}:Named", "--metric", EVIL),
    "a command that is not there": lambda file: (EVIL,),
    "two models": lambda file: ("compare", f"{file}:Named", f"{file}:Raises", "--metric", "macs"),
}


@pytest.mark.parametrize("line", LINES)
def test_no_command_prints_what_a_terminal_obeys(line: str, models: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = LINES[line](models)
    text = shown(capsys, *command, *(() if command[0] in ("show", EVIL) else ("--input-shape", "4")))
    assert OBEYED.findall(text) == []
    assert "gone" in text, "it is told, and not left out"


def test_json_is_the_same_when_its_controls_are_written_out(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(
            ["profile", f"{models}:Named", "--input-shape", "4", "--metric", "macs", "--name", EVIL, "--format", "json"]
        )
    assert json.loads(capsys.readouterr().out)["name"] == EVIL


def test_our_own_colors_are_kept() -> None:
    text = f"\x1b[1mbold\x1b[0m {EVIL}"
    assert on_terminal(text, colored=True).startswith("\x1b[1mbold\x1b[0m \\u001b]0;owned\\u0007\\u001b[2J\\u009b31m")
    assert "\x1b" not in on_terminal(text)
    assert on_terminal("two\nlines\tof text, größer ≥ 3 µs") == "two\nlines\tof text, größer ≥ 3 µs"


needs_processes = pytest.mark.skipif(not processes.LINUX, reason="audits run their models in processes of their own")


@pytest.mark.heavy
@needs_processes
def test_an_audit_shows_and_exports_no_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_nets(tmp_path, 1, f"\ndef evil():\n    raise RuntimeError('=1+1 ' + {EVIL!r})\n")
    (tmp_path / "zoo.toml").write_text(
        'metrics = ["macs"]\ntimeout = 60\n[[models]]\nspec = "nets.py:*"\nexclude = ["*:net"]\n'
        '[budgets]\nmacs = "<= 1"\n'
    )
    text = shown(capsys, "audit", str(tmp_path / "zoo.toml"))
    assert "gone" in text and "Budget not kept: " in text
    assert OBEYED.findall(text) == []
    with Store.open(tmp_path / "zoo.db", create=False) as store:
        rows = {row.spec: row for row in store.rows()}
        about = {"id": None, "key": "k" * 64, "spec": "=cmd|' /C calc'!A1", "reason": f"'{EVIL}"}
        odd = msgspec.structs.replace(rows["nets.py:evil"], **about)
        store.add(odd, None)
        export(store, tmp_path / "rows.csv", private=True)
    content = (tmp_path / "rows.csv").read_bytes().decode()
    assert OBEYED.findall(content.replace("\r\n", "\n")) == []
    cells = [cell for line in csv.reader(content.splitlines()) for cell in line]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@")]
    assert str(MACS[1]) in cells


@pytest.mark.parametrize("text", ["@octocat", "#12", "GH-12", "org/repo#12", "gh-7", "(@team/core)"])
def test_markdown_notifies_nobody(text: str) -> None:
    """GitHub looks for mentions in the text that is left when escapes are resolved: a backslash does not help."""
    drawn = render(replace(TEACHER, name=text, notes=(text,)), "markdown", details=True)
    resolved = html.unescape(re.sub(r"\\(.)", r"\1", drawn))
    assert not re.search(r"@\w|#\d|GH-\d", resolved, re.IGNORECASE)
    assert "&#8203;" in drawn


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", " =", "\u00a0=", "\uff1d", "\t="])
def test_no_cell_is_a_formula(sign: str) -> None:
    drawn = render(replace(TEACHER, name=f"{sign}1+1"), "csv")
    assert all(not row[0].lstrip().startswith(sign.strip()) for row in csv.reader(drawn.splitlines()))
