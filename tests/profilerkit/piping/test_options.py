"""``run_options`` and ``sampling``: what the caller passes by name, put together once for all functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from profilerkit import (
    ArgumentError,
    ArgumentWarning,
    InputError,
    Metric,
    Profiler,
    ProfilerFunction,
    RegistrationWarning,
    StatusKey,
)
from profilerkit.backend import RunOptions
from profilerkit.testing import FakeModel
from profilerkit.times.sampling import Sampling
from profilerkit_metrics import ComputeExecutionTime, ComputeParams

MakeProfiler = Callable[..., Profiler]


class Plan(Metric):
    """How a function of the user's was told to run and sample."""

    NAME = "plan"


class ComputePlan(ProfilerFunction):
    """Returns what it is given, and counts its calls."""

    KEYS = (Plan,)

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, run_options: RunOptions, sampling: Sampling) -> Any:
        self.calls += 1
        return run_options, sampling


@pytest.fixture
def profiler(model: FakeModel, make_profiler: MakeProfiler) -> Profiler:
    return make_profiler(model, ComputePlan())


def test_a_function_gets_what_the_caller_passed_by_name(profiler: Profiler) -> None:
    assert profiler.compute_status("plan") == (RunOptions(autocast=None), Sampling())
    given: dict[str, Any] = {"mode": "eager", "device": "cpu", "training": True, "compile": "x", "num_threads": 2}
    options, sampling = profiler.compute_status("plan", **given, num_iters=4, drop_first=2, confidence=0.9)
    assert options == RunOptions(True, "x", None, 2, "cpu", "eager")
    assert sampling == Sampling(num_iters=4, warmup=2, confidence=0.9)


def test_what_follows_from_the_same_options_is_remembered(profiler: Profiler) -> None:
    function: Any = profiler._registry["plan"].function
    for given in ({}, {}, {"max_seconds": 3.0}, {"batch_size": 7}):
        profiler.compute_status("plan", **given)
    assert function.calls == 1
    profiler.compute_status("plan", max_seconds=2)
    profiler.compute_status("plan", max_seconds=2, mode="eager")
    assert function.calls == 3


def test_a_loaded_value_is_computed_anew_where_a_part_of_a_bundle_is_given(profiler: Profiler) -> None:
    profiler.load_from_dict({"plan": "loaded"})
    assert profiler.compute_status("plan") == "loaded"
    assert profiler.compute_status("plan", num_iters=3)[1].num_iters == 3


def test_options_may_be_given_as_a_whole(profiler: Profiler) -> None:
    whole: dict[str, Any] = {"run_options": RunOptions(compile=True), "sampling": Sampling(num_iters=3)}
    assert profiler.compute_status("plan", **whole) == (whole["run_options"], whole["sampling"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampling": 3}, "sampling=3: give an instance of Sampling, or its arguments by name: num_iters=20"),
        ({"run_options": "fast"}, "run_options='fast': give an instance of RunOptions, or its arguments"),
        ({"num_iters": 0}, "num_iters=0: give a whole number from 1"),
        ({"mode": 3}, "mode=3: give the name of one of the backend's modes"),
        (
            {"sampling": Sampling(), "num_iters": 3, "warmup": 1},
            "both sampling and num_iters, warmup were given; give one of them: sampling holds them too",
        ),
        (
            {"run_options": RunOptions(), "device": "cpu"},
            "both run_options and device were given; give one of them: run_options holds it too",
        ),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(profiler: Profiler, given: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        profiler.compute_network_status(**given)
    assert profiler._registry["plan"].function.calls == 0  # type: ignore[attr-defined]


def test_two_warmups_fail_every_function_that_samples(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeExecutionTime(), ComputeParams())
    with pytest.raises(InputError, match="warmup=1 and drop_first=2 are two names of one number; give one of them"):
        profiler.compute_status("execution_time", warmup=1, drop_first=2)
    status = profiler.compute_network_status(warmup=1, drop_first=2)
    assert status == {"execution_time": None, "throughput": None, "total_params": 30, "trainable_params": 10}


def test_arguments_of_options_are_known_only_where_a_function_takes_them(
    model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(model, ComputeParams())
    with pytest.warns(ArgumentWarning, match="no registered function takes an argument 'num_iters'"):
        profiler.compute_status("total_params", num_iters=3)
    with pytest.warns(ArgumentWarning, match="'num_itres'; did you mean 'num_iters'?"):
        make_profiler(model, ComputePlan()).compute_status("plan", num_itres=3)


def test_a_function_of_the_users_may_say_how_times_are_sampled(profiler: Profiler) -> None:
    class Mine(StatusKey):
        NAME = "sampling"

    class Twice(ProfilerFunction):
        KEYS = Mine

        def __call__(self) -> Sampling:
            return Sampling(num_iters=2)

    profiler.register_profiler_function(Twice())
    assert profiler.compute_status("plan")[1].num_iters == 2
    with pytest.warns(RegistrationWarning, match="Twice no longer computes 'sampling'"):
        profiler.register_profiler_function(Twice())


def test_device_and_mode_are_no_other_kind_of_run() -> None:
    options = RunOptions(device="cpu", mode="eager")
    assert (options.requested, str(options)) == ({}, "")
