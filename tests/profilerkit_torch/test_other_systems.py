"""Windows and macOS, simulated: what a user does there works, and what needs Linux is refused by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from other_systems import SYSTEMS
from source_tree import ROOT
from time_limits import run_program

pytest.importorskip("torch", reason="torch is not installed")

#: 2 x 8 by 8 x 4 is 64 MACs; the loss' step needs them again for the gradient of the weight: the input needs none.
WORKS = """
import torch
import profilerkit
from profilerkit.cli import main

model, x = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), torch.ones(2, 8)
report = profilerkit.profile(model, x)
assert report["macs"] == 64, report
assert report["execution_time"].median > 0
assert profilerkit.profile(model, x, metrics=["training_macs"])["training_macs"] == 128
assert len(profilerkit.profile(model, x, metrics=["layer_times"])["layer_times"]) == 3
print(report)
print(profilerkit.compare(model, model, inputs=x, metrics=["macs", "execution_time"]))
for ending in ("json", "html", "md", "csv", "txt"):
    report.save(f"report.{ending}")
assert profilerkit.Report.load("report.json")["macs"] == 64
with open("net.py", "w") as file:
    file.write("import torch\\ndef build():\\n    return torch.nn.Linear(8, 4)\\n")
main(["profile", "net.py:build", "--input-shape", "8", "--static"])
"""
REFUSED = """
import profilerkit

try:
    profilerkit.isolated("net.py:build", input_shape=(1, 8){limit})
except profilerkit.NotOfferedError as error:
    print(error)
"""


def run(system: str, script: str, folder: Path) -> str:
    file = folder / "script.py"
    file.write_text(script, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(ROOT / "tests" / "support" / "other_systems.py"), system, str(file)]
    done = run_program(command, cwd=folder, encoding="utf-8")
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_profile_training_and_tables_work(system: str, tmp_path: Path) -> None:
    printed = run(system, WORKS, tmp_path)
    assert printed.count("MACs") >= 3, "a report, a comparison, and the command's table"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "limit", "message"),
    [
        ("windows", "", "isolation needs Linux, or another POSIX system; this is win32\n"),
        (
            "macos",
            ", memory='1 GiB'",
            "a memory limit needs Linux, and a kernel that lists the children of a process; "
            "this is darwin, where only timeout= holds\n",
        ),
    ],
)
def test_what_a_system_cannot_do_is_refused(system: str, limit: str, message: str, tmp_path: Path) -> None:
    assert run(system, REFUSED.format(limit=limit), tmp_path) == message
