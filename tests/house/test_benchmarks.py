"""Benchmarks are run by hand. Tested: they import, the files they name exist, their page is read and written."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from source_tree import ROOT
from time_limits import run_python

SCRIPT = """
import importlib, pathlib, sys
sys.path[:0] = sys.argv[1:]
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    for constant, value in vars(importlib.import_module(path.stem)).items():
        if isinstance(value, pathlib.Path) and not value.exists():
            print(f"{path.name}: {constant} is {value}, which does not exist")
"""


@pytest.mark.slow
def test_every_path_that_a_benchmark_names_exists() -> None:
    """In a process of its own: a benchmark changes the path and imports every framework."""
    pytest.importorskip("tensorflow")
    folders = [str(ROOT / name) for name in ("benchmarks", "examples", "tests/support")]
    outcome = run_python(SCRIPT, *folders)
    assert outcome.stdout == ""


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the page's tables."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("speed.tables")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return a page with a place for one table, and text around it."""
    path = tmp_path / "page.rst"
    path.write_text("Before.\n\n.. measured times: begin\n\n.. measured times: end\n\nAfter.\n", encoding="utf-8")
    return path


def test_a_table_is_read_from_the_page_as_it_was_written(tables: Any, page: Path) -> None:
    table = tables.Table(
        ("model", "time", "in passes"), (("two words", "1,200 ms", "0.5"), ("x", "", "2")), ("in passes",)
    )
    assert tables.read_table(page, "times", table.guarded) is None
    for _ in range(2):  # a second time it replaces the first
        tables.write_tables(page, {"times": str(table)})
        assert tables.read_table(page, "times", table.guarded) == table
    text = page.read_text(encoding="utf-8")
    assert text.startswith("Before.\n") and text.endswith("After.\n") and text.count("two words") == 1


def test_a_guarded_figure_may_be_a_tenth_worse(tables: Any) -> None:
    def rows(first: str, second: str) -> Any:
        return tables.Table(("model", "time", "ratio"), (("a", first, first), ("b", "1 s", second)), ("ratio",))

    assert tables.find_worse(rows("1,000", "2.0"), rows("1,099", "2.2")) == []
    assert tables.find_worse(rows("1,000", "2.0"), rows("900", "2.3")) == ["b, ratio: 2.3, +15% against 2"]
    assert tables.find_worse(rows("not there", "2.0"), rows("5", "1.0")) == []
    assert tables.find_worse(rows("0.00", "0.03"), rows("0.01", "0.04")) == [], "one in the last digit"
    assert tables.find_worse(rows("0.00", "0.03"), rows("0.02", "0.04")) == ["a, ratio: 0.02, new against 0"]


def test_a_row_of_another_program_is_not_guarded(tables: Any) -> None:
    def rows(ours: str, theirs: str) -> Any:
        return tables.Table(("tool", "ratio"), (("ours", ours), ("theirs", theirs)), ("ratio",), ("theirs",))

    assert tables.find_worse(rows("1.0", "1.0"), rows("1.0", "2.0")) == []
    assert tables.find_worse(rows("1.0", "1.0"), rows("2.0", "2.0")) == ["ours, ratio: 2, +100% against 1"]


def test_the_page_has_a_place_for_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks" / "speed").glob("*.py"))
    names = re.findall(r"^\.\. measured (.+): begin$", (ROOT / "docs" / "speed.rst").read_text(encoding="utf-8"), re.M)
    assert names[0] == "machine" and "picture" in names  # of the run
    tables = set(names) - {"machine", "picture"}
    assert sorted(name for name in tables if f'"{name}": ' not in sources) == []
