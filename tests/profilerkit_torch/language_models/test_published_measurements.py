"""Published measurements: none is faster than our bound, and the page says what the data has."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
published: Any = import_module("published_measurements")
sys.path.remove(str(ROOT / "benchmarks"))
CONTENT = published.read()


def cells() -> list[list[str]]:
    """Return the rows of the page's table, without its titles."""
    text = (ROOT / "docs" / "published-measurements.rst").read_text(encoding="utf-8")
    lines = [line[7:] for line in text.splitlines() if line.startswith(("   * - ", "     - "))]
    width = len(published.TITLES)
    return [lines[start : start + width] for start in range(width, len(lines), width)]


def test_every_measurement_has_an_address_and_at_least_four_gpus_are_there() -> None:
    assert len({item["device"] for item in CONTENT["measurements"]}) >= 4
    page = (ROOT / "docs" / "published-measurements.rst").read_text(encoding="utf-8")
    for item in CONTENT["measurements"]:
        address = CONTENT["sources"][item["source"]]["address"]
        assert address.startswith("https://")
        assert address in page


def test_published_numbers_become_seconds() -> None:
    assert published.read_seconds({"published": "36 ms", "prompt": 2048}) == 0.036
    assert published.read_seconds({"published": "50 tokens/s", "new": 100}) == 0.02
    assert published.read_seconds({"published": "1000 tokens/s", "prompt": 512}) == 0.512


def test_no_bound_is_above_a_measurement_and_the_page_has_the_table() -> None:
    rows = [list(row) for row in published.rows()]
    assert all(0.2 < float(row[-1]) < 1 for row in rows)
    assert rows == cells()
