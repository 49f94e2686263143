"""Standard output has the results alone; colors are for terminals."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from time_limits import run_program

from profilerkit.cli import cli
from profilerkit.process import clean_output

pytest.importorskip("torch", reason="torch is not installed")

#: Each way to print, with the moment in its place: MOMENT.
WAYS = """
print("MOMENT print")
sys.stdout.write("MOMENT write\\n")
sys.__stdout__.write("MOMENT first\\n")
os.write(1, b"MOMENT descriptor\\n")
libc.puts(b"MOMENT C")
subprocess.run(["echo", "MOMENT subprocess"], check=True)
handler.emit(logging.makeLogRecord({"msg": "MOMENT logged"}))
"""
PRINTED = {"print", "write", "first", "descriptor", "C", "subprocess", "logged"}
NOISY = f"""
import atexit, ctypes, logging, os, subprocess, sys, threading, time
import torch

libc = ctypes.CDLL(None)
handler = logging.StreamHandler(sys.stdout)

def say(moment):
    exec({WAYS!r}.replace("MOMENT", moment))

say("import")
atexit.register(say, "exit")

def on_and_on():
    while True:
        print("thread print")
        time.sleep(0.01)

threading.Thread(target=on_and_on, daemon=True).start()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        say("build")

    def forward(self, x):
        say("forward")
        return self.layer(x)
"""


@pytest.mark.slow
def test_a_process_prints_its_result_alone(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY, encoding="utf-8")
    options = ["--input-shape", "4", "--metric", "macs", "--format", "json"]
    command = [sys.executable, "-c", "from profilerkit.cli import main; main()", "profile", "noisy.py:Net", *options]
    done = run_program(command, cwd=tmp_path)
    assert json.loads(done.stdout)["statuses"][0]["value"] == 4 * 2
    moments = "import|build|forward|exit|thread"
    printed = set(re.findall(rf"({moments}) ({'|'.join(PRINTED)})", done.stderr))  # threads print into others' lines
    assert printed == {(when, way) for when in ("import", "build", "forward", "exit") for way in PRINTED} | {
        ("thread", "print")
    }


def pipe(code: str, tmp_path: Path, redirection: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python code that prints with `results_alone`, with its output redirected as a shell does."""
    (tmp_path / "code.py").write_text(
        f"import os, sys\nfrom profilerkit.process.clean_output import *\n{code}", encoding="utf-8"
    )
    command = ["bash", "-c", f"{sys.executable} code.py {redirection}"]
    return run_program(command, check=False, cwd=tmp_path)


BLOCK = """
print("before")
with results_alone(FOR_GOOD):
    with results_alone():
        print("meanwhile")
        os.write(1, b"meanwhile\\n")
        if results():
            print("result", file=results(), flush=True)
print("after")
"""


def test_the_caller_has_its_output_back(tmp_path: Path) -> None:
    done = pipe(BLOCK.replace("FOR_GOOD", ""), tmp_path)
    assert (done.stdout, done.stderr) == ("before\nresult\nafter\n", "meanwhile\nmeanwhile\n")


def test_a_process_that_is_about_to_end_does_not(tmp_path: Path) -> None:
    done = pipe(BLOCK.replace("FOR_GOOD", "True"), tmp_path)
    assert (done.stdout, done.stderr) == ("before\nresult\n", "meanwhile\nmeanwhile\nafter\n")


