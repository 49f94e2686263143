"""A model that several processes run together must be called equally often by each."""

from __future__ import annotations

from typing import Any

import pytest

from profilerkit import InputError, profile
from profilerkit.backend import AS_IT_IS, RunOptions
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor


class TwoRanks(FakeBackend):
    """Says that two processes run the model; it takes any options for timing."""

    def ranks(self, model: Any) -> int:
        return 2

    def run(self, model: Any, inputs: Any, options: RunOptions = AS_IT_IS) -> Any:
        return super().run(model, inputs)


def time_metric(metric: str, **given: Any) -> Any:
    model = FakeModel([FakeLayer("layer", macs=10, params=5)])
    return profile(model, FakeTensor((2, 3)), backend=TwoRanks(), metrics=[metric], strict=True, **given)[metric]


@pytest.mark.parametrize("metric", ["execution_time", "training_time", "batch_sweep"])
def test_every_timed_metric_needs_a_fixed_number_of_calls(metric: str) -> None:
    given = {"batch_size": (1, 2)} if metric == "batch_sweep" else {}
    for missing in ({}, {"num_iters": 3}, {"warmup": 1}):
        with pytest.raises(InputError, match="the model runs in 2 processes.*give num_iters= and warmup="):
            time_metric(metric, **given, **missing)
    assert time_metric(metric, **given, num_iters=3, warmup=1)


def test_drop_first_is_warmup_here_too() -> None:
    assert len(time_metric("execution_time", num_iters=3, drop_first=1).samples) == 3
