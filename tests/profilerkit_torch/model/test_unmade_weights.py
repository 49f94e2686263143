"""Weights of lazy modules, which exist only after the first call, are never counted as none."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

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


class LazyScale(LazyModuleMixin, nn.Module):
    """A lazy module of a user's, with a parameter of 3 elements from the start."""

    cls_to_become = None  # it keeps its class

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(3))
        self.scale = nn.UninitializedParameter()

    def initialize_parameters(self, x: torch.Tensor) -> None:
        if self.has_uninitialized_params():
            self.scale.materialize(x.shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_a_lazy_module_of_a_users_is_counted_with_the_size_of_the_inputs() -> None:
    """3 parameters, and 2 * 4 of the size of the inputs."""
    report = profile(nn.Sequential(LazyScale()), torch.ones(2, 4), metrics=["total_params"])
    assert report["total_params"] == 3 + 2 * 4


def test_a_layer_that_lacks_one_of_its_weights_has_no_number() -> None:
    rows = profile(nn.Sequential(LazyScale(), nn.Linear(4, 2)), metrics=["total_params"]).layerwise
    assert {row["path"]: row["params"] for row in rows} == {"": None, "0": None, "1": 4 * 2 + 2}
