"""Weights of lazy modules, which exist only after the first call, are never counted as none."""

from __future__ import annotations

from torch import nn

from profilerkit import Completeness, profile


def test_lazy_weights_alone_are_a_failure_not_zero() -> None:
    report = profile(nn.Sequential(nn.LazyLinear(3)), metrics=["total_params", "model_size"])
    for name in ("total_params", "model_size"):
        status = report.status(name)
        assert (status.completeness, status.value) == (Completeness.FAILED, None)
        assert "lazy modules, which the first call makes: give inputs or input_shape" in status.missing[0]


def test_lazy_weights_beside_others_leave_a_lower_bound() -> None:
    status = profile(nn.Sequential(nn.Linear(4, 2), nn.LazyLinear(3)), metrics=["total_params"]).status("total_params")
    assert (status.completeness, status.value) == (Completeness.PARTIAL, 4 * 2 + 2)


def test_with_an_input_shape_lazy_weights_are_counted() -> None:
    report = profile(nn.Sequential(nn.LazyLinear(3)), input_shape=(5,), metrics=["total_params"])
    assert report["total_params"] == 5 * 3 + 3
