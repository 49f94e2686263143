"""A calibration that was disturbed takes nothing out that was not added."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from profilerkit import Completeness, profile
from profilerkit_torch.layer_timing import measured_overhead, timer
from profilerkit_torch.layer_timing.clocks import HostClock
from profilerkit_torch.layer_timing.timed_calls import Overhead

X = torch.ones(2, 4)
#: The layers that make nodes of the gradient's graph: the others have no backward time of their own.
WITH_NODES = ("0", "1", "2.1")


@pytest.mark.parametrize("overhead", [Overhead(hook=0.5), Overhead(inside=0.5), Overhead(outside=0.5)])
def test_no_time_becomes_zero_and_the_report_says_so(monkeypatch: pytest.MonkeyPatch, overhead: Overhead) -> None:
    """Half a second for a hook or a call, in layers of microseconds: more than each of their times."""
    monkeypatch.setattr(timer, "measure_overhead", lambda clock: overhead)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Identity(), nn.Linear(4, 2)))
    report = profile(model, X, metrics="layer_times", passes=3)
    table = report["layer_times"]
    assert all(row["own_forward_seconds"] > 0 for row in table)
    assert all(table[path]["own_backward_seconds"] > 0 for path in WITH_NODES)
    assert table[""]["backward_seconds"] >= sum(table[path]["own_backward_seconds"] for path in WITH_NODES) / 2
    assert report.statuses["layer_times"].completeness is Completeness.PARTIAL
    direction = "backward" if overhead.hook else "forward"
    assert f"{direction}, what measuring adds is still in the time of" in table[""]["missing"]
    assert all(row["overhead_seconds"] == 0 for row in table), "what was not taken out is not said to be"


def test_one_disturbed_calibration_of_three_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, hooks = [(1e-7, 2e-7), (3e-4, 3e-4), (2e-7, 1e-7)], iter([3e-4, 1e-6, 0.0])
    calls = iter(pairs)
    monkeypatch.setattr(measured_overhead, "_measure_calls", lambda clock: next(calls))
    monkeypatch.setattr(measured_overhead, "_measure_hooks", lambda clock: next(hooks))
    assert measured_overhead.measure_overhead(HostClock()) == Overhead(2e-7, 2e-7, 1e-6)
