"""Runs all of ``tests/attack`` in parts, each in a process of its own, several at once: what ``make attack`` does.

``python tests/support/attack_in_parts.py [--jobs 2] [--only torch] [FOLDER]``: one process with all 30,000 tests would
be ten times slower, since each collection of garbage goes through all that pytest and the frameworks hold. What a part
prints goes to a file in FOLDER (``attack-results``); a line says how each ended, and at the end stand the tests that
failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


ATTACK = ROOT / "tests" / "attack"
#: What is run in so many parts; every other file is one.
SPLIT = {"untouched_torch": 24, "test_fuzz.py": 20, "test_keras_attack.py": 8, "test_hostile_reports.py": 4}


@dataclass(frozen=True)
class Part:
    """Every ``of``-th test of a file or folder, from ``number`` on: a plugin of pytest's that leaves out the others."""

    path: str
    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        name = self.path.removeprefix("test_").removesuffix(".py")
        return name if self.of == 1 else f"{name}-{self.number}-of-{self.of}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep each test whose place in the collection is this part's."""
        items[:] = items[self.number - 1 :: self.of]

    def run(self, log: Path) -> int:
        """Run the part in a process of its own; return pytest's exit status."""
        command = [sys.executable, __file__, "--part", self.path, str(self.number), str(self.of)]
        environment = {**os.environ, "PROFILERKIT_ATTACK": "whole"}
        with log.open("w") as file:
            done = subprocess.run(
                command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env=environment, check=False
            )
        return done.returncode


def list_parts(only: str) -> list[Part]:
    """Return the parts of all files, those of many parts first, or of the files whose name holds a text."""
    paths = [*SPLIT, *sorted(path.name for path in ATTACK.glob("test_*.py") if path.name not in SPLIT)]
    return [
        Part(path, number + 1, SPLIT.get(path, 1))
        for path in paths
        if only in path
        for number in range(SPLIT.get(path, 1))
    ]


def failures_in(log: Path) -> Iterator[str]:
    """Yield the lines of pytest's summary that name a test which failed."""
    yield from (line for line in log.read_text(errors="replace").splitlines() if line.startswith(("FAILED", "ERROR")))


def last_line(log: Path) -> str:
    """Return pytest's last line, which has the number of tests and how long they took."""
    return log.read_text(errors="replace").rstrip().rpartition("\n")[2]


def run_all(parts: Sequence[Part], jobs: int, folder: Path) -> int:
    """Run the parts, and print how each ended; return 0 if all passed."""
    folder.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(part.run, folder / f"{part}.log"): part for part in parts}
        for future in as_completed(running):
            part = running[future]
            log = folder / f"{part}.log"
            sys.stdout.write(f"{part}: {last_line(log)}\n")
            sys.stdout.flush()
            names = list(failures_in(log))
            if future.result() and not names:
                names = [f"{part} ended with exit status {future.result()}, see {log}"]
            failed += names
    sys.stdout.writelines(f"{name}\n" for name in failed)
    return int(bool(failed))


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "attack-results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parts at once; each takes up to 2 GiB")
    parser.add_argument("--only", default="", help="run the files alone whose name holds this")
    parser.add_argument("--part", nargs=3, metavar=("PATH", "NUMBER", "OF"), help="run this part, in this process")
    options = parser.parse_args(arguments)
    if not options.part:
        return run_all(list_parts(options.only), options.jobs, options.folder)
    path, number, of = options.part
    # The name of a test is written before it runs, so that one which ends the process is found in the log.
    own = ["-v", "-p", "no:cacheprovider", "--durations=10", str(ATTACK / path)]
    return int(pytest.main(own, plugins=[Part(path, int(number), int(of))]))


if __name__ == "__main__":
    sys.exit(main())
