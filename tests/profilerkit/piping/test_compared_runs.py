"""A run that contradicts the trace makes incomplete what follows from the trace, whenever either was computed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from profilerkit import IncompleteStatusError, Metric, ModelTrace, Profiler, ProfilerFunction, Run, compare, profile
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.trace import ObservedRun
from profilerkit.trace.completeness import TracePart

X = FakeTensor((1, 3))
OTHER = (
    "the model does other work when it is run than in the static pass, which is counted here: its first run has 7 MACs "
    "in its operators, the static pass 10"
)
COUNTS = ("macs", "flops", "memory_footprint")


class Observing(FakeBackend):
    """Sees work in each run that is given to it; the trace has 10 MACs."""

    def __init__(self, macs: int = 7) -> None:
        super().__init__()
        self.macs = macs

    def trace(self, model: FakeModel, inputs: Any) -> ModelTrace:
        return replace(super().trace(model, inputs), operator_macs=10)

    def run(self, model: FakeModel, inputs: Any, *options: Any) -> AbstractContextManager[Run]:
        running = super().run(model, inputs, *options)

        @contextmanager
        def observed() -> Any:
            with running as run:
                run.runs.append(ObservedRun("its first run", self.macs))
                yield run

        return observed()


def model() -> FakeModel:
    return FakeModel([FakeLayer("a", params=5, macs=10)])


def said(report: Any) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {key: (report.status(key).completeness.value, report.status(key).missing) for key in report.statuses}


@pytest.mark.parametrize("names", [(*COUNTS, "execution_time"), ("execution_time", *COUNTS)])
def test_counts_are_partial_whether_they_come_first_or_last(names: tuple[str, ...]) -> None:
    found = profile(model(), X, backend=Observing(), metrics=[*names, "total_params", "model_size"])
    assert said(found) == {
        **dict.fromkeys(COUNTS, ("partial", (OTHER,))),
        **dict.fromkeys(("execution_time", "total_params", "model_size"), ("complete", ())),
    }
    assert found["macs"] == 10
    assert found.notes.count(OTHER) == 1


def test_counts_are_complete_where_the_run_agrees() -> None:
    found = profile(model(), X, backend=Observing(10), metrics=[*COUNTS, "execution_time"])
    assert set(said(found).values()) == {("complete", ())}
    assert OTHER not in found.notes


def test_nothing_is_traced_or_computed_again() -> None:
    class Counted(Metric):
        NAME = "counted"
        DERIVED_FROM = TracePart.OPERATORS

    class Double(Metric):
        NAME = "double"

    calls: list[str] = []

    class ComputeCounted(ProfilerFunction):
        KEYS = (Counted,)

        def __call__(self, trace: ModelTrace) -> int:
            calls.append("counted")
            return trace.macs

    class ComputeDouble(ProfilerFunction):
        KEYS = (Double,)

        def __call__(self, counted: int) -> int:
            calls.append("double")
            return 2 * counted

    backend = Observing()
    profiler = Profiler(model(), inputs=X, backend=backend)
    for item in (ComputeCounted(), ComputeDouble()):
        profiler.register_profiler_function(item)
    profiler.register_defaults()
    assert profiler.compute_status("double") == 20
    assert outcome(profiler, "double") == ("complete", ())
    profiler.compute_status("execution_time")
    assert outcome(profiler, "counted") == outcome(profiler, "double") == ("partial", (OTHER,))
    assert profiler.compute_status("double") == 20
    assert outcome(profiler, "double") == ("partial", (OTHER,))
    assert (calls, backend.traced) == (["counted", "double"], 1)


def outcome(profiler: Profiler, name: str) -> tuple[str, tuple[str, ...]]:
    found = dict(profiler.status_items(to_value=False))[name].outcome
    return found.completeness.value, found.missing


def test_a_value_of_counts_and_times_together_lacks_what_the_times_have_shown() -> None:
    """The counts were taken before the run that contradicts them, for the same function."""

    class Speed(Metric):
        NAME = "speed"

    class ComputeSpeed(ProfilerFunction):
        KEYS = (Speed,)

        def __call__(self, macs: int, execution_time: Any) -> float:
            return 1.0

    profiler = Profiler(model(), inputs=X, backend=Observing())
    profiler.register_defaults()
    profiler.register_profiler_function(ComputeSpeed())
    assert profiler.compute_status("speed") == 1.0
    assert outcome(profiler, "speed") == ("partial", (OTHER,))


def test_runs_of_other_inputs_say_nothing_of_the_trace() -> None:
    profiler = Profiler(model(), inputs=X, backend=Observing())
    profiler.register_defaults()
    profiler.compute_status("macs")
    profiler.compute_status("execution_time", batch_size=2)
    assert outcome(profiler, "macs") == ("complete", ())
    profiler.compute_status("execution_time", batch_size=1)
    profiler.compute_status("macs", batch_size=1)
    assert outcome(profiler, "macs") == ("partial", (OTHER,))


def test_models_that_are_compared_are_checked_each() -> None:
    profilers = [
        Profiler(model(), inputs=X, backend=Observing(macs), name=name) for name, macs in (("odd", 7), ("even", 10))
    ]
    for profiler in profilers:
        profiler.register_defaults()
    found = compare(*profilers, metrics=["macs", "execution_time"], num_iters=3)
    by_name: Mapping[str, Any] = {report.name: report for report in found.reports}
    assert said(by_name["odd"])["macs"] == ("partial", (OTHER,))
    assert said(by_name["even"])["macs"] == ("complete", ())


@pytest.mark.parametrize("names", [("macs", "execution_time"), ("execution_time", "macs")])
def test_strict_raises(names: tuple[str, ...]) -> None:
    with pytest.raises(IncompleteStatusError, match="its first run has 7 MACs"):
        profile(model(), X, backend=Observing(), metrics=names, strict=True)
