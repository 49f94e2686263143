"""Several batch sizes: the knee on synthetic numbers, what a report says of them, sizes that are none."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest
from replacing import replace

from profilerkit import (
    InputError,
    Measurement,
    Metric,
    Profiler,
    ProfilerFunction,
    Ratio,
    TracingError,
    UnknownStatusError,
    compare,
    hookimpl,
    profile,
)
from profilerkit.errors import ModelFailedError
from profilerkit.hooks.manager import manager
from profilerkit.piping.requests import first_of_several
from profilerkit.render.time_grids import sweep_grids
from profilerkit.testing import FakeBackend, FakeClock, FakeLayer, FakeModel, FakeTensor
from profilerkit.times.batch_sweep import BatchSweep
from profilerkit.trace.records import ModelTrace


def sweep(throughputs: Mapping[int, float]) -> BatchSweep:
    return BatchSweep.of(
        {
            "batch_size": size,
            "execution_time": Measurement((size / throughput,)),
            "throughput": throughput,
            "memory_footprint": None,
        }
        for size, throughput in throughputs.items()
    )


@pytest.mark.parametrize(
    ("throughputs", "knee"),
    [
        ({1: 100, 2: 190, 4: 340, 8: 480, 16: 500, 32: 505}, 8),  # 480 >= 0.9 * 505 = 454.5 > 340
        ({1: 100, 2: 100, 4: 100}, 1),  # more at once brings nothing
        ({1: 100, 2: 200, 4: 400}, None),  # it only grows: the knee is beyond
        ({1: 100, 2: 89, 4: 50}, 1),  # it falls
        ({1: 90, 2: 100, 4: 99}, 1),  # 90 is just enough
        ({1: 89.9, 2: 100, 4: 99}, 2),
        ({4: 100, 1: 95}, 1),  # in any order
        ({8: 100}, None),
    ],
)
def test_the_knee_is_the_smallest_size_near_the_best_throughput(
    throughputs: dict[int, float], knee: int | None
) -> None:
    found = sweep(throughputs)
    assert found.knee == knee
    assert [row["batch_size"] for row in found] == sorted(throughputs)
    assert [row["batch_size"] for row in found if row["is_knee"]] == ([] if knee is None else [knee])


def test_a_sweep_as_a_data_frame() -> None:
    pytest.importorskip("pandas")
    frame = sweep({1: 100, 2: 101}).to_pandas()
    assert list(frame["batch_size"]) == [1, 2]
    assert list(frame["execution_time"]) == [0.01, 2 / 101]
    assert list(frame["execution_time_low"]) == list(frame["execution_time_high"]) == [0.01, 2 / 101]
    assert list(frame["is_knee"]) == [True, False]


def model(**options: Any) -> FakeModel:
    return FakeModel([FakeLayer("layer", macs=10, params=5, activation_bytes=8)], **options)


def profile_sizes(batch_size: Any, **options: Any) -> Any:
    is_timed = batch_size is None or isinstance(batch_size, tuple) or "metrics" not in options
    few: Any = {"num_iters": 4, "warmup": 1} if is_timed else {}
    return profile(model(), FakeTensor((2, 3)), backend=FakeBackend(), batch_size=batch_size, **few, **options)


def test_a_report_of_several_batch_sizes() -> None:
    report = profile_sizes((4, 1, 8))
    found = report["batch_sweep"]
    assert [row["batch_size"] for row in found] == [1, 4, 8]
    for row in found:
        assert len(row["execution_time"].samples) == 4
        assert row["throughput"] == row["batch_size"] / row["execution_time"].median
    memory = [row["memory_footprint"] for row in found]
    assert memory[2] - memory[1] == 4 / 3 * (memory[1] - memory[0]) > 0, "so many bytes for each sample"
    assert memory[1] == report["memory_footprint"]
    assert report["macs"] == 40, "all else is for the first size"
    assert report.batch_size == 4
    shown = str(report)
    assert "for a batch of 4." in shown
    assert "Batch Sweep\n" in shown
    assert "Batch size" in shown
    said = report.to_dict()["statuses"][-1]
    assert said["key"] == "batch_sweep"
    assert [row["batch_size"] for row in said["value"]["rows"]] == [1, 4, 8]
    assert said["value"]["rows"][0]["execution_time"]["samples"] == list(found[0]["execution_time"].samples)


def test_one_batch_size_is_no_sweep() -> None:
    assert "batch_sweep" not in profile_sizes(4)
    assert "batch_sweep" not in profile_sizes(None)
    assert [row["batch_size"] for row in profile_sizes((8,))["batch_sweep"]] == [8], "a sweep of one, if that is wanted"
    assert [row["batch_size"] for row in profile_sizes(iter((1, 2)))["batch_sweep"]] == [1, 2]


def test_a_sweep_beside_chosen_metrics_and_one_asked_for_by_name() -> None:
    assert list(profile_sizes((1, 2), metrics=["macs"])) == ["macs", "batch_sweep"]
    usual = profile_sizes(None, metrics=["batch_sweep"], max_seconds=0.001)["batch_sweep"]
    assert [row["batch_size"] for row in usual] == [1, 2, 4, 8, 16, 32]
    profiler = Profiler(model(), inputs=FakeTensor((2, 3)), backend=FakeBackend()).register_defaults()
    found = profiler.compute_status("batch_sweep", batch_size=(2, 1), num_iters=3)
    assert [row["batch_size"] for row in found] == [1, 2]
    assert profiler.status_get("inputs") is None, "what the profiler remembers is not for some size of the sweep"


def test_models_in_a_sweep_take_turns() -> None:
    comparison = compare(
        model(), model(), inputs=FakeTensor((2, 3)), backend=FakeBackend(), batch_size=(1, 8), num_iters=4
    )
    for one, other in zip(comparison.reference["batch_sweep"], comparison.others[0]["batch_sweep"], strict=True):
        assert one["batch_size"] == other["batch_size"]
        assert Ratio.of(one["execution_time"], other["execution_time"]).paired
    assert "Batch Sweep of" in str(comparison)


class OutOfMemory(FakeBackend):
    """Runs no batch above four."""

    largest = 4

    def run(self, model: Any, inputs: Any, *options: Any) -> Any:
        if inputs.args[0].shape[0] > self.largest:
            raise MemoryError(f"{inputs.args[0].shape[0]} samples are too many")
        return super().run(model, inputs, *options)


def test_a_size_that_fails_does_not_take_the_others_with_it() -> None:
    report = profile(model(), FakeTensor((1, 3)), backend=OutOfMemory(), batch_size=(1, 4, 64), num_iters=3)
    said = report.status("batch_sweep")
    assert [row["batch_size"] for row in said.value] == [1, 4]
    assert said.missing == ("batch size 64: MemoryError: 64 samples are too many",)
    assert said.completeness.value == "partial"


class HoldsActivations(FakeBackend):
    """Runs no batch above four, and notes at other sizes whether the activations of such a batch are still alive."""

    def __init__(self) -> None:
        super().__init__()
        self.activations: list[weakref.ref[Any]] = []
        self.alive: list[bool] = []

    def run(self, model: Any, inputs: Any, *options: Any) -> Any:
        if inputs.args[0].shape[0] > 4:
            activation = FakeClock()
            self.activations.append(weakref.ref(activation))
            raise MemoryError("too many samples")
        self.alive += [activation() is not None for activation in self.activations]
        return super().run(model, inputs, *options)


def test_a_size_that_fails_takes_no_memory_from_the_sizes_after_it() -> None:
    """An error holds the variables of the frames that raised it; here it is kept until all sizes were tried."""
    backend = HoldsActivations()
    report = profile(
        model(), FakeTensor((1, 3)), backend=backend, metrics=["batch_sweep"], batch_sizes=(64, 2), num_iters=3
    )
    assert [row["batch_size"] for row in report["batch_sweep"]] == [2]
    assert backend.alive == [False]


class OneTooLarge(FakeBackend):
    """Finds no memory to trace a batch above four of the model with six parameters."""

    def trace(self, model: Any, inputs: Any) -> Any:
        if inputs is not None and model.layers[0].params == 6 and inputs.args[0].shape[0] > 4:
            raise MemoryError("too many samples")
        return super().trace(model, inputs)


def test_a_size_that_fails_for_one_model_is_in_no_table() -> None:
    """It would be both measured and missing in the tables of the models before it."""
    models = model(), FakeModel([FakeLayer("layer", macs=10, params=6)])
    comparison = compare(
        *models,
        inputs=FakeTensor((1, 3)),
        backend=OneTooLarge(),
        metrics=["batch_sweep"],
        batch_size=(1, 8),
        num_iters=3,
    )
    for status in (report.status("batch_sweep") for report in comparison.reports):
        assert [row["batch_size"] for row in status.value] == [1]
        assert status.missing == ("batch size 8: MemoryError: too many samples",)


class FailsToTrace(FakeBackend):
    """Traces no batch of more than two samples, by an error or by a trace that failed."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error

    def trace(self, model: Any, inputs: Any) -> Any:
        traced = super().trace(model, inputs)
        if inputs is None or inputs.args[0].shape[0] <= 2:
            return traced
        if self.error is not None:
            raise self.error
        return ModelTrace(traced.layers, failure=ModelFailedError("four are too many"))


