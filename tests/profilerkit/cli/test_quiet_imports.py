"""The log lines that a framework writes while it is imported are left out, and nothing else is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from time_limits import run_program

#: As TensorFlow 2.21 writes them.
LOG_LINES = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1795472983.000130   17796 port.cc:153] oneDNN custom operations are on.",
    "W0000 00:00:1795472983.010965   17796 cudart_stub.cc:31] Could not find cuda drivers on your machine.",
)
ERROR = "E0000 00:00:1795473164.966782   19845 cuda_platform.cc:52] failed call to cuInit"
NOISY = f"""
import os, sys
for line in {[*LOG_LINES, ERROR, "no log line"]!r}:
    os.write(2, line.encode() + b"\\n")
if "ends" in sys.argv:
    os.write(2, b"F0000 00:00:1 1 cpu.cc:1] this processor has no AVX\\n")
    os._exit(134)
if "fails" in sys.argv:
    raise ImportError("a library is missing")
"""
USER = f"""
import os, sys
from profilerkit.cli.quiet_imports import without_log_lines
from profilerkit.process.import_hooks import AroundImport
sys.meta_path.insert(0, AroundImport(["noisy"], without_log_lines))
import noisy, json
print("afterwards", noisy.__spec__.loader.exec_module.__name__, file=sys.stderr, flush=True)
os.write(2, {LOG_LINES[1].encode() + b"!"!r})
"""


def read_stderr(tmp_path: Path, *arguments: str, code: int = 0) -> list[str]:
    (tmp_path / "noisy.py").write_text(NOISY, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", USER, *arguments]
    done = run_program(command, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_log_lines_of_an_import_are_left_out_and_those_after_it_are_not(tmp_path: Path) -> None:
    assert read_stderr(tmp_path) == [ERROR, "no log line", "afterwards exec_module", f"{LOG_LINES[1]}!"]


def test_what_a_library_says_that_ends_the_process_is_seen(tmp_path: Path) -> None:
    lines = read_stderr(tmp_path, "ends", code=134)
    assert lines == [ERROR, "no log line", "F0000 00:00:1 1 cpu.cc:1] this processor has no AVX"]


def test_an_import_that_fails_raises_its_error(tmp_path: Path) -> None:
    lines = read_stderr(tmp_path, "fails", code=1)
    assert lines[:2] == [ERROR, "no log line"]
    assert lines[-1] == "ImportError: a library is missing"


@pytest.mark.slow
@pytest.mark.parametrize("level", [None, "3", "0"])
def test_the_command_leaves_out_what_tensorflow_logs_unless_the_user_asks_for_it(
    tmp_path: Path, level: str | None
) -> None:
    pytest.importorskip("tensorflow")
    (tmp_path / "net.py").write_text(
        "def build():\n    import keras\n    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment |= {"KERAS_BACKEND": "tensorflow"} | ({"TF_CPP_MIN_LOG_LEVEL": level} if level else {})
    command = [sys.executable, "-m", "profilerkit", "profile", "net.py:build", "--static", "--metric", "macs"]
    done = run_program(command, env=environment, cwd=tmp_path)
    assert "32" in done.stdout
    if level != "0":
        assert done.stderr == ""
    else:
        assert "0000 00:00:" in done.stderr
