"""``make test-for FILE=...`` names the tests that stand where the file's room does, then those that import it."""

from __future__ import annotations

from pathlib import Path

import pytest
from covering import find_covering
from source_tree import ROOT


def test_tests_of_a_file_are_named_the_nearest_first() -> None:
    found = [
        (distance, str(test.relative_to(ROOT))) for distance, test in find_covering(ROOT / "profilerkit/trace/table.py")
    ]
    assert found == sorted(found)
    assert (0, "tests/profilerkit/trace/test_layer_table.py") in found
    assert (1, "tests/profilerkit_pages/figures/test_figures.py") in found


def test_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no source file of the project; give one such as profilerkit/piping"):
        list(find_covering(tmp_path / "net.py"))
