"""Benchmarks are run by hand: that they can be imported, and that the files which they name exist, is tested."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from source_tree import ROOT

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
    outcome = subprocess.run([sys.executable, "-c", SCRIPT, *folders], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == ""


def test_lines_of_code_are_those_with_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    code_lines = importlib.import_module("code_lines")
    text = '''"""A module.

It has three lines of docstring.
"""

# A comment.
import x  # 1


class C:  # 2
    """A class."""

    y = """no
    docstring"""  # 3, 4

    def f(self):  # 5
        """A function."""
        return [  # 6
            1,  # 7

        ]  # 8
'''
    assert code_lines.code_lines(text) == 8
    assert code_lines.code_lines('def f():\n    """Only a docstring."""\n') == 1
    assert code_lines.find_part("backends/profilerkit_torch/costs/matmul.py") == "backends/profilerkit_torch"
    assert code_lines.find_part("profilerkit/costs/matmul.py") == "profilerkit"
    assert code_lines.find_part("tests/profilerkit/trace/test_table.py") == "tests/profilerkit"
