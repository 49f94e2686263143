"""Partial, failed and unavailable are derived in one place, from the trace and the backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from profilerkit import (
    Completeness,
    JointFunction,
    Metric,
    ModelTrace,
    NotOfferedError,
    Partial,
    Profiler,
    ProfilerFunction,
    Unavailable,
    WithoutValuesError,
    compare,
    metric,
)
from profilerkit.errors import ModelFailedError
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.trace.bounds import UNKNOWN_ENDS, Bounds, Branch, Choice, PeakSpread
from profilerkit.trace.completeness import Gaps, TracePart, find_gaps
from profilerkit.trace.records import MemoryTimeline

FAILURE = ModelFailedError("the model raised ValueError: no")
X = FakeTensor((1, 3))


class Work(Metric):
    NAME = "work"
    DERIVED_FROM = TracePart.OPERATORS


class Weights(Metric):
    NAME = "weights"
    DERIVED_FROM = TracePart.WEIGHTS


class Anything(Metric):
    """Whoever wrote it did not say what it depends on."""

    NAME = "anything"


class Peak(Metric):
    NAME = "peak"
    DERIVED_FROM = TracePart.MEMORY


class ComputeAll(ProfilerFunction):
    """Returns what it is told for keys that follow from a trace, and counts its calls."""

    KEYS = (Work, Weights, Anything, Peak)

    def __init__(self, *values: Any) -> None:
        self.values = values
        self.calls = 0

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        self.calls += 1
        return dict(zip(("work", "weights", "anything", "peak"), self.values, strict=True))


class Tracing(FakeBackend):
    """Returns traces with gaps."""

    def __init__(self, **gaps: Any) -> None:
        super().__init__()
        self.gaps = gaps

    def trace(self, model: FakeModel, inputs: Any) -> ModelTrace:
        trace = super().trace(model, inputs)
        if "failure" in self.gaps:  # nothing was seen of the operators then
            trace = replace(trace, operators=(), memory=MemoryTimeline())
        return replace(trace, **self.gaps)


def outcomes(function: ProfilerFunction, backend: FakeBackend) -> dict[str, tuple[Any, str, tuple[str, ...]]]:
    profiler = Profiler(FakeModel([FakeLayer("a")]), inputs=X, backend=backend)
    profiler.register_profiler_function(function)
    profiler.compute_network_status()
    found = {key: status.outcome for key, status in profiler.status_items(to_value=False)}
    return {key: (value.value, value.completeness.value, value.missing) for key, value in found.items()}


def test_a_value_lacks_what_its_part_of_the_trace_lacks() -> None:
    uncounted = Tracing(uncounted={"my::op": 2}, memory=MemoryTimeline(live_bytes=(0,), unsized={"their::op": 1}))
    assert outcomes(ComputeAll(1, 2, "a", Partial(4, ("more",))), uncounted) == {
        "work": (1, "partial", ("my::op (2 calls)",)),
        "weights": (2, "complete", ()),
        "anything": ("a", "partial", ("my::op (2 calls)", "their::op of unknown size (1 call)")),
        "peak": (4, "partial", ("their::op of unknown size (1 call)", "more")),
    }


@pytest.mark.parametrize(
    ("gap", "lacking"),
    [
        ({"uncounted": {"my::op": 1}}, {"work", "anything"}),
        ({"memory": MemoryTimeline(live_bytes=(0,), unsized={"my::op": 1})}, {"peak", "anything"}),
        (
            {"choices": (Choice((Branch({"a": (1, 2)}), Branch({})), 0, "why"),), "peak_spread": PeakSpread()},
            {"work", "anything"},
        ),
        ({"peak_spread": PeakSpread(above=8, reasons=("why",))}, {"peak", "anything"}),
        ({"contradictions": ("a run differs",)}, {"work", "anything", "peak"}),
        ({"unmade_weights": "those of a lazy layer"}, {"weights"}),
    ],
)
def test_one_gap_alone_is_a_gap(gap: dict[str, Any], lacking: set[str]) -> None:
    said = outcomes(ComputeAll(1, 2, "a", 4), Tracing(**gap))
    assert {key for key, (_, completeness, _) in said.items() if completeness == "partial"} == lacking


def test_a_failed_trace_fails_what_follows_from_the_run_alone() -> None:
    function = ComputeAll(0, 2, "a", Unavailable("nobody knows"))
    assert outcomes(function, Tracing(failure=FAILURE)) == {
        "work": (None, "failed", (str(FAILURE),)),
        "weights": (2, "complete", ()),
        "anything": (None, "failed", (str(FAILURE),)),
        "peak": (None, "unavailable", ("nobody knows",)),
    }


@pytest.mark.parametrize("part", [None, *TracePart])
@pytest.mark.parametrize("grows", [False, True])
def test_a_number_has_a_lower_bound_only_if_it_says_that_it_grows_with_its_part(
    part: TracePart | None, grows: bool
) -> None:
    """The number is 1: an operator for the one weight. A second operator would make it 2, a second weight a half."""

    @metric("operators_per_weight", derived_from=part, grows=grows)
    def operators_per_weight(trace: ModelTrace) -> float:
        return len(trace.operators) / len(trace.parameters)

    gaps = {
        "uncounted": {"my::op": 1},
        "unmade_weights": "some",
        "memory": MemoryTimeline(live_bytes=(0,), unsized={"my::op": 1}),
    }
    profiler = Profiler(FakeModel([FakeLayer("a", params=1)]), inputs=X, backend=Tracing(**gaps))
    profiler.register_profiler_function(operators_per_weight)
    assert profiler.compute_status("operators_per_weight") == 1
    ends = Bounds(1, None) if grows else UNKNOWN_ENDS
    expected = {None: UNKNOWN_ENDS, TracePart.LAYERS: Bounds(1, 1)}.get(part, ends)
    assert profiler.status_get("operators_per_weight", to_value=False).outcome.ends == expected


def test_a_value_of_two_traces_lacks_what_either_lacks() -> None:
    class Training(Tracing):
        def trace_training(self, model: FakeModel, inputs: Any) -> ModelTrace:
            return replace(self.trace(model, inputs), uncounted={"its::op": 1})

    @metric("training_per_forward", derived_from="operators")
    def training_per_forward(trace: ModelTrace, training_trace: ModelTrace) -> int:
        return len(training_trace.operators) // len(trace.operators)

    assert outcomes(training_per_forward, Training(uncounted={"my::op": 1})) == {
        "training_per_forward": (1, "partial", ("its::op (1 call)", "my::op (1 call)"))
    }
    assert outcomes(training_per_forward, Training()) == {"training_per_forward": (1, "partial", ("its::op (1 call)",))}


def test_a_trace_that_this_release_cannot_make_is_unavailable() -> None:
    found = outcomes(ComputeAll(1, 2, "a", 1), Tracing(failure=NotOfferedError("no such name")))
    assert found["work"] == found["peak"] == (None, "unavailable", ("no such name",))


def test_weights_that_are_not_made_yet() -> None:
    missing = "the first call makes some"
    assert outcomes(ComputeAll(1, 7, "a", 1), Tracing(unmade_weights=missing))["weights"] == (7, "partial", (missing,))
    none = outcomes(ComputeAll(1, 0, "a", 1), Tracing(unmade_weights=missing))["weights"]
    assert none == (None, "failed", (f"not counted: {missing}",))
    raised = outcomes(ComputeAll(1, 0, "a", 1), Tracing(unmade_weights=missing, failure=FAILURE))["weights"]
    assert raised == (None, "failed", (str(FAILURE),))


def test_a_function_is_not_called_where_all_of_it_would_follow_from_a_run_that_failed() -> None:
    class ComputeWork(ComputeAll):
        KEYS = (Work, Anything, Peak)  # type: ignore[assignment]

    function = ComputeWork()
    said = outcomes(function, Tracing(failure=FAILURE))
    assert {message[1] for message in said.values()} == {"failed"}
    assert function.calls == 0


def test_what_a_part_of_a_whole_trace_lacks_is_nothing() -> None:
    trace = FakeBackend().trace(FakeModel([FakeLayer("a")]), None)
    assert [find_gaps(trace, part) for part in (*TracePart, None)] == [Gaps()] * 5


@pytest.mark.parametrize("error", [NotOfferedError, WithoutValuesError])
def test_what_a_backend_cannot_do_is_unavailable(error: type[Exception]) -> None:
    class Cannot(ComputeAll):
        def __call__(self, trace: ModelTrace) -> dict[str, Any]:
            raise error("not here")

    assert set(outcomes(Cannot(), FakeBackend()).values()) == {(None, "unavailable", ("not here",))}


def test_what_one_of_two_backends_cannot_do_is_unavailable_for_its_model_alone() -> None:
    class Able(FakeBackend):
        pass

    class Together(JointFunction):
        KEYS = (Anything,)

        def __call__(self, model: Any, backend: Any) -> Any:
            return self.alone(model=model, backend=backend)

        def measure_together(self, calls: Any) -> Any:
            for call in calls:
                if not isinstance(call["backend"], Able):
                    raise NotOfferedError("not here")
            return [1] * len(calls)

    profilers = [Profiler(FakeModel(), inputs=X, backend=backend) for backend in (Able(), FakeBackend())]
    for profiler in profilers:
        profiler.register_profiler_function(Together())
    comparison = compare(*profilers)
    completeness = [report.status("anything").completeness for report in comparison.reports]
    assert completeness == [Completeness.COMPLETE, Completeness.UNAVAILABLE]


def test_a_function_checks_the_callers_arguments_before_anything_it_needs_is_computed() -> None:
    class Checks(ComputeAll):
        def check(self, given: Any) -> None:
            if "batch_size" in given:
                raise ValueError("no batches")

    backend = FakeBackend()
    profiler = Profiler(FakeModel([FakeLayer("a")]), inputs=X, backend=backend)
    profiler.register_profiler_function(Checks(1, 2, "a", 3))
    with pytest.raises(ValueError, match="no batches"):
        profiler.compute_status("work", batch_size=2)
    assert backend.traced == 0
    assert profiler.compute_status("work") == 1
