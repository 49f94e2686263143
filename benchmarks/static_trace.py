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
from typing import Any

import torch
from trace_tools import MODELS, STATIC, TOOLS

from profilerkit import Measurement, ModelInputs, Ratio
from profilerkit_torch import TorchBackend

HERE = Path(__file__).parent
OURS = ("profilerkit.profile",)
#: Rounds for each model at the least.
SAMPLES, QUICK_SAMPLES = 5, 3


def ask_tool(tool: str, model: str, python: str, samples: int) -> dict[str, Any]:
    """Return what a tool's process has printed of a model, or its last line of error."""
    command = [python, str(HERE / "trace_tools.py"), tool, str(samples), model]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    message = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    return answers[0] if answers else {"error": message[0]}


def count_operators(name: str) -> int:
    """Return how many operators a forward pass of a model has."""
    model, x = MODELS[name]()
    return len(TorchBackend().trace(model.eval(), ModelInputs(x)).operators)


def rows(name: str, peers: str, samples: int) -> Iterator[str]:
    """Yield a line for each tool, as soon as it has run."""
    count = count_operators(name)
    shown = False
    for tool in TOOLS:
        answer = ask_tool(tool, name, sys.executable if tool in OURS else peers, samples)
        if "error" in answer:
            yield f"  {tool:<24}  not measured: {answer['error'][:80]}"
            continue
        forward, warm = (Measurement(answer[which], session=1) for which in ("forward", "tool"))
        ratio = Ratio.of(forward, warm)
        if not shown:
            yield f"{name}: {count} operators, forward pass {1e3 * float(forward):.3g} ms"
            shown = True
        yield (
            f"  {tool:<24}{1e3 * answer['cold']:>9.1f} ms cold{1e3 * float(warm):>9.1f} ms warm"
            f"{1e6 * float(warm) / count:>9.0f} us an operator{ratio.value:>9.3g} forward passes"
            f" [{ratio.low:.2g}, {ratio.high:.2g}]"
        )


def main(arguments: list[str] | None = None) -> None:
    """Print the table, and what large, long and deep models take."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", metavar="PYTHON", default=sys.executable, help="the interpreter with other tools")
    parser.add_argument("--quick", action="store_true", help="fewer models and rounds")
    parser.add_argument("models", nargs="*", help="names of models; all of them unless given")
    options = parser.parse_args(arguments or [])
    models = ["ResNet-50", "MobileNetV2", "200 tiny pairs"] if options.quick else list(MODELS)
    print(f"wall time, {torch.get_num_threads()} threads; profilerkit computes {', '.join(STATIC)}\n")
    for model in options.models or models:
        for line in rows(model, options.peers, QUICK_SAMPLES if options.quick else SAMPLES):
            print(line, flush=True)
    print(flush=True)
    for what in (["llama"], ["layers", "1000" if options.quick else "10000"]):
        done = subprocess.run([sys.executable, str(HERE / "trace_scaling.py"), *what], check=False)
        if done.returncode:
            print(f"{what[0]}: not measured; is transformers installed?")


if __name__ == "__main__":
    main(sys.argv[1:])
