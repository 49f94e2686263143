"""Plugins that hang, interrupted with Ctrl-C: on the command line, in Python, and under pytest."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from time_limits import run_program

#: Says on a file that it has begun, and hangs.
HANG = "import pathlib, time\ndef hang():\n    pathlib.Path('hanging').touch()\n    time.sleep(60)\n"
AT_IMPORT = f"{HANG}hang()\n"
IN_A_HOOK = f"{HANG}import profilerkit\n@profilerkit.hookimpl\ndef profilerkit_renderers():\n    hang()\n"
WAY_OUT = "to do without it, set PROFILERKIT_DISABLE_PLUGINS=slow, or run profilerkit --no-plugins"
WAITING = {AT_IMPORT: "the loading", IN_A_HOOK: "hook profilerkit_renderers"}


def install(folder: Path, module: str) -> dict[str, str]:
    """Install a plugin for processes that are started with the environment that is returned."""
    metadata = folder / "slow_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[profilerkit]\nslow = hanging_module\n")
    (folder / "hanging_module.py").write_text(module)
    return {**os.environ, "PYTHONPATH": str(folder)}


def interrupt(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Run a command until the plugin hangs, press Ctrl-C, and return its exit code and what it wrote."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 100
    while not (folder / "hanging").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    try:
        output, errors = process.communicate(timeout=50)
    finally:
        process.kill()
    return process.returncode, output, errors


@pytest.mark.parametrize("module", [AT_IMPORT, IN_A_HOOK], ids=["import", "hook"])
def test_the_command_line_names_it(tmp_path: Path, module: str) -> None:
    script = str(Path(sys.executable).parent / "profilerkit")
    command = [script, "profile", "missing.py:model"]  # which looks for the renderers first
    code, _, errors = interrupt(command, tmp_path, install(tmp_path, module))
    assert code == 130
    assert "Traceback" not in errors
    assert errors.strip().splitlines() == [
        "Interrupted.",
        f"Profilerkit was waiting for {WAITING[module]} of plugin 'slow' of slow-plugin 1.0; {WAY_OUT}.",
    ]


def test_without_plugins_nothing_hangs(tmp_path: Path) -> None:
    environment = install(tmp_path, AT_IMPORT)
    script = str(Path(sys.executable).parent / "profilerkit")
    command = [script, "--no-plugins", "profile", "missing.py:model"]
    done = run_program(command, check=False, cwd=tmp_path, env=environment, seconds=100)
    assert (done.returncode, "there is no file 'missing.py'" in done.stderr) == (2, True)
    assert not (tmp_path / "hanging").exists()


def test_python_and_pytest_show_it(tmp_path: Path) -> None:
    environment = install(tmp_path, AT_IMPORT)
    (tmp_path / "test_it.py").write_text("def test_it(budget):\n    budget(None, macs='<= 5 G')\n")
    for command in (
        [sys.executable, "-c", "from profilerkit.hooks.manager import manager; manager()"],
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
    ):
        _, output, errors = interrupt(command, tmp_path, environment)
        assert "KeyboardInterrupt" in output + errors
        assert (
            f"profilerkit was waiting for the loading of plugin 'slow' of slow-plugin 1.0; {WAY_OUT}" in output + errors
        )
        (tmp_path / "hanging").unlink()
