"""Ceilings: measured by the best that a framework reaches, with a roof for bytes in caches."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from drawn_figures import REPORT, texts

from profilerkit import ArgumentError
from profilerkit.testing import FakeBackend
from profilerkit.times.ceiling_work import CeilingWork
from profilerkit_pages.figures import Ceilings, roofline

pytest.importorskip("matplotlib")


def test_ceilings_are_measured() -> None:
    """A clock that ticks at each look: every call takes 1 s, so what does the most counts."""
    ticks, calls = iter(range(10_000)), Counter[str]()
    work = [("flops", 2000), ("flops", 250), ("bytes", 128), ("cached_bytes", 512)]

    class Measuring(FakeBackend):
        @contextmanager
        def ceiling_work(self, num_threads: int | None) -> Iterator[list[CeilingWork]]:
            calls["threads"] = num_threads or 0
            yield [CeilingWork(kind, amount, partial(calls.update, [kind])) for kind, amount in work]

    report = replace(REPORT, arguments={"num_threads": "3"})
    ceilings = Ceilings.measure(report, 20, backend=Measuring(), clock=lambda: float(next(ticks)))
    assert ceilings == Ceilings(2000, 128, 512)
    assert ceilings.ridge == 2000 / 128
    assert (ceilings.roof(1), ceilings.roof(1000)) == (512, 2000)
    assert calls["threads"] == 3
    assert calls["flops"] == 2 * calls["bytes"] >= 4


@pytest.mark.heavy
def test_ceilings_of_a_backend_without_such_work_are_those_of_numpy() -> None:
    ceilings = Ceilings.measure(max_seconds=0.01, backend=FakeBackend())
    assert ceilings.flops_per_second > 1e6
    assert ceilings.cached_bytes_per_second is not None
    assert ceilings.cached_bytes_per_second >= ceilings.bytes_per_second > 1e6


def test_ceilings_of_this_cpu_are_not_measured_for_another_device() -> None:
    with pytest.raises(ArgumentError, match=r"ran on cuda:1, and .* use Ceilings.of_device\(name\)"):
        Ceilings.measure(replace(REPORT, arguments={"device": "cuda:1"}))


def test_bytes_in_a_cache_have_a_roof_of_their_own() -> None:
    """The layer that is above the roof of the memory is below that of the caches."""
    labels = texts(roofline(REPORT, Ceilings(1e6, 1e5, 1e6)))
    assert any("1 MB/s in caches" in text for text in labels)
    assert not any("Above the ceilings" in text for text in labels)


def test_ceilings_are_above_zero() -> None:
    with pytest.raises(ValueError, match=r"bytes_per_second=0: give a number above zero"):
        Ceilings(1.0, 0)
