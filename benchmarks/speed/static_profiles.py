"""One static profile (params, size, MACs, FLOPs, memory, layers) in forward passes, beside other tools in theirs.

Each tool runs in a process of its own, and takes turns with a forward pass there. Ours has one for each model, since
its first call is told too; another tool has one for all of them, and a new one after an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trace_tools import MODELS, TOOLS

from profilerkit import Measurement, Ratio

from .options import Options
from .processes import ask, ask_all
from .tables import Table

__all__ = ["measure", "measure_others"]

OURS = "profilerkit.profile"
#: A mode of torch that sees each operator and counts nothing.
FLOOR = "empty mode"
#: Rounds for each model at the least.
SAMPLES, QUICK_SAMPLES = 5, 3
QUICK_MODELS = ("ResNet-18", "200 tiny pairs")


def measure(options: Options) -> dict[str, Table]:
    """Return the table of our profiles."""
    columns = ("model", "operators", "forward pass", "cold", "warm", "an operator", "in passes")
    rows = tuple(_describe_profile(name, options) for name in _list_models(options))
    return {"static profiles": Table(columns, rows, ("in passes",))}


def measure_others(options: Options) -> dict[str, Table]:
    """Return the table of the other tools."""
    names = _list_models(options)
    ratios = {tool: _list_ratios(tool, names, options) for tool in TOOLS if tool != OURS}
    rows = []
    for index, name in enumerate(names):
        cells = {tool: column[index] for tool, column in ratios.items()}
        rows.append((name, *cells.values(), _name_fastest(cells)))
    return {"other tools": Table(("model", *ratios, "the fastest"), tuple(rows))}


def _name_fastest(cells: Mapping[str, str]) -> str:
    """Return the tool that counts and whose ratio is the least of a row; ``-`` where no tool has one."""
    numbers = {tool: float(cell) for tool, cell in cells.items() if cell[0].isdigit() and tool != FLOOR}
    return min(numbers, key=lambda tool: numbers[tool], default="-")


def _list_models(options: Options) -> tuple[str, ...]:
    return QUICK_MODELS if options.quick else tuple(MODELS)


def _describe_profile(name: str, options: Options) -> tuple[str, ...]:
    answer = ask("trace_tools.py", OURS, _rounds(options), name)
    if "error" in answer:
        raise SystemExit(f"{name}: {answer['error']}")
    count = answer["operators"]
    forward, warm = (Measurement(answer[which], session=1) for which in ("forward", "tool"))
    return (
        name,
        str(count),
        f"{1e3 * float(forward):,.3g} ms",
        f"{1e3 * answer['cold']:,.0f} ms",
        f"{1e3 * float(warm):.3g} ms",
        f"{1e6 * float(warm) / count:,.0f} µs",
        f"{Ratio.of(forward, warm).value:.2g}",
    )


def _list_ratios(tool: str, names: Sequence[str], options: Options) -> list[str]:
    """Return for each model what a tool takes in its forward passes."""
    answers: list[dict[str, Any]] = []
    while len(answers) < len(names):
        answers += ask_all("trace_tools.py", tool, _rounds(options), *names[len(answers) :], python=options.peers)
    return [_write_ratio(answer) for answer in answers]


def _write_ratio(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return "not there" if "No module named" in answer["error"] else "error"
    forward, warm = (Measurement(answer[which], session=1) for which in ("forward", "tool"))
    return f"{Ratio.of(forward, warm).value:.2g}"


def _rounds(options: Options) -> str:
    return str(QUICK_SAMPLES if options.quick else SAMPLES)
