"""Which tests `make test-fast` leaves out is found by what they name."""

from __future__ import annotations

from pathlib import Path

import pytest
from heavy import is_heavy
from source_tree import ROOT

TESTS = """
import subprocess
import numpy

import pytest
from plugin_fixtures import info

def helper():
    return subprocess.run([])

@pytest.fixture
def started():
    return helper()

CASES = [helper]

def test_calls(): helper()
def test_fixture(started): ...
def test_constant():
    assert CASES
def test_framework():
    pytest.importorskip("torch")
def test_lazy_import():
    from profilerkit_tensorflow import costs
def test_light():
    assert info and "torch is only a word here"
"""


@pytest.mark.parametrize("name", ["calls", "fixture", "constant", "framework", "lazy_import"])
def test_a_test_is_heavy_by_what_it_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    assert is_heavy(tmp_path / "test_it.py", f"test_{name}")


def test_a_test_that_names_nothing_heavy_is_light(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    assert not is_heavy(tmp_path / "test_it.py", "test_light")


def test_an_import_of_a_framework_at_the_top_is_of_every_test(tmp_path: Path) -> None:
    for statement in ("import torch", "from keras import layers", 'tf = pytest.importorskip("tensorflow")'):
        path = tmp_path / f"test_{abs(hash(statement))}.py"
        path.write_text(f"{statement}\ndef test_it(): ...\n")
        assert is_heavy(path, "test_it"), statement


def test_what_tests_share_counts_too() -> None:
    """`test_house` starts processes in a helper, `test_rooms` reads files alone."""
    assert is_heavy(ROOT / "tests/house/test_house.py", "test_importing_is_light")
    assert not is_heavy(ROOT / "tests/house/test_rooms.py", "test_circles_are_seen")
