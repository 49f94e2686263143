"""An argument that only functions take which are not asked for changes nothing, and that is said."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from torch import nn

from profilerkit import ArgumentError, ArgumentWarning, compare, metric, profile
from profilerkit_torch import TorchProfiler

MODEL, SHAPE = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (4,)


def profiler() -> Any:
    return TorchProfiler(MODEL, input_shape=SHAPE).register_defaults()


#: Ways to ask for layer_times alone, with further arguments.
WAYS: dict[str, Any] = {
    "profile": lambda **given: profile(MODEL, input_shape=SHAPE, metrics="layer_times", **given),
    "compare": lambda **given: compare(MODEL, nn.Linear(4, 2), input_shape=SHAPE, metrics="layer_times", **given),
    "compute": lambda **given: profiler().compute(["layer_times"], **given),
    "compute_each": lambda **given: list(profiler().compute_each(["layer_times"], **given)),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_reaches_nothing_that_is_requested_is_said(way: str) -> None:
    with pytest.warns(
        ArgumentWarning, match="nothing that is requested takes an argument 'num_iters', only .*execution"
    ):
        WAYS[way](num_iters=30, passes=2)
    with pytest.raises(ArgumentError, match="takes an argument 'num_iters'.*leave it out, or request one of these"):
        WAYS[way](num_iters=30, strict=True)


@pytest.mark.parametrize("way", WAYS)
def test_what_reaches_it_says_nothing(way: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WAYS[way](passes=2, backward=False, batch_size=2, device="cpu")


def test_one_status_after_the_other_may_have_common_arguments() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert profiler().compute_status("macs", max_seconds=1) == 16


def test_an_argument_reaches_through_bundles_and_through_what_a_function_needs() -> None:
    """``num_iters`` is a part of the sampling that ``execution_time`` takes, which this metric needs."""

    @metric("twice_the_time")
    def twice_the_time(latency: Any, factor: int = 2) -> float:
        return factor * float(latency)

    report = profile(
        MODEL, input_shape=SHAPE, functions=[twice_the_time], metrics="twice_the_time", num_iters=3, factor=4
    )
    assert report["twice_the_time"] > 0
    assert "num_iters" in report.arguments


def test_an_argument_of_one_of_several_models_is_fine() -> None:
    @metric("scaled")
    def scaled(macs: int, scale: int = 3) -> int:
        return scale * macs

    first = TorchProfiler(MODEL, input_shape=SHAPE).register_defaults()
    first.register_profiler_function(scaled)
    second = TorchProfiler(nn.Linear(4, 2), input_shape=SHAPE).register_defaults()
    result = compare(first, second, metrics=None, leave_out=(), scale=5, max_seconds=0.1)
    assert result.reference["scaled"] == 5 * 16


def test_an_argument_that_was_not_used_is_not_said_to_be_a_condition() -> None:
    with pytest.warns(ArgumentWarning):
        report = profile(MODEL, input_shape=SHAPE, metrics="macs", num_iters=30)
    assert "num_iters" not in report.arguments
