"""Published measurements: none is faster than our bound, and the page says what the data has."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
published: Any = import_module("published_measurements")
sys.path.remove(str(ROOT / "benchmarks"))
CONTENT = published.read()


def cells() -> list[list[str]]:
    """Return the rows of the page's first table, without its titles."""
    text, _, _others = (
        (ROOT / "docs" / "published-measurements.rst").read_text(encoding="utf-8").partition("Sources\n---")
    )
    lines = [line[7:] for line in text.splitlines() if line.startswith(("   * - ", "     - "))]
    width = len(published.TITLES)
    return [lines[start : start + width] for start in range(width, len(lines), width)]


MEASUREMENTS = tuple(published.list_measurements())


def test_every_measurement_has_an_address_on_the_page() -> None:
    assert len(MEASUREMENTS) >= 110
    assert sum(not item.lacks for item in MEASUREMENTS) >= 100
    assert len({item.device for item in MEASUREMENTS}) >= 12
    page = (ROOT / "docs" / "published-measurements.rst").read_text(encoding="utf-8")
    for item in MEASUREMENTS:
        address = CONTENT["sources"][item.source]["address"]
        assert address.startswith("https://")
        assert address in page


def make(**changes: Any) -> Any:
    kinds = {"source": "a test", "device": "h100", "model": "m", "weights": "fp8", "cache": "fp8", "what": "token"}
    return published.Measurement(**{**kinds, **changes})


@pytest.mark.parametrize(
    ("item", "seconds"),
    [
        (make(published="36 ms"), 0.036),
        (make(published="50 tokens/s", new=100), 0.02),
        (make(published="50 tokens/s", batch=8), 0.16),
        (make(published="1000 tokens/s", prompt=512, what="first token"), 0.512),
        (make(published="1000 tokens/s", prompt=512, new=100, batch=8, what="throughput"), 0.8),
        (make(published="1000 tokens/s a device", devices=4, new=100, batch=8, what="throughput"), 0.2),
        (make(published="1000 tokens/s a device", parallel="dp8,ep8", new=100, batch=8, what="in flight"), 0.1),
    ],
)
def test_published_numbers_become_seconds(item: Any, seconds: float) -> None:
    assert item.seconds == pytest.approx(seconds)


def test_requests_in_flight_take_what_their_busiest_resource_takes() -> None:
    """Two prompts of 3 tokens and 2 new tokens each: a prefill beside a step, whose weights alone are read once.

    The prefill computes 5 s, reads weights for 7 s and writes its cache for 2 s; the step computes 1 s and reads 8 s.
    """
    terms = (("products", "compute", 5.0), ("matrices", "memory", 7.0), ("cache, written", "memory", 2.0))
    prefill = [SimpleNamespace(name=name, resource=resource, seconds=seconds) for name, resource, seconds in terms]

    def cost(batch: int, new_tokens: int, cached: int = 0) -> Any:
        assert (batch, new_tokens, cached) in {(2, 3, 0), (2, 1, 3)}
        return SimpleNamespace(terms=prefill, compute_seconds=1.0, memory_seconds=8.0, link_seconds=0.0)

    assert published.bound_requests_in_flight(cost, 2, 3, 2) == 10.0  # of memory; products take 6 s


@pytest.mark.slow
def test_no_bound_is_above_a_measurement_and_the_page_has_the_table() -> None:
    rows = [list(row) for row in published.rows()]
    tested = [row for row, item in zip(rows, MEASUREMENTS, strict=True) if not item.lacks]
    assert all(0.03 < float(row[-1]) < 1 for row in tested)
    assert rows == cells()
