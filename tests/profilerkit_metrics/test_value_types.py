"""What editors know of a value, ``report["macs"]`` is an int, is what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
import torch
from torch import nn

from profilerkit import Measurement, Report, profile
from profilerkit.arguments.keywords import FloatKey, IntKey, KeyName, MeasurementKey
from profilerkit_torch import watch

if TYPE_CHECKING:
    from typing import assert_type

KEYS: dict[type, tuple[str, ...]] = {
    int: get_args(IntKey),
    float: get_args(FloatKey),
    Measurement: get_args(MeasurementKey),
}


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.fixture(scope="module")
def report() -> Report:
    options: dict[str, Any] = {"on": "h100", "peaks_of": "h100", "compile": "eager", "num_iters": 3}
    return profile(net(), torch.ones(2, 8), metrics=[*get_args(KeyName)], **options)


@pytest.fixture(scope="module")
def watched() -> Report:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watch(model, optimizer, (0, 1, 2)) as steps:
        for _ in range(4):
            model(torch.ones(2, 8)).sum().backward()
            optimizer.step()
            steps.step()
    times = ["step_time", "forward_time", "backward_time", "optimizer_time", "other_time"]
    return steps.report([*times, "step_mfu", "step_hfu"], peaks_of="h100")


def test_each_value_is_of_the_type_that_editors_are_told(report: Report, watched: Report) -> None:
    untested = []
    for kind, names in KEYS.items():
        for name in names:
            values = [each[name] for each in (report, watched) if name in each and each[name] is not None]
            assert all(type(value) is kind for value in values), name
            untested += [] if values else [name]
    assert untested == []


def test_a_type_checker_knows_them(report: Report) -> None:
    """mypy checks these; a value that is missing is None, so each may be anything as well."""
    if TYPE_CHECKING:
        assert_type(report["macs"], int | Any)
        assert_type(report["sparsity"], float | Any)
        assert_type(report["execution_time"], Measurement | Any)
        assert_type(report["layer_times"], Any)
    assert report["execution_time"].median > 0
