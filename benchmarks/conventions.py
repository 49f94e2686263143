"""What other tools count for three models, and exactly which operators make the difference.

``python benchmarks/conventions.py [PYTHON]``: the interpreter that has the tools, if it is not this one. Each tool runs
in a process of its own. What makes the difference adds up to it, or the line says by how much it does not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from convention_models import MODELS, built
from convention_rules import CONVENTIONS, Convention, Row, list_rows

from profilerkit import ModelTrace, Profiler

OURS = {"macs": "MACs", "flops": "FLOPs"}
TOOLS = Path(__file__).with_name("convention_tools.py")


def ask_tool(tool: str, model: str, python: str) -> tuple[int | None, str]:
    """Return a tool's number and its version, or None and the last line of its error."""
    done = subprocess.run([python, str(TOOLS), tool, model], capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1]
    answer = json.loads(done.stdout)
    return answer["number"], answer["version"]


def trace_model(model: str) -> ModelTrace:
    """Return our trace of a model."""
    network, image = built(model)
    trace: ModelTrace = Profiler(network, inputs=image).compute_status("trace")
    return trace


def differences(rows: Iterable[Row], convention: Convention) -> Counter[tuple[str, str]]:
    """Return what a tool counts more than we do, by operator and reason."""
    totals: Counter[tuple[str, str]] = Counter()
    for row in rows:
        number, reason = convention.rule(row)
        totals[row.operator, reason] += number - getattr(row, convention.ours)
    return Counter({key: difference for key, difference in totals.items() if difference})


def lines(tool: str, number: int, rows: list[Row]) -> Iterator[str]:
    """Yield what is printed for a tool: its number beside ours, and what makes the difference."""
    convention = CONVENTIONS[tool]
    ours = sum(getattr(row, convention.ours) for row in rows)
    yield f"{tool}: {number:,} {convention.unit}, {number / ours:.3f} of our {ours:,} {OURS[convention.ours]}"
    explained = differences(rows, convention)
    for (operator, reason), difference in sorted(explained.items(), key=lambda item: item[1]):
        yield f"  {difference:+,}  {operator}: {reason}"
    left = number - ours - sum(explained.values())
    yield f"  = {number - ours:+,}" if not left else f"  NOT EXPLAINED: {left:+,}"


def main(python: str = sys.executable) -> None:
    """Print the numbers of every tool for every model, and what makes the differences."""
    versions = {}
    for model in MODELS:
        trace = trace_model(model)
        rows = list(list_rows(trace))
        print(f"{model}: {trace.macs:,} MACs, {trace.flops:,} FLOPs\n")
        for tool in CONVENTIONS:
            number, answer = ask_tool(tool, model, python)
            if number is None:
                print(f"{tool}: not run: {answer}")
            else:
                versions[tool] = answer
                print("\n".join(lines(tool, number, rows)))
        print()
    print("versions:", ", ".join(f"{tool} {version}" for tool, version in versions.items()))


if __name__ == "__main__":
    main(*sys.argv[1:2])
