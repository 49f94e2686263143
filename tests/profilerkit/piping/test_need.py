"""What a function needs of the model: what its signature says, and what a run shows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from profilerkit import JointFunction, Metric, Profiler, ProfilerFunction, metric, profile
from profilerkit.errors import ArgumentError, ArgumentWarning
from profilerkit.piping.function import Need
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel

X = ((1.0, 2.0),)
#: What some metrics need in order to be computed.
ARGUMENTS: dict[str, Any] = {"num_iters": 2, "warmup": 0, "fit_in": "1 GB", "on": "t4", "peaks_of": "t4"}


def make_model() -> FakeModel:
    return FakeModel([FakeLayer("first", params=10, macs=100)])


def make_profiler() -> Profiler:
    return Profiler(make_model(), inputs=X, backend=FakeBackend()).register_defaults()


NAMES = [binding.key.NAME for binding in make_profiler()._registry]


@pytest.mark.parametrize("name", NAMES)
def test_what_needs_no_run_runs_nothing(name: str) -> None:
    """Computed, the key has run the model only if it needs a run; times are among those that have run it."""
    profiler = make_profiler()
    need = profiler._registry.find_need(name)
    takes = profiler._registry.list_reaching_arguments([name])
    profiler.compute(name, strict=False, **{key: value for key, value in ARGUMENTS.items() if key in takes})
    calls = profiler.model.calls
    assert calls == 0 or need is Need.RUN
    if name in ("execution_time", "throughput", "mfu"):
        assert calls > 0


def test_needs_of_what_is_built_in() -> None:
    registry = make_profiler()._registry
    needs = {need: {name for name in NAMES if registry.find_need(name) is need} for need in Need}
    assert {"inputs", "run_options", "sampling", "step_time"} <= needs[Need.NOTHING]
    assert {"trace", "training_trace", "macs", "total_params", "memory_footprint"} <= needs[Need.TRACE]
    assert {"nonzero_trace", "effective_macs", "sparsity", "training_memory", "largest_batch"} <= needs[Need.MODEL]
    assert {"execution_time", "throughput", "layer_times", "measured_memory", "mfu", "energy"} <= needs[Need.RUN]


class Answer(Metric):
    """An answer."""

    NAME = "answer"


class Reads(ProfilerFunction):
    """Reads an attribute of the model."""

    KEYS = (Answer,)
    NEED = Need.MODEL

    def __call__(self, model: Any) -> int:
        return len(model.layers)


class ThroughBackend(ProfilerFunction):
    KEYS = (Answer,)
    ONLY_THROUGH_BACKEND = True

    def __call__(self, model: Any, backend: Any) -> int:
        return len(backend.model_type(model))


class Jointly(JointFunction):
    KEYS = (Answer,)

    def __call__(self, trace: Any) -> int:
        return 4

    def measure_together(self, calls: Any) -> Any:
        return [4 for _ in calls]


def make_metric(function: Callable[..., Any], need: str | None = None) -> ProfilerFunction:
    function.__name__ = "answer"
    return metric("answer", need=need)(function)


SHAPES = {
    "the model": (make_metric(lambda model: model(1)), Need.RUN),
    "the model and a device": (make_metric(lambda model, device=None: model(1)), Need.RUN),
    "the model and the options of a run": (make_metric(lambda run_options, model: model(1)), Need.RUN),
    "the model and the backend": (make_metric(lambda model, backend: model(1)), Need.RUN),
    "the data": (make_metric(lambda data_splits: 1), Need.RUN),
    "the profiler": (make_metric(lambda profiler: profiler.model(1)), Need.RUN),
    "the inputs": (make_metric(lambda inputs: 1), Need.RUN),
    "a plan of samples": (make_metric(lambda sampling: 1), Need.RUN),
    "several models": (Jointly(), Need.RUN),
    "a time": (make_metric(lambda execution_time: 1), Need.RUN),
    "a time, by an alias": (make_metric(lambda latency: 1), Need.RUN),
    "a time, and says that it only reads": (make_metric(lambda latency: 1, need="nothing"), Need.RUN),
    "the model, and says that it only reads it": (make_metric(lambda model: 1, need="model"), Need.MODEL),
    "the model, and says so in a class": (Reads(), Need.MODEL),
    "the model through the backend": (ThroughBackend(), Need.MODEL),
    "the trace and a device": (make_metric(lambda trace, device=None: 1), Need.TRACE),
    "a count": (make_metric(lambda params: params), Need.TRACE),
    "the backend": (make_metric(lambda backend: len(backend.name)), Need.NOTHING),
    "an argument": (make_metric(lambda tokens=3: tokens), Need.NOTHING),
}


@pytest.mark.parametrize(("function", "need"), SHAPES.values(), ids=SHAPES.keys())
def test_a_function_of_a_user(function: ProfilerFunction, need: Need) -> None:
    """With static=True it is computed if it needs no run, and refused by name if it does: the model never runs."""
    profiler = make_profiler()
    profiler.register_profiler_function(function)
    assert profiler._registry.find_need("answer") is need
    model = make_model()
    arguments: dict[str, Any] = {"functions": [function], "metrics": ["answer"], "static": True}
    if need is Need.RUN:
        with pytest.raises(ArgumentError, match=r"^static=True runs nothing, and answer needs the model to run; leave"):
            profile(model, X, backend=FakeBackend(), **arguments)
    else:
        assert profile(model, X, backend=FakeBackend(), **arguments)["answer"] > 0
    assert model.calls == 0


def test_what_is_left_out_because_it_might_run_is_named() -> None:
    reads = make_metric(lambda model: len(model.layers))
    with pytest.warns(
        ArgumentWarning, match=r"may run the model: answer can run it, .*; if it never .* need=\"model\""
    ):
        report = profile(make_model(), X, backend=FakeBackend(), functions=[reads], static=True)
    assert "answer" not in report and "macs" in report
    with pytest.raises(ArgumentError, match="answer can run it"):
        profile(make_model(), X, backend=FakeBackend(), functions=[reads], static=True, strict=True)
    with pytest.raises(ArgumentError, match="leave out one of both: answer can run it, since the function takes"):
        profile(make_model(), X, backend=FakeBackend(), functions=[reads], metrics=["answer"], static=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert profile(make_model(), X, backend=FakeBackend(), functions=[Reads()], static=True)["answer"] == 1


def test_a_need_that_is_none_is_refused() -> None:
    class Misspelt(Reads):
        NEED = "modle"  # type: ignore[assignment]

    with pytest.raises(ArgumentError, match="need='modle': give one of 'nothing', 'trace', 'model', 'run'"):
        metric("answer", need="modle")
    with pytest.raises(TypeError, match=r"Misspelt has NEED = 'modle'; give a member, such as Need.MODEL"):
        make_profiler().register_profiler_function(Misspelt())
