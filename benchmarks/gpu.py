"""What profilerkit says on a GPU, each number beside another word for it: ``make gpu``, at most ten minutes.

``python benchmarks/gpu.py FOLDER`` runs the steps below and writes ``FOLDER/results.json`` after each of them; what
each printed is in ``FOLDER/log.txt``, and the calibration in ``FOLDER/calibrated.toml``. Each step is a process of its
own with its own limit of seconds: one that hangs or crashes loses its own rest alone. Steps that time nothing run at
the same time, the others one after the other, with nothing beside them. No network is needed.

``--device cpu`` runs the same with small networks, leaves out what only a GPU has, and times nothing worth reading: a
test does that, so that the script does not fail on a GPU for a fault of its own. ``--only counts`` (again and again)
takes some of the steps. The exit code is 1 if a step failed or a number disagrees.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "examples"), str(ROOT / "benchmarks")]

from gpu_results import Content, Result, Skipped, StepEnd, write  # noqa: E402


@dataclass(frozen=True)
class Where:
    """Where a step runs, how large its networks are, how many seconds it should take, and where its files go."""

    device: str
    seconds: float
    folder: Path

    @property
    def is_small(self) -> bool:
        """Whether the networks are small: on a CPU, where nothing is to be found out about times."""
        return self.device == "cpu"


@dataclass(frozen=True)
class Step:
    """A step: the function ``measure`` of a module, and how many seconds it has.

    One with a part runs that share of its networks. What is timed runs alone.
    """

    name: str
    module: str
    seconds: float
    alone: bool = False
    part: int = 0
    parts: int = 1


_COUNTS = 4
#: A CPU that other programs use has so many times the seconds.
_SLOWER = 8
STEPS = (
    Step("start", "gpu_start", 60),
    *(Step(f"counts {part}", "gpu_counts", 150, part=part, parts=_COUNTS) for part in range(_COUNTS)),
    Step("memory", "gpu_memory", 120),
    Step("untouched", "gpu_untouched", 120),
    Step("isolation", "gpu_isolation", 200),
    Step("tests", "gpu_tests", 200),
    Step("times", "gpu_times", 60, alone=True),
    Step("operators", "gpu_operators", 45, alone=True),
    Step("predicted", "gpu_predicted", 180, alone=True),
    Step("language models", "gpu_language_models", 75, alone=True),
)


@dataclass
class _Process:
    """A step that runs."""

    step: Step
    process: subprocess.Popen[bytes]
    began: float
    rows: Path
    limit: float

    def end(self) -> StepEnd | None:
        """Return how it ended; None while it runs. One that is over its limit is ended, with what it started."""
        code, seconds = self.process.poll(), time.monotonic() - self.began
        if code is None and seconds < self.limit:
            return None
        _end_group(self.process.pid)
        self.process.wait()
        if code is None:
            return StepEnd(self.step.name, "out of time", round(seconds, 1), f"its limit is {self.limit:.0f} s")
        return StepEnd(
            self.step.name, "failed" if code else "done", round(seconds, 1), f"exit code {code}" if code else ""
        )


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


class Script:
    """The whole run: which steps are left, and what was measured so far."""

    def __init__(self, folder: Path, device: str, seconds: float) -> None:
        self.folder, self.device = folder, device
        self.deadline = time.monotonic() + seconds
        self.ended: list[StepEnd] = []
        self.results: list[Result] = []
        self.skipped: list[Skipped] = []
        self.facts: dict[str, str] = {}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log.txt").unlink(missing_ok=True)
        self.files = Path(tempfile.mkdtemp(prefix="gpu-steps-"))

    def run(self, steps: Sequence[Step]) -> None:
        """Run steps: first those that may share the machine, on half of its cores at once, then the others."""
        self._run([step for step in steps if not step.alone], max(1, (os.cpu_count() or 1) // 2))
        self._run([step for step in steps if step.alone], 1)
        shutil.rmtree(self.files)

    def _run(self, steps: Sequence[Step], at_once: int) -> None:
        waiting, running = list(steps), list[_Process]()
        while waiting or running:
            while waiting and len(running) < at_once:
                step = waiting.pop(0)
                left = self.deadline - time.monotonic()
                if left < 10:
                    self.ended.append(StepEnd(step.name, "out of time", 0.0, "no time was left to start it"))
                else:
                    limit = step.seconds * (_SLOWER if self.device == "cpu" else 1)
                    running.append(self._start(step, min(limit, left)))
            for process in list(running):
                end = process.end()
                if end is not None:
                    running.remove(process)
                    self._take(process, end)
            time.sleep(0.05)

    def _start(self, step: Step, seconds: float) -> _Process:
        rows = self.files / f"{step.name.replace(' ', '-')}.jsonl"
        rows.unlink(missing_ok=True)
        inside = [step.name, str(seconds), str(rows)]
        command = [sys.executable, __file__, str(self.folder), "--device", self.device, "--inside", *inside]
        with rows.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        return _Process(step, process, time.monotonic(), rows, seconds)

    def _take(self, process: _Process, end: StepEnd) -> None:
        """Add what a step found, until it ended, and write the file."""
        text = process.rows.read_text(encoding="utf-8") if process.rows.exists() else ""
        for line in text.splitlines():
            kind, row = json.loads(line)
            if kind == "fact":
                self.facts.update(row)
            elif kind == "skipped":
                self.skipped.append(Skipped(**row))
            else:
                self.results.append(Result(**row))
        printed = process.rows.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
        if end.outcome == "failed":
            end = StepEnd(end.step, end.outcome, end.seconds, f"{end.message}: {''.join(printed.splitlines()[-1:])}")
        self.ended.append(end)
        with (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"\n=== {end.step}: {end.outcome} after {end.seconds:.0f} s. {end.message}\n{printed}")
        print(f"{end.step:<16} {end.outcome:<12} {end.seconds:6.1f} s  {end.message}", flush=True)
        name = self.facts.get("device", self.device)
        content = Content(name, self.facts, self.ended, self.results, self.skipped)
        write(self.folder / "results.json", content)

    def list_disagreeing(self) -> list[Result]:
        """Return the numbers that do not agree; on a CPU, which others use too, none of those that were timed."""
        timed = {step.name for step in STEPS if step.alone and self.device == "cpu"}
        return [result for result in self.results if not result.agrees and result.step not in timed]

    @property
    def is_fine(self) -> bool:
        """Whether all steps came to their end and all numbers agree."""
        return all(end.outcome == "done" for end in self.ended) and not self.list_disagreeing()


def shown(results: Sequence[Result], skipped: Sequence[Skipped]) -> Iterator[str]:
    """Yield a line for each number that is not a count that agrees."""
    for result in results:
        verdict = "" if result.within is None else "ok" if result.agrees else "DISAGREES"
        if verdict == "ok" and not result.unit:
            continue
        number = f"{result.value:12.5g} {result.unit:<6} {result.ratio:8.4f} of {result.oracle_name}"
        yield f"{verdict:<9} {result.step:<16} {result.name:<34} {result.metric:<26} {number}  {result.note}"
    for left_out in skipped:
        yield f"left out  {left_out.step:<16} {left_out.name:<34} {left_out.reason}"


def _inside(options: argparse.Namespace) -> None:
    """Run one step, and write each of its rows as soon as it is known."""
    name, seconds, rows = options.inside
    step = next(step for step in STEPS if step.name == name)
    where = Where(options.device, float(seconds), options.folder)
    module: Any = importlib.import_module(step.module)
    with Path(rows).open("w", encoding="utf-8") as file:
        for row in module.measure(where, step.part, step.parts):
            kind = "fact" if isinstance(row, dict) else "skipped" if isinstance(row, Skipped) else "result"
            file.write(json.dumps([kind, row if isinstance(row, dict) else msgspec.structs.asdict(row)]) + "\n")
            file.flush()


def main(arguments: list[str] | None = None) -> int:
    """Run the steps and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=600.0, help="the most seconds for all steps")
    parser.add_argument("--only", action="append", help="a step, by the first word of its name")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        _inside(options)
        return 0
    if options.device != "cpu" and not _has_gpu():
        print("There is no GPU here that torch can use: nothing is measured, and nothing written.")
        return 0
    script = Script(options.folder, options.device, options.seconds)
    script.run([step for step in STEPS if not options.only or step.name.split()[0] in options.only])
    print("\n".join(shown(script.results, script.skipped)))
    return 0 if script.is_fine else 1


def _has_gpu() -> bool:
    """Ask in a process of its own: this one starts others and should not use the GPU itself."""
    code = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
