"""What tests wait for, each with a limit: programs, threads, children. What hangs fails, and says what it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["SECONDS", "join", "run_program", "run_python", "wait_for_child"]

#: How long it may take on a machine that is busy. What takes longer hangs.
SECONDS = 600.0


def run_program(
    command: Sequence[str | Path],
    *,
    check: bool = True,
    seconds: float = SECONDS,
    variables: Mapping[str, str] | None = None,
    input: str | None = None,
    **settings: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program and return how it ended and what it wrote.

    It has a session of its own: it is ended with all that it has started, and no terminal can stop both it and pytest.

    Fails the test if the program does not end within ``seconds`` or, with ``check``, ends with another status than 0.

    Args:
        variables: Those of the environment that differ from this process.
        input: What it reads; nothing by default.
        settings: Further arguments of `subprocess.Popen`, such as ``cwd``.
    """
    if variables:
        settings["env"] = {**os.environ, **variables}
    settings |= {"stdin": subprocess.DEVNULL if input is None else subprocess.PIPE}
    settings |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    words = " ".join(map(str, command))[:200]
    with subprocess.Popen(command, **settings) as process:
        try:
            output, errors = process.communicate(input, timeout=seconds)
        except subprocess.TimeoutExpired as late:
            pytest.fail(f"{words} did not end in {seconds:.0f} s; it wrote {late.stdout!r}, {late.stderr!r}")
        finally:
            if process.returncode is None:  # nobody has waited for it: its number is no other's yet
                os.killpg(process.pid, signal.SIGKILL)
    if check:
        assert process.returncode == 0, f"{words} ended with {process.returncode}: {output}{errors}"
    return subprocess.CompletedProcess(list(command), process.returncode, output, errors)


def run_python(code: str, *arguments: str | Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run Python code in an interpreter of its own; ``settings`` are those of `run_program`."""
    return run_program([sys.executable, "-c", code, *arguments], **settings)


def join(thread: threading.Thread) -> None:
    """Wait until a thread has ended; fails the test if it has not within `SECONDS`."""
    thread.join(SECONDS)
    assert not thread.is_alive(), f"{thread.name} did not end in {SECONDS:.0f} s"


def wait_for_child(pid: int) -> int:
    """Return the wait status of a process that this one has forked; one that takes longer than `SECONDS` is killed."""
    end = time.monotonic() + SECONDS
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pytest.fail(f"the child that was forked did not end in {SECONDS:.0f} s")
        time.sleep(0.001)
