"""The command line as a process: in a terminal, in a pipe, and stopped with Ctrl-C."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from time_limits import run_program

pytestmark = pytest.mark.slow

SLOW = """
import time, torch

class Slow(torch.nn.Module):
    def forward(self, x):
        print("running", flush=True)
        time.sleep(60)
        return x

def quick():
    return torch.nn.Linear(4, 2)
"""


@pytest.fixture
def slow_file(tmp_path: Path) -> str:
    (tmp_path / "slow_models.py").write_text(SLOW, encoding="utf-8")
    return "slow_models.py"


def script() -> str:
    found = Path(sys.executable).parent / "profilerkit"
    return str(found) if found.is_file() else shutil.which("profilerkit") or "profilerkit"


def interrupt(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command until the model runs, send it what Ctrl-C sends, and return what came of it."""
    process = subprocess.Popen(
        [script(), *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    line = process.stderr.readline()  # what models print goes there
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, output, line + errors)


@pytest.mark.parametrize("command", ["profile", "compare"])
def test_ctrl_c_half_way_leaves_nothing_behind(command: str, slow_file: str, tmp_path: Path) -> None:
    models = [f"{slow_file}:Slow"] * (2 if command == "compare" else 1)
    before = sorted(path.name for path in tmp_path.iterdir())
    outputs = ["--output", "report.json", "--output", "report.md"]
    done = interrupt([command, *models, "--input-shape", "4", *outputs], tmp_path)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert "Interrupted." in done.stderr
    after = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
    assert after == before


def test_ctrl_c_while_things_are_imported(slow_file: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [script(), "profile", f"{slow_file}:quick"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 3, 0, -signal.SIGINT)
    assert "Traceback" not in errors


def test_results_and_progress_go_different_ways(slow_file: str, tmp_path: Path) -> None:
    done = run_program(
        [script(), "profile", f"{slow_file}:quick", "--input-shape", "4", "--metric", "macs", "--format", "csv"],
        cwd=tmp_path,
    )
    assert done.stdout.splitlines()[1].split(",")[2:4] == ["macs", "8"]
    assert done.stderr == ""


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    done = run_program(
        ["bash", "-c", f"set -o pipefail; {script()} list --verbose | head -1"], check=False, cwd=tmp_path
    )
    assert done.stdout == "Plugins\n"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_in_a_terminal(slow_file: str, tmp_path: Path) -> None:
    """Progress is drawn and wiped away, the table fits the window, Ctrl-C is taken."""
    pexpect = pytest.importorskip("pexpect")
    command = f"{script()} profile {slow_file}:quick --input-shape 4 --max-seconds 0.2"
    environment: dict[str, str] = {**os.environ, "TERM": "xterm-256color"}
    settings: dict[str, Any] = {"cwd": str(tmp_path), "encoding": "utf-8", "timeout": 120, "dimensions": (24, 90)}
    child = pexpect.spawn(command, env=environment, **settings)
    child.expect("Profiling Linear")
    child.expect("MACs +8 +MACs")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    child = pexpect.spawn(f"{script()} profile {slow_file}:Slow --input-shape 4", **settings)
    child.expect("running")
    child.sendintr()
    child.expect("Interrupted.")
    child.expect(pexpect.EOF)
    assert "Traceback" not in (child.before or "")
    child.close()
    assert child.exitstatus == 130


def test_completion_is_offered_for_a_shell() -> None:
    done = run_program([script()], variables={"_PROFILERKIT_COMPLETE": "bash_source"})
    assert "_profilerkit_completion" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"), [(["profile", "ker"], "keras:"), (["profile", "net.py:Net", "--on", "h100-s"], "h100-sxm")]
)
def test_bash_offers_names_where_files_can_stand_too(words: list[str], offered: str) -> None:
    source = run_program([script()], variables={"_PROFILERKIT_COMPLETE": "bash_source"}).stdout
    asked = f"COMP_WORDS=({script()} {' '.join(words)}); COMP_CWORD={len(words)}; compopt() {{ :; }}"
    shown = f'{source}\n{asked}\n_profilerkit_completion {script()}; echo "${{COMPREPLY[@]}}"'
    assert run_program(["bash", "-c", shown]).stdout.split() == [offered]
