"""Percentiles in the figure of samples: only those that so many samples can tell."""

from __future__ import annotations

import pytest
from drawn_figures import REPORT, record, report, texts

from profilerkit import Measurement, Report, Scale
from profilerkit_pages.figures import latency

pytest.importorskip("matplotlib")


def make_timed(name: str, *samples: float) -> Report:
    time = record("execution_time", Measurement(samples), "s", Scale.TIME)
    return report(name, statuses={"execution_time": time})


def test_percentiles_that_so_few_samples_cannot_tell_are_left_out() -> None:
    """One of ten samples is expected above p90, one of a hundred above p99."""
    figure = latency(REPORT)
    assert len(figure.axes[0].lines) == 1, "the median alone"
    said = "".join(texts(figure))
    assert "p99 4" not in said
    assert "Percentiles left out, of 4 samples: p90 needs 10, p99 needs 100." in said
    ten = latency(make_timed("a", *(1 + place / 9 for place in range(10))))
    assert len(ten.axes[0].lines) == 2
    assert "Percentiles left out, of 10 samples: p99 needs 100." in "".join(texts(ten))
    hundred = latency(make_timed("a", *(1 + place / 99 for place in range(100))))
    assert len(hundred.axes[0].lines) == 3
    assert "left out" not in "".join(texts(hundred))
