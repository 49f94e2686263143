"""Which tests `make test-fast` leaves out is found by what they name."""

from __future__ import annotations

from pathlib import Path

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


def test_a_test_is_heavy_by_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(TESTS)
    for name in ("calls", "fixture", "constant", "framework", "lazy_import"):
        assert is_heavy(path, f"test_{name}"), name
    assert not is_heavy(path, "test_light")


def test_an_import_of_a_framework_at_the_top_is_of_every_test(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text('tf = pytest.importorskip("tensorflow")\ndef test_it(): ...\n')
    assert is_heavy(path, "test_it")


def test_what_tests_share_counts_too() -> None:
    """`test_house` starts processes in a helper, `test_rooms` reads files alone."""
    assert is_heavy(ROOT / "tests/house/test_house.py", "test_importing_is_light")
    assert not is_heavy(ROOT / "tests/house/test_rooms.py", "test_circles_are_seen")
