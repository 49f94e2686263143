"""From events by hand to the seconds of calls: what a model would have to be odd to bring about."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from profilerkit_torch.layer_timing import clocks
from profilerkit_torch.layer_timing.clocks import EventClock, HostClock, WaitingClock, choose_clock
from profilerkit_torch.layer_timing.measured_overhead import measure_overhead
from profilerkit_torch.layer_timing.timed_calls import Overhead, TimedRun
from profilerkit_torch.layer_timing.timeline import Accumulation, Kind, Node, Timeline


class Layer:
    """Stands for a module: it is told from others by what it is."""


A, B = Layer(), Layer()
ROOT, FIRST, SECOND = 0, 1, 2
LAYERS = [("", Layer()), ("a", A), ("b", B), ("b.a", A)]


def follow_events(*events: tuple[Kind, Any, float, int], overhead: Overhead | None = None) -> Timeline:
    timeline = Timeline(LAYERS, overhead, HostClock())
    timeline.advance(events)
    return timeline


def seconds(run: TimedRun) -> dict[tuple[str, int], tuple[float, float]]:
    return {(call.path, call.index): (call.forward.own_seconds, call.backward.own_seconds) for call in run.calls}


def test_a_time_is_never_nothing_because_of_what_is_taken_out() -> None:
    """Of the root's 1 second 2 + 3 cannot have been added: it keeps it, and nothing is taken out of it."""
    events = ((Kind.ENTER, ROOT, 0, 0), (Kind.ENTER, FIRST, 1, 0), (Kind.LEAVE, False, 9, 0), (Kind.LEAVE, False, 9, 0))
    (run,) = follow_events(*events, overhead=Overhead(inside=2, outside=3)).runs.kept
    assert seconds(run) == {("", 0): (1, 0), ("a", 0): (6, 0)}
    assert [
        (item.is_doubtful, item.extra_seconds, item.taken_out) for item in (call.forward for call in run.calls)
    ] == [
        (True, 5, 0),
        (False, 2, 2),
    ]


def test_nodes_belong_to_the_call_in_which_they_were_made() -> None:
    timeline = follow_events(
        (Kind.ENTER, ROOT, 0, 5),
        (Kind.ENTER, FIRST, 0, 7),
        (Kind.LEAVE, False, 0, 9),
        (Kind.LEAVE, False, 0, 9),
    )
    span = timeline.span
    assert span is not None
    owners = [owner.path for owner in map(span.find_owner, (5, 6, 7, 8, 9, 1000)) if owner]
    assert owners == ["", "", "a", "a", "", ""]
    assert [timeline.runs.has_made(number) for number in (4, 5, 8, 9)] == [False, True, True, False]


def test_a_gradient_is_added_for_the_layer_that_owns_the_weight() -> None:
    """Or the nearest one around it that was called; the model where the weight is nobody's."""
    timeline = follow_events((Kind.ENTER, ROOT, 0, 0), (Kind.ENTER, SECOND, 0, 0), (Kind.LEAVE, False, 0, 0))
    timeline.advance([(Kind.LEAVE, False, 0, 0)])
    for moment, paths in enumerate([("b",), ("b.a",), ("c.d", "b"), ()]):
        timeline.advance([(Kind.STARTS, Accumulation(paths), 10 * moment, 1)])
    timeline.advance([(Kind.ENDS, None, 40, 1), (Kind.OVER, None, 41, 1)])
    (run,) = timeline.runs.kept
    assert seconds(run) == {("", 0): (0, 10), ("b", 0): (0, 30)}


def test_what_runs_after_the_last_node_of_the_model_is_no_layers() -> None:
    """Another model that was called before this one goes back after it, in nodes that nobody sees."""
    timeline = follow_events((Kind.ENTER, ROOT, 0, 0), (Kind.LEAVE, False, 1, 5))
    (run,) = timeline.runs.kept
    timeline.advance([(Kind.STARTS, Node(run.calls[0], 0), 10, 1), (Kind.ENDS, None, 13, 1), (Kind.OVER, None, 99, 1)])
    assert seconds(run) == {("", 0): (1, 3)}


def test_a_gradient_that_is_added_before_any_pass_is_nobodys() -> None:
    timeline = follow_events((Kind.STARTS, Accumulation(("a",)), 0, 1), (Kind.OVER, None, 5, 1))
    assert list(timeline.runs.kept) == []


def test_a_backward_pass_that_raised_inside_a_call_ends_with_it() -> None:
    timeline = follow_events((Kind.ENTER, ROOT, 0, 0), (Kind.LEAVE, False, 1, 0))
    (first,) = timeline.runs.kept
    timeline.advance(
        [
            (Kind.ENTER, ROOT, 10, 0),
            (Kind.STARTS, Node(first.calls[0], 0), 11, 1),
            (Kind.LEAVE, False, 14, 0),
            (Kind.ENTER, ROOT, 20, 0),
            (Kind.LEAVE, False, 25, 0),
        ]
    )
    assert [seconds(run) for run in timeline.runs.kept] == [{("", 0): (1, 3)}, {("", 0): (1, 0)}, {("", 0): (5, 0)}]