@pytest.mark.parametrize("error", [None, RuntimeError("four are too many"), ValueError("four are too many")])
def test_a_memory_that_is_not_known_at_a_later_size_is_said(error: Exception | None) -> None:
    """The sweep was called complete, with no number and no reason."""
    report = profile(model(), FakeTensor((1, 3)), backend=FailsToTrace(error), batch_size=(1, 4, 8), num_iters=3)
    status = report.status("batch_sweep")
    assert [row["memory_footprint"] is None for row in status.value] == [False, True, True]
    assert report.status("memory_footprint").completeness.value == "complete"
    assert status.completeness.value == "partial"
    (reason,) = status.missing
    assert reason.startswith("memory at batch size 4, 8: ")
    assert "four are too many" in reason


def test_a_sweep_says_nothing_wrong_of_the_batch_of_the_other_values() -> None:
    """Seven samples were given, and the sweep begins with one: the other values are for seven, as the report says."""
    report = profile(model(), FakeTensor((7, 3)), backend=FakeBackend(), metrics=["macs", "batch_sweep"], num_iters=3)
    assert report["macs"] == 7 * 10
    assert "for a batch of 7." in str(report)
    assert "batch of 1" not in f"{report}{report.notes}"


class Recording(FakeBackend):
    """Refuses to run a batch above four, as a framework that records what runs."""

    def run(self, model: Any, inputs: Any, *options: Any) -> Any:
        if inputs.args[0].shape[0] > 4:
            raise TracingError("a model cannot be profiled inside a recording")
        return super().run(model, inputs, *options)


