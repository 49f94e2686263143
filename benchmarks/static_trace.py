"""One static trace (params, size, MACs, FLOPs, memory, layers) beside a forward pass, and other tools beside theirs.

``python benchmarks/static_trace.py [--peers PYTHON] [--quick]``: the interpreter that has the other tools, if it is not
this one. Each tool runs in a process of its own, and takes turns with a forward pass there; what is printed is the
time of the tool over that of the pass, in forward passes. The machine should be idle otherwise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from trace_tools import MODELS, TOOLS

from profilerkit import Measurement, Ratio

HERE = Path(__file__).parent
OURS = ("profilerkit", "profilerkit.profile")
#: Rounds for each model at the least.
SAMPLES, QUICK_SAMPLES = 3, 3
WIDTH = 20


def answers_of(tool: str, models: list[str], python: str, samples: int) -> tuple[dict[str, str], str]:
    """Return the cells of a tool's row by model, and the last line of its error where it did not run."""
    command = [python, str(HERE / "trace_tools.py"), tool, str(samples), *models]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    said = done.stderr.strip().splitlines()[-1] if done.returncode and done.stderr.strip() else ""
    return {answer["model"]: cell(answer) for answer in answers}, said


def cell(answer: dict[str, object]) -> str:
    """Return the ratio of tool to forward pass, from the pairs, with its interval."""
    if "error" in answer:
        return str(answer["error"]).partition(":")[0]
    forward, tool = (Measurement(answer[name], session=1) for name in ("forward", "tool"))  # type: ignore[arg-type]
    ratio = Ratio.of(forward, tool)
    return f"{ratio.value:.3g} [{ratio.low:.2g}, {ratio.high:.2g}]"


def rows(models: list[str], peers: str, samples: int) -> Iterator[str]:
    """Yield a line for each tool, as soon as it has run."""
    yield f"{'':<20}" + "".join(f"{name:>{WIDTH}}" for name in models)
    for tool in TOOLS:
        cells, answer = answers_of(tool, models, sys.executable if tool in OURS else peers, samples)
        if cells:
            yield f"{tool:<20}" + "".join(f"{cells.get(name, '-'):>{WIDTH}}" for name in models)
        else:
            yield f"{tool:<20}  not run: {answer}"


def main(arguments: list[str] | None = None) -> None:
    """Print the table, and what large, long and deep models take."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", metavar="PYTHON", default=sys.executable, help="the interpreter with other tools")
    parser.add_argument("--quick", action="store_true", help="fewer models and rounds")
    options = parser.parse_args(arguments or [])
    models = ["ResNet-50", "MobileNetV2", "200 tiny pairs"] if options.quick else list(MODELS)
    print("time of the tool, in forward passes of the model (with its 95 % interval):\n")
    for line in rows(models, options.peers, QUICK_SAMPLES if options.quick else SAMPLES):
        print(line, flush=True)
    print(flush=True)
    for what in (["llama"], ["layers", "1000" if options.quick else "10000"]):
        done = subprocess.run([sys.executable, str(HERE / "trace_scaling.py"), *what], check=False)
        if done.returncode:
            print(f"{what[0]}: not measured; is transformers installed?")


if __name__ == "__main__":
    main(sys.argv[1:])