def test_backward_passes_inside_one_another() -> None:
    """The inner one is over without a word where it raises; the outer one's next node says so."""
    timeline = follow_events((Kind.ENTER, ROOT, 0, 0), (Kind.ENTER, FIRST, 0, 0), (Kind.LEAVE, False, 0, 0))
    timeline.advance([(Kind.LEAVE, False, 0, 0)])
    (run,) = timeline.runs.kept
    whole, inner = run.calls
    timeline.advance(
        [
            (Kind.STARTS, Node(whole, 0), 0, 1),
            (Kind.STARTS, Node(inner, 0), 2, 2),
            (Kind.OVER, None, 5, 2),
            (Kind.STARTS, Node(inner, 0), 9, 3),
            (Kind.STARTS, Node(whole, 0), 16, 1),
            (Kind.OVER, None, 17, 1),
            (Kind.OVER, None, 30, 3),
        ]
    )
    assert seconds(run) == {("", 0): (0, 7), ("a", 0): (0, 10)}


def test_a_layer_run_in_a_backward_pass_that_the_pass_never_called() -> None:
    timeline = follow_events((Kind.ENTER, ROOT, 0, 0), (Kind.LEAVE, False, 0, 0))
    (run,) = timeline.runs.kept
    timeline.advance(
        [
            (Kind.STARTS, Node(run.calls[0], 0), 0, 1),
            (Kind.ENTER, SECOND, 1, 0),
            (Kind.LEAVE, False, 4, 0),
            (Kind.STARTS, None, 5, 1),
            (Kind.ENTER, SECOND, 6, 0),
            (Kind.LEAVE, False, 50, 0),
            (Kind.OVER, None, 100, 1),
        ]
    )
    assert seconds(run) == {("", 0): (0, 5)}, "it belongs to whatever runs, and to no layer where none runs"


@pytest.mark.parametrize(
    ("node", "made", "expected"),
    [
        (25, False, [1, 1]),  # a tensor made before it: the last call before
        (15, False, [0, 0]),
        (5, False, [2, 2]),  # none before, which cannot be
        (5, True, [0, 1]),  # made to run layers: those called after it, in their order
        (15, True, [1, 2]),
        (25, True, [2, 2]),
        (35, True, [2, 2]),
    ],
)
def test_which_call_a_checkpoint_makes_again(node: int, made: bool, expected: list[int]) -> None:
    timeline = follow_events((Kind.ENTER, ROOT, 0, 0))
    for number in (10, 20, 30):
        timeline.advance([(Kind.ENTER, FIRST, 0, number), (Kind.LEAVE, False, 0, number)])
    timeline.advance([(Kind.LEAVE, False, 0, 40)])
    (run,) = timeline.runs.kept
    timeline.advance([(Kind.STARTS, Node(run.calls[0], node, made), 0, 1)])
    for moment in (0, 1000):
        timeline.advance([(Kind.ENTER, FIRST, moment, 50), (Kind.LEAVE, False, moment + 1, 50)])
        timeline.skip(moment + 100)
    timeline.advance([(Kind.OVER, None, 1100, 1)])
    found = [seconds(run)["a", index][1] for index in range(3)]
    assert found == [expected.count(index) for index in range(3)]


def test_every_node_that_runs_layers_begins_at_its_first() -> None:
    timeline = follow_events((Kind.ENTER, ROOT, 0, 0))
    for number in (10, 20):
        timeline.advance([(Kind.ENTER, FIRST, 0, number), (Kind.LEAVE, False, 0, number)])
    timeline.advance([(Kind.LEAVE, False, 0, 40)])
    (run,) = timeline.runs.kept
    for moment, node in ((0, 15), (10, 5)):
        timeline.advance(
            [
                (Kind.STARTS, Node(run.calls[0], node, True), moment, 1),
                (Kind.ENTER, FIRST, moment, 50),
                (Kind.LEAVE, False, moment + 1 + node, 50),
            ]
        )
        timeline.skip(moment + 1 + node)
    timeline.advance([(Kind.OVER, None, 16, 1)])
    assert [seconds(run)["a", index][1] for index in range(2)] == [6, 16]


def test_an_end_without_a_beginning_is_nothing() -> None:
    assert list(follow_events((Kind.LEAVE, False, 0, 0)).runs.kept) == []


def test_one_device_tells_its_own_time_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda:0")

    class Told(EventClock):
        def read(self) -> float:
            return 0.0

        def seconds(self, moments: Any) -> Any:
            return moments

    monkeypatch.setattr(clocks, "EventClock", Told)
    assert isinstance(choose_clock([device, device, torch.device("cpu")]), Told)
    assert measure_overhead(choose_clock([device])) is None

    class Untold(EventClock):
        def read(self) -> Any:
            raise RuntimeError("no events here")

    monkeypatch.setattr(clocks, "EventClock", Untold)
    assert isinstance(choose_clock([device]), WaitingClock)


def test_a_clock_that_stands_still_has_no_overhead() -> None:
    assert measure_overhead(HostClock(lambda: 1.0)) == Overhead(0, 0, 0)
