"""Which steps of a loop are measured, and what is said of them; a recorder of the test's own measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from profilerkit import ArgumentError, InputError, Measurement, ModelInputs, NotOfferedError, Profiler
from profilerkit.callbacks.loop import LoopWatch
from profilerkit.piping.outcome import Completeness
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.times.layer_times import LayerTime
from profilerkit.times.steps import StepRecord, StepRecorder, WatchedSteps
from profilerkit.times.watching import Watch
from profilerkit_metrics import ComputeLayerTimes, ComputeWatchedSteps

REASONS = {name: f"no {name}" for name in ("forward", "backward", "optimizer", "memory")}


class Recorder(StepRecorder):
    """Notes what is asked of it; its steps take 10 s, of which 7 are known parts."""

    def __init__(self, record: StepRecord | None = None, fails: bool = False) -> None:
        self.noted: list[str] = []
        self.record = record or StepRecord(10.0, 4.0, 2.0, 1.0)
        self.fails = fails

    def begin(self) -> None:
        self.noted.append("begin")
        if self.fails:
            raise OSError("cannot begin")

    def end(self) -> StepRecord:
        self.noted.append("end")
        return self.record

    def abandon(self) -> None:
        self.noted.append("abandon")

    def layers(self) -> Sequence[LayerTime]:
        return [LayerTime("", "FakeModel", 1, (4.0,), (2.0,))] if "end" in self.noted else []

    @property
    def inputs(self) -> ModelInputs | None:
        return ModelInputs(FakeTensor((8, 3))) if "end" in self.noted else None

    @property
    def reasons(self) -> Mapping[str, str]:
        return REASONS


def profiler() -> Profiler:
    model = FakeModel([FakeLayer("", type="FakeModel"), FakeLayer("fc", macs=5, flops=11)])
    return Profiler(model, backend=FakeBackend())


def run_loop(steps: int, at_step: Any, recorder: Recorder | None = None) -> Watch:
    with Watch(profiler()._report_steps, recorder or Recorder(), at_step) as watched:
        for _ in range(steps):
            watched.step()
    return watched


@pytest.mark.parametrize(
    ("at_step", "noted"),
    [(1, ["begin", "end"]), ((0, 2), ["begin", "end"] * 2), ([2, 0, 2], ["begin", "end"] * 2), (None, [])],
)
def test_the_chosen_steps_are_measured_and_no_others(at_step: Any, noted: list[str]) -> None:
    recorder = Recorder()
    watched = run_loop(4, at_step, recorder)
    assert recorder.noted == noted
    assert sorted(watched.steps.steps) == list(watched.asked)
    assert watched.steps.loop_steps == 4
    assert watched.steps.missed == ""


@pytest.mark.parametrize("at_step", [(), [], range(0), iter(())])
def test_no_step_at_all_is_refused(at_step: Any) -> None:
    """Nothing would be measured, without a word."""
    with pytest.raises(ArgumentError, match=r"at_step=.*: give the number of a step, .*; None to use start\(\)"):
        run_loop(4, at_step)
    with pytest.raises(ArgumentError, match=r"at_step=.*: give the number of a step, .*at_step=\(5, 6, 7\)$"):
        LoopWatch(at_step)


def test_a_callback_needs_a_step() -> None:
    """A trainer calls no start() and stop()."""
    with pytest.raises(ArgumentError, match="at_step=None: give the number of a step"):
        LoopWatch(None)  # type: ignore[arg-type]


def test_seconds_of_the_other_steps_are_kept_but_for_the_first() -> None:
    assert len(run_loop(6, (2, 3)).steps.unwatched) == 3


def test_the_rest_of_a_step_is_what_its_parts_leave() -> None:
    assert StepRecord(10.0, 4.0, 2.0, 1.0).other == 3.0
    assert StepRecord(10.0, forward=4.0).other == 6.0


def test_start_and_stop_measure_what_lies_between() -> None:
    recorder = Recorder()
    watched = Watch(profiler()._report_steps, recorder, None)
    for _ in range(2):
        watched.start()
        watched.stop()
    assert recorder.noted == ["begin", "end"] * 2
    assert sorted(watched.steps.steps) == [0, 1]


def test_start_and_stop_inside_a_loop_measure_a_part_of_a_step() -> None:
    with Watch(profiler()._report_steps, Recorder(), None) as watched:
        for step in range(3):
            if step == 1:
                watched.start()
                watched.stop()
            watched.step()
    assert sorted(watched.steps.steps) == [1]


@pytest.mark.parametrize(
    ("steps", "asked", "said"),
    [
        (3, 5, "step 5 was requested, the loop ended after 3 steps"),
        (1, (0, 5, 6), "steps 5, 6 were requested, the loop ended after 1 step"),
        (0, 0, "step 0 was requested, the loop ended after 0 steps: call step() at the end of each iteration"),
    ],
)
def test_steps_that_never_came_are_said(steps: int, asked: Any, said: str) -> None:
    watched = run_loop(steps, asked)
    assert watched.steps.missed == said
    report = watched.report()
    if watched.steps.steps:
        assert any(said in note for note in report.notes)
    else:
        assert report.statuses["step_time"].missing == report.statuses["macs"].missing == (said,)


def test_what_the_loop_raises_goes_on_and_the_step_does_not_count() -> None:
    recorder = Recorder()
    watched = Watch(profiler()._report_steps, recorder, 1)
    with pytest.raises(KeyError, match="the user's"), watched:
        watched.step()
        raise KeyError("the user's")
    assert recorder.noted == ["begin", "abandon"]
    assert watched.steps.steps == {}
    assert watched.steps.missed == "step 1 was requested, the loop ended after 1 step"


def test_a_step_that_cannot_begin_is_not_ended() -> None:
    recorder = Recorder(fails=True)
    watched = Watch(profiler()._report_steps, recorder, None)
    with pytest.raises(OSError, match="cannot begin"):
        watched.start()
    with pytest.raises(RuntimeError, match=r"no step is being measured: call start\(\) before stop\(\)"):
        watched.stop()


def test_a_watch_is_used_once_at_a_time() -> None:
    watched = Watch(profiler()._report_steps, Recorder(), None)
    with watched, pytest.raises(RuntimeError, match="this watch runs already: leave its block first"):
        watched.__enter__()
    with pytest.raises(RuntimeError, match=r"step\(\) ends an iteration in the block of watch"):
        watched.step()
    watched.start()
    with pytest.raises(RuntimeError, match=r"a step is being measured already: call stop\(\) before the next"):
        watched.start()


@pytest.mark.parametrize("wrong", [-1, 1.5, "5", True, (1, None)])
def test_steps_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="give the number of a step, counted from 0, or several"):
        Watch(profiler()._report_steps, Recorder(), wrong)


def test_the_report_has_the_parts_the_layers_and_the_counts() -> None:
    watched = run_loop(4, (1, 2))
    report = watched.report()
    for key, seconds in (
        *(("step_time", 10.0), ("forward_time", 4.0), ("backward_time", 2.0)),
        *(("optimizer_time", 1.0), ("other_time", 3.0)),
    ):
        assert isinstance(report[key], Measurement)
        assert report[key].samples == (seconds, seconds)
    assert report["layer_times"][""]["forward_seconds"] == 4.0
    assert report["macs"] == 5 * 8  # of the batch that the model was called with
    assert report.batch_size == 8
    assert report.statuses["training_macs"].completeness is Completeness.UNAVAILABLE
    assert report.statuses["step_memory"].missing == ("no memory",)
    assert any("of steps 1, 2 of a loop of 4; the steps that were not measured took" in note for note in report.notes)


def test_the_report_can_be_of_other_keys() -> None:
    assert list(run_loop(2, 1).report(["forward_time"])) == ["forward_time"]


def test_the_profiler_of_the_user_is_as_before() -> None:
    own = profiler()
    keys = list(own.status_keys())
    with Watch(own._report_steps, Recorder(), 0) as watched:
        watched.step()
    watched.report()
    assert list(own.status_keys()) == keys
    assert own.status_get("trace") is None


def test_parts_that_no_step_had_say_why() -> None:
    recorder = Recorder(StepRecord(10.0))
    found = ComputeWatchedSteps()(run_loop(1, 0, recorder).steps)
    assert found["forward_time"].reason == "no forward"
    assert found["optimizer_time"].reason == "no optimizer"
    assert found["other_time"].value.samples == (10.0,)
    for part in ("forward", "backward", "optimizer"):
        assert f"it has any {part} time that was not measured: no {part}" in found["other_time"].note
    with_memory = Recorder(StepRecord(10.0, memory={"forward_end": 2048, "step_end": 1024}))
    report = run_loop(1, 0, with_memory).report(["step_memory"])
    assert report["step_memory"] == {"forward_end": 2048, "step_end": 1024}
    assert report.statuses["step_memory"].shown == "2 KiB"


def test_parts_of_a_recorder_that_gives_no_reasons_are_unavailable_too() -> None:
    """They need not be given: `StepRecorder.reasons` is empty unless it is overridden."""
    steps = WatchedSteps((0,), {0: StepRecord(10.0)}, 1)
    found = ComputeWatchedSteps()(steps)
    assert found["step_time"].value.median == 10
    for key, part in (("forward_time", "forward"), ("optimizer_time", "optimizer"), ("step_memory", "memory")):
        assert found[key].reason == f"the backend has measured nothing of {part!r} in these steps"
    layers = ComputeLayerTimes()(None, FakeBackend(), None, watched=steps)
    assert layers.reason == "the backend has measured nothing of 'forward' in these steps"


def test_without_a_watched_loop_there_is_nothing_to_tell() -> None:
    found = ComputeWatchedSteps()()
    assert {value.reason for value in found.values()} == {"no training loop was watched; see Profiler.watch"}
    nothing = ComputeWatchedSteps()(WatchedSteps((), {}, 3))
    assert nothing["step_time"].reason == "no step was measured: call start() and stop()"


def test_a_backend_that_cannot_says_so() -> None:
    with pytest.raises(NotOfferedError, match="the fake backend does not watch training loops"):
        profiler().watch()


def test_what_lies_between_pause_and_resume_is_no_part_of_a_step() -> None:
    recorder = Recorder()
    with Watch(profiler()._report_steps, recorder, at_step=(0, 1)) as watched:
        watched.step()
        watched.pause()
        watched.pause()  # a second time does nothing
        watched.resume()
        watched.step()
    assert recorder.noted == ["begin", "end", "begin", "abandon", "begin", "end"]
    assert (sorted(watched.steps.steps), watched.steps.loop_steps) == ([0, 1], 2)
    with pytest.raises(RuntimeError, match=r"resume\(\) begins a step anew in the block of watch"):
        watched.resume()