def test_a_sweep_inside_a_recording_fails_with_that_reason() -> None:
    """It is no property of the batch size: the sizes that ran before are not reported as a partial sweep."""
    report = profile(model(), FakeTensor((1, 3)), backend=Recording(), batch_size=(1, 8), num_iters=3)
    status = report.status("batch_sweep")
    assert status.value is None
    assert status.missing == ("a model cannot be profiled inside a recording",)


def test_a_sweep_of_which_every_size_fails_has_failed() -> None:
    report = profile(model(), FakeTensor((1, 3)), backend=OutOfMemory(), batch_size=(8, 64), num_iters=3)
    said = report.status("batch_sweep")
    assert said.completeness.value == "failed"
    assert said.missing == ("MemoryError: 8 samples are too many",)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((), "batch_size is empty: give a whole number from 1, or several of them"),
        ((1, 0), "batch_size=0: give a whole number from 1"),
        ((1, 2.5), "batch_size=2.5: give a whole number from 1"),
        ((1, "8"), "batch_size='8': give a whole number from 1"),
        ([True], "batch_size=True: give a whole number from 1"),
    ],
)
def test_what_is_no_batch_size_is_said_before_anything_runs(sizes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        profile_sizes(sizes)


def test_inputs_that_cannot_be_resized() -> None:
    inputs = (FakeTensor((2, 3)), FakeTensor((5, 3)))
    report = profile(model(), inputs, backend=FakeBackend(), batch_size=(1, 8), num_iters=2)
    assert "cannot make a batch of 1 from these inputs" in report.status("batch_sweep").missing[0]
    with pytest.raises((InputError, ModelFailedError)):
        profile(model(), inputs, backend=FakeBackend(), batch_size=(1, 8), num_iters=2, strict=True)


def test_several_batch_sizes_that_nobody_would_read() -> None:
    with pytest.raises(
        InputError, match=r"batch_size=\(1, 8\): several batch sizes are for a function that takes 'batch_sizes'"
    ):
        profile_sizes((1, 8), leave_out="batch_sweep")
    profiler = Profiler(model(), inputs=FakeTensor((2, 3)), backend=FakeBackend())
    with pytest.raises(InputError, match="none is registered; register one, or give one batch size"):
        profiler.compute_network_status(batch_size=(1, 8))


def test_other_functions_get_one_batch_size() -> None:
    assert first_of_several({"batch_size": (8, 1), "device": None}) == {
        "batch_size": 8,
        "batch_sizes": (8, 1),
        "device": None,
    }
    assert first_of_several({"batch_size": 8}) == {"batch_size": 8}
    assert first_of_several({}) == {}


class PerSplit(Metric):
    """Something that is computed where an argument asks for it."""

    NAME = "per_split"


class ComputePerSplit(ProfilerFunction):
    KEYS = (PerSplit,)
    ON_DEMAND = True
    COMPUTED_WITH = ("splits_to_read",)

    def __call__(self, splits_to_read: tuple[str, ...] = ("all",)) -> str:
        return ", ".join(splits_to_read)


class PluginPerSplit:
    @hookimpl
    def profilerkit_profiler_functions(self) -> list[ProfilerFunction]:
        return [ComputePerSplit()]


def test_any_function_may_say_which_argument_asks_for_it() -> None:
    plugin = PluginPerSplit()
    manager().register(plugin, name="per_split")
    try:
        assert "per_split" not in profile_sizes(4)
        assert profile_sizes(4, splits_to_read=("a", "b"))["per_split"] == "a, b"
        assert list(profile_sizes(4, metrics=["macs"], splits_to_read=("a",))) == ["macs", "per_split"]
        both = compare(
            model(), model(), inputs=FakeTensor((2, 3)), backend=FakeBackend(), metrics=["macs"], splits_to_read="ab"
        )
        assert [report["per_split"] for report in both.reports] == ["a, b", "a, b"]
        assert profile_sizes(4, metrics=["per_split"])["per_split"] == "all"
    finally:
        manager().unregister(plugin)


def test_an_unknown_name_is_said_before_several_sizes_that_nobody_reads() -> None:
    with pytest.raises(UnknownStatusError, match="unknown metric 'batch_sweep'"):
        profile_sizes((1, 8), leave_out="batch_sweep", metrics=["batch_sweep"])


def test_the_main_path_does_not_know_the_sweep() -> None:
    """Nor does a job enter `profilerkit.profiler` but to make a profiler, to compute with it, and for its report."""
    for name in ("profiler", "api", "job", "isolation.child", "piping.registry", "piping.computation"):
        assert "times.batch_sweep" not in inspect.getsource(import_module(f"profilerkit.{name}")), name
    entered: list[str] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename == profiler_file:
            caller = frame.f_back
            while caller.f_code.co_filename == wrapper_file:  # of `whole_call`
                caller = caller.f_back
            if caller.f_code.co_filename == job_file:
                entered.append(frame.f_code.co_name)

    modules = [import_module(f"profilerkit.{name}") for name in ("profiler", "job", "process.restoring")]
    profiler_file, job_file, wrapper_file = (str(module.__file__) for module in modules)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        profile_sizes(4)
    finally:
        sys.setprofile(before)
    assert entered == ["__init__", "register_defaults", "_compute_all", "_report"]


@pytest.mark.parametrize(
    ("throughputs", "sizes"), [({1: 100, 2: 200}, ["1", "2"]), ({1: 50, 2: 100, 4: 101}, ["1", "knee 2", "4"])]
)
def test_the_table_marks_the_knee_beside_its_size(throughputs: dict[int, float], sizes: list[str]) -> None:
    """A column for the mark did not fit 80 columns: it became a second table, of nothing where there is no knee."""
    report = profile_sizes((1, 2))
    record = replace(report.statuses["batch_sweep"], value=sweep(throughputs))
    (grid,) = sweep_grids([replace(report, statuses={"batch_sweep": record})])
    assert [row[0] for row in grid.rows] == sizes
    assert grid.titles[-1] == "Memory"