def test_the_caller_has_its_output_back_after_an_error(tmp_path: Path) -> None:
    code = "try:\n    with results_alone():\n        sys.stdout = None\n        exit()\nfinally:\n    print('after')"
    done = pipe(code, tmp_path)
    assert (done.stdout, done.stderr) == ("after\n", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_streams_that_are_closed(closed: str, tmp_path: Path) -> None:
    """A file that is opened next must not get what is printed: descriptor 1 is free where standard output is closed."""
    code = "with results_alone():\n    opened = open('mine', 'w')\n    os.write(1, b'meanwhile')\n    opened.close()"
    done = pipe(f"{code}\nopen('done', 'w').close()", tmp_path, closed)
    assert (tmp_path / "done").exists(), done.stderr
    assert (tmp_path / "mine").read_text() == ""
    assert done.stdout == ""


def test_output_that_cannot_be_written_is_an_error() -> None:
    code = "from profilerkit.cli import main; main()"
    command = ["bash", "-c", f"{sys.executable} -c '{code}' list > /dev/full"]
    done = run_program(command, check=False)
    assert (done.returncode, done.stderr) == (2, "Error: cannot write to standard output: No space left on device\n")


MODELS = """
import torch

print("import")

def build():
    print("build")
    return torch.nn.Linear(4, 2)

class Fails(torch.nn.Module):
    def forward(self, x):
        print("forward")
        raise KeyError("half-way")
"""
STATIC = ["--input-shape", "4", "--metric", "macs"]
COMMANDS: dict[str, list[str]] = {
    "profile": ["profile", "models_that_print.py:build", *STATIC, "--format", "json"],
    "compare": ["compare", *["models_that_print.py:build"] * 2, *STATIC, "--format", "json"],
    "diff": ["diff", *["models_that_print.py:build"] * 2, *STATIC, "--format", "json"],
    "fails": ["profile", "models_that_print.py:Fails", *STATIC, "--format", "json"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_runs_models_prints_json_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models_that_print.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, COMMANDS[name], catch_exceptions=False)
    json.loads(result.stdout)
    assert "import" in result.stderr.splitlines()
    assert ("build" if name != "fails" else "forward") in result.stderr.splitlines()


def test_check_prints_its_findings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models_that_print.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    command = ["check", "models_that_print.py:build", "--limit", "macs <= 8", "--input-shape", "4"]
    result = CliRunner().invoke(cli, [*command, "--format", "junit"], catch_exceptions=False)
    assert result.stdout.startswith("<")
    assert "build" in result.stderr.splitlines()


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (["list"], "profilerkit.cli.list_command.list_infos"),
        (["doctor"], "profilerkit.cli.doctor_command.list_infos"),
        (["profile", "x.py:y", "--format", "csv"], "profilerkit.render.renderer"),
        (["check", "x.py:y", "--limit", "macs <= 1"], "profilerkit.hooks.offers.list_status_keys"),
    ],
)
def test_what_plugins_print_when_they_are_imported_is_no_result(
    command: list[str], asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, lambda *names: (sys.stdout.write("a plugin prints\n"), [])[1])
    result = CliRunner().invoke(cli, command)
    assert "a plugin prints" not in result.stdout
    assert "a plugin prints" in result.stderr


def test_completions_come_without_what_plugins_print(monkeypatch: Any, capsys: Any) -> None:
    from profilerkit import Metric
    from profilerkit.cli import completions
    from profilerkit.hooks import offers as plugins
    from profilerkit.hooks import renderers

    offer = types.SimpleNamespace(item=type("Macs", (Metric,), {"NAME": "macs"}))
    monkeypatch.setattr(plugins, "list_status_keys", lambda: (sys.stdout.write("plugin\n"), [offer])[1])
    monkeypatch.setattr(renderers, "list_forms", lambda: (sys.stdout.write("plugin\n"), ["json"])[1])
    completing: Any = (None, None, "")
    assert completions.complete_metrics(*completing) == ["macs"]
    assert completions.complete_forms(*completing) == ["json"]
    assert capsys.readouterr() == ("", "plugin\nplugin\n")


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["profile", "--help"], ["list", "-h"]])
def test_help_is_a_result(command: list[str]) -> None:
    result = CliRunner().invoke(cli, command, prog_name="profilerkit")
    assert result.stdout.startswith(("Usage: profilerkit", "profilerkit, version"))
    assert result.stderr == ""


def test_the_width_is_that_of_the_terminal_of_the_results(tmp_path: Path) -> None:
    """Standard error may be another terminal, or none."""
    pexpect = pytest.importorskip("pexpect")
    code = "import os; os.environ.pop('COLUMNS', '')\nwith results_alone(): print(terminal_columns(77), file=results())"
    (tmp_path / "code.py").write_text(f"from profilerkit.process.clean_output import *\n{code}", encoding="utf-8")
    shell = f"cd {tmp_path}; {sys.executable} code.py 2>/dev/null; {sys.executable} code.py | cat"
    child = pexpect.spawn("bash", ["-c", shell], encoding="utf-8", dimensions=(24, 93), timeout=60)
    child.expect("93\r\n77\r\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "settings", "expected"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
        (None, {"TERM": "xterm"}, False),
    ],
)
def test_when_color_is_wanted(
    stream: io.StringIO | None, settings: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(clean_output, "results", lambda: stream)
    assert clean_output.wants_color() is expected


def test_a_closed_stream_has_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = Terminal()
    closed.close()
    monkeypatch.setattr(clean_output, "results", lambda: closed)
    assert clean_output.wants_color() is False
