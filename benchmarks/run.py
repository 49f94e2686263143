"""Measure the figures of docs/speed.rst and write them into the page: ``make bench``.

``python benchmarks/run.py [--peers PYTHON] [--only NAME] [--check] [--quick]``. Every figure is measured in this run,
in turn with that in whose units it is told. A guarded figure that is more than 10 % worse than the page's is measured
again; where it is worse a second time, it is printed, the exit code is 1, and the page stays as it was.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("examples", "tests/support")]

from speed import audits, first_calls, growth, layer_times, other_frameworks, reports, static_profiles
from speed.options import Options
from speed.tables import Table, find_worse, read_table, write_tables

PAGE = Path(__file__).parents[1] / "docs" / "speed.rst"
SECTIONS: Mapping[str, Callable[[Options], dict[str, Table]]] = {
    "static": static_profiles.measure,
    "tools": static_profiles.measure_others,
    "first": first_calls.measure,
    "layers": layer_times.measure,
    "reports": reports.measure,
    "growth": growth.measure,
    "frameworks": other_frameworks.measure,
    "audits": audits.measure,
}


def describe_machine() -> str:
    """Return what was measured on what machine, and when."""
    packages = ("torch", "tensorflow", "onnx", "onnxruntime", "jax")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    cores = f"{os.cpu_count()} cores, {_name_processor()}"
    return f"Measured on {date.today():%-d %B %Y}: {cores}, Python {platform.python_version()}, {versions}."


def _name_processor() -> str:
    """Return the name of the processor as Linux tells it, or what Python knows of it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def measure_section(name: str, options: Options) -> tuple[dict[str, Table], list[str]]:
    """Return the tables of a section, and the figures that are worse than the page's, two times in a row."""
    tables = SECTIONS[name](options)
    worse = _compare_with_page(tables)
    if worse and not options.quick:
        tables = SECTIONS[name](options)
        worse = _compare_with_page(tables)
    return tables, worse


def _compare_with_page(tables: Mapping[str, Table]) -> list[str]:
    lines = []
    for name, table in tables.items():
        before = read_table(PAGE, name, table.guarded)
        lines += [f"{name}: {line}" for line in find_worse(before, table)] if before is not None else []
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Measure the sections, print their tables, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", metavar="PYTHON", default=sys.executable, help="the interpreter with other tools")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="a section; all of them unless given")
    parser.add_argument("--check", action="store_true", help="compare with the page and leave it as it is")
    parser.add_argument("--quick", action="store_true", help="few models and rounds, to see that it runs; no page")
    asked = parser.parse_args(arguments)
    options = Options(peers=asked.peers, quick=asked.quick)
    texts: dict[str, str] = {} if asked.only else {"machine": describe_machine()}
    worse: list[str] = []
    for section in asked.only or SECTIONS:
        tables, lines = measure_section(section, options)
        worse += lines
        for name, table in tables.items():
            print(f"\n{name}\n\n{table}", flush=True)
            texts[name] = str(table)
    if "growth" in texts:
        texts["picture"] = growth.SHOWN
    if options.quick:
        return
    if worse:
        sys.exit("\nworse than docs/speed.rst by more than 10 %:\n" + "\n".join(worse))
    if not asked.check:
        write_tables(PAGE, texts)


if __name__ == "__main__":
    main()
