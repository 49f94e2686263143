"""A step of ``make gpu``: the tests that need a GPU, and those of the PyTorch backend, on a machine that has one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_results import Result, Skipped

if TYPE_CHECKING:
    from gpu import Where

STEP = "tests"
ROOT = Path(__file__).parents[1]
#: What all tests of the backend would take too long for.
_FOLDERS = ("running", "untouched", "training", "layer_timing", "operator_timing", "trace", "costs", "model")


def measure(where: Where, part: int, parts: int) -> Iterator[Result | Skipped]:
    """Yield how many of the marked tests pass, and, on a GPU, how many of the backend's others."""
    began = time.monotonic()
    if where.is_small:
        yield Skipped(STEP, "tests marked gpu", "there is no GPU")
        return
    yield from _run(
        where.folder / "tests-gpu.txt", "tests marked gpu", ["-m", "gpu", "tests/profilerkit_torch/running"], 50
    )
    folders = [f"tests/profilerkit_torch/{name}" for name in _FOLDERS]
    workers = str(os.cpu_count() or 2)
    arguments = ["-m", "not slow and not gpu", "-n", workers, "--dist", "worksteal", *folders]
    yield from _run(
        where.folder / "tests-torch.txt",
        "tests of the backend",
        arguments,
        where.seconds - (time.monotonic() - began) - 8,
    )


def _run(file: Path, name: str, arguments: list[str], seconds: float) -> Iterator[Result]:
    """Run tests; where the time does not suffice, those that failed until then are named all the same."""
    options = ["-v", "--tb=short", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    with file.open("w+", encoding="utf-8") as printed:
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        try:
            subprocess.run(command, cwd=ROOT, stdout=printed, stderr=printed, check=False, timeout=seconds)
            ended = ""
        except subprocess.TimeoutExpired:
            ended = f"not all ran: {seconds:.0f} s were over; "
        printed.seek(0)
        text = printed.read()
    print(text[text.find("= FAILURES =") :][:30_000] if "= FAILURES =" in text else text[-2000:])
    ran = set(re.findall(r"(?:PASSED|FAILED|ERROR)(?: +\[ *\d+%\])? (tests/\S+)", text))
    ran |= set(re.findall(r"^(tests/\S+) (?:PASSED|FAILED|ERROR)", text, re.MULTILINE))
    failed = set(re.findall(r"(?:FAILED|ERROR)(?: +\[ *\d+%\])? (tests/\S+)", text))
    failed |= set(re.findall(r"^(tests/\S+) (?:FAILED|ERROR)", text, re.MULTILINE))
    note = f"{ended}failed: {', '.join(sorted(failed))}" if failed or ended else ""
    yield Result(STEP, name, "passed", len(ran - failed), max(len(ran), 1), "all that ran", "", 0.0, note[:4000])
