"""Measurements in processes of their own: what a script prints, and how long a command takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["BENCHMARKS", "ask", "ask_all", "time_commands"]

BENCHMARKS = Path(__file__).parents[1]
#: The environment of a user, whose Python keeps the modules that it has compiled.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def ask(script: str, *arguments: str, python: str = sys.executable) -> dict[str, Any]:
    """Return the line of JSON that a script of the benchmarks prints, or its last line of error as ``error``."""
    return ask_all(script, *arguments, python=python)[0]


def ask_all(script: str, *arguments: str, python: str = sys.executable) -> list[dict[str, Any]]:
    """Return the lines of JSON that a script prints; where it prints none, its last line of error as ``error``."""
    command = [python, str(BENCHMARKS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_ENVIRONMENT)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    message = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    return answers or [{"error": message[0]}]


def time_commands(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    """Return the median wall seconds of each command; they take turns, after one round that is not measured."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=_ENVIRONMENT)
            if done.returncode:
                raise SystemExit(f"{name}: {' '.join(command)[:200]}\n{done.stderr[-2000:]}")
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: median(times) for name, times in seconds.items()}
