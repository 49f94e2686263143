"""From seconds per layer and pass to the table, and the metric that shows it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from profilerkit import Completeness, ModelInputs, NotOfferedError, Profiler, WithoutValuesError, profile
from profilerkit.protocols import TimesLayers, require_capability
from profilerkit.testing import FakeBackend, FakeModel, FakeTensor
from profilerkit.times.layer_times import CallTime, LayerTime, LayerTimer, layer_time_table
from profilerkit_metrics import ComputeLayerTimes

TIMES = [
    LayerTime("", "Model", 1, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0)),
    LayerTime("block", "Block", 2, (10.0, 30.0, 20.0), (5.0, 6.0, 7.0)),
    LayerTime(
        "block.first", "Dense", 2, (300.0, 100.0, 200.0), (50.0, 60.0, 70.0), missing="its operators run elsewhere"
    ),
    LayerTime("block.second", "Dense", 4, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
]


def test_layers_inside_are_added_pass_by_pass_before_the_median() -> None:
    table = layer_time_table(TIMES)
    assert [row["path"] for row in table] == ["", "block", "block.first", "block.second"]
    # Passes of the block: 310, 130, 220; of the whole: 311, 132, 223.
    assert [row["forward_seconds"] for row in table] == [223.0, 220.0, 200.0, 0.0]
    assert [row["own_forward_seconds"] for row in table] == [2.0, 20.0, 200.0, 0.0]
    assert [row["backward_seconds"] for row in table] == [66.0, 66.0, 60.0, 0.0]
    assert [row["own_backward_seconds"] for row in table] == [0.0, 6.0, 60.0, 0.0]


def test_the_median_is_that_of_the_sums() -> None:
    table = layer_time_table([LayerTime("", "M", 1, (9.0, 1.0, 5.0)), LayerTime("a", "L", 1, (1.0, 9.0, 4.0))])
    assert table[""]["forward_seconds"] == 10.0, "of 10, 10 and 9; the medians' sum is 9"


def test_a_row_says_what_the_layer_is() -> None:
    table = layer_time_table(TIMES)
    assert [(row["type"], row["calls"], row["depth"], row["is_leaf"]) for row in table] == [
        ("Model", 1, 0, False),
        ("Block", 2, 1, False),
        ("Dense", 2, 2, True),
        ("Dense", 4, 2, True),
    ]
    assert [row["missing"] for row in table] == ["", "", "its operators run elsewhere", ""]


def test_without_a_backward_pass_its_columns_are_none() -> None:
    (row,) = layer_time_table([LayerTime("", "Model", 1, (1.0, 3.0))])
    assert (row["forward_seconds"], row["backward_seconds"], row["own_backward_seconds"]) == (2.0, None, None)


def test_a_layer_counts_for_the_nearest_one_around_it_that_is_there() -> None:
    table = layer_time_table([LayerTime("", "M", 1, (1.0,)), LayerTime("a.b.c", "L", 1, (2.0,), (4.0,))])
    assert table[""]["forward_seconds"] == 3.0


@pytest.mark.parametrize(
    ("forward", "backward", "said"),
    [((1.0, 2.0), (1.0,), "1, 2"), ((1.0,), (1.0, 2.0), "1, 2"), ((), (1.0,), "0, 1"), ((1.0,), (), "0, 1")],
)
def test_layers_timed_in_different_numbers_of_passes_are_refused(
    forward: tuple[float, ...], backward: tuple[float, ...], said: str
) -> None:
    times = [LayerTime("", "M", 1, (1.0,), (1.0,)), LayerTime("a", "L", 1, forward, backward)]
    with pytest.raises(ValueError, match=rf"timed in {said} passes; all must have the same number of them"):
        layer_time_table(times)


def test_fewer_passes_may_have_gone_backward() -> None:
    (row,) = layer_time_table([LayerTime("", "M", 1, (1.0, 2.0, 3.0), (10.0,))])
    assert (row["forward_seconds"], row["backward_seconds"]) == (2.0, 10.0)


def test_the_samples_behind_the_medians() -> None:
    table = layer_time_table(TIMES)
    assert table.samples("") == (311.0, 132.0, 223.0)
    assert table.samples("block", "own_forward_seconds") == (10.0, 30.0, 20.0)
    assert table.samples("block", "backward_seconds") == (55.0, 66.0, 77.0)
    measured = table.measurement("block")
    assert (measured.samples, measured.median, measured.max) == ((310.0, 130.0, 220.0), 220.0, 310.0)
    with pytest.raises(ValueError, match=r"column 'forward' has no samples; those that have are: forward_seconds"):
        table.samples("", "forward")
    with pytest.raises(KeyError, match=r"no layer 'blok'; the nearest are: block"):
        table.samples("blok")
    with pytest.raises(ValueError, match=r"backward_seconds of layer '' has no samples: no backward pass was timed"):
        layer_time_table([LayerTime("", "M", 1, (1.0,))]).measurement("", "backward_seconds")


def test_a_row_for_each_pass_where_calls_are_not_told_apart() -> None:
    rows = list(
        layer_time_table(
            [LayerTime("", "M", 2, (1.0, 2.0), (3.0,)), LayerTime("a", "L", 1, (4.0, 5.0), (6.0,))]
        ).iterations
    )
    assert [
        (row["path"], row["pass"], row["call"], row["forward_seconds"], row["backward_seconds"]) for row in rows
    ] == [
        ("", 0, None, 5.0, 9.0),
        ("", 1, None, 7.0, None),
        ("a", 0, None, 4.0, 6.0),
        ("a", 1, None, 5.0, None),
    ]
    assert [row["own_forward_seconds"] for row in rows] == [1.0, 2.0, 4.0, 5.0]


def test_a_row_for_each_call_where_they_are() -> None:
    calls = (CallTime(0, 0, 3.0, 1.0, 30.0, 10.0), CallTime(0, 1, 4.0, 2.0))
    table = layer_time_table([LayerTime("", "M", 2, (3.0,), each_call=calls), LayerTime("idle", "L", 0, (0.0,))])
    assert [tuple(row.values()) for row in table.iterations] == [
        ("", "M", 0, 0, 3.0, 30.0, 1.0, 10.0),
        ("", "M", 0, 1, 4.0, None, 2.0, None),
    ]


def test_a_layer_that_was_not_called_is_in_no_view_of_the_samples() -> None:
    """A list of layers is not called itself: it has the time of the layer inside, and none of its own."""
    inside = LayerTime("list.0", "Dense", 2, (4.0, 6.0), (0.0, 0.0))
    idle = [LayerTime(path, kind, 0, (0.0, 0.0), (0.0, 0.0)) for path, kind in (("list", "List"), ("unused", "Dense"))]
    table = layer_time_table([LayerTime("", "Model", 1, (0.0, 0.0), (0.0, 0.0)), *idle, inside])
    assert [row["forward_seconds"] for row in table] == [5.0, 5.0, None, 5.0]
    assert [row["own_forward_seconds"] for row in table] == [0.0, None, None, 5.0]
    assert [row["backward_seconds"] for row in table] == [0.0, None, None, 0.0]
    assert table.samples("list") == (4.0, 6.0)
    assert table.samples("unused") == ()
    medians = {(row["path"], row["column"]): row["median"] for row in table.statistics}
    assert {column for path, column in medians if path == "list"} == {"forward_seconds"}
    assert {path for path, _ in medians} == {"", "list", "list.0"}
    assert {row["path"] for row in table.iterations} == {"", "list", "list.0"}
    with pytest.raises(ValueError, match="own_forward_seconds of layer 'list' has no samples: it was not called"):
        table.measurement("list", "own_forward_seconds")


def test_what_measuring_took_is_said_where_it_is_known() -> None:
    table = layer_time_table([LayerTime("", "M", 1, (1.0,)), LayerTime("a", "L", 1, (1.0,), overhead=0.25)])
    assert [row["overhead_seconds"] for row in table] == [None, 0.25]


def test_no_layers_are_an_empty_table() -> None:
    assert len(layer_time_table([])) == 0


def test_the_slowest_layers_and_a_data_frame() -> None:
    table = layer_time_table(TIMES)
    assert [row["path"] for row in table.top(1, by="own_backward_seconds")] == ["block.first"]
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    columns = ["path", "type", "depth", "is_leaf", "calls", "forward_seconds", "backward_seconds"]
    assert list(frame.columns) == [
        *columns,
        "own_forward_seconds",
        "own_backward_seconds",
        "overhead_seconds",
        "missing",
    ]
    assert frame.set_index("path").loc["block", "forward_seconds"] == 220.0


class TimingBackend(FakeBackend):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Any, ...]] = []

    def layer_times(
        self, model: Any, inputs: ModelInputs, device: Any = None, passes: int = 10, backward: bool = True
    ) -> Sequence[LayerTime]:
        self.asked.append((device, passes, backward))
        return TIMES


def test_the_metric_hands_its_arguments_on_and_gives_the_table(model: FakeModel) -> None:
    backend = TimingBackend()
    profiler = Profiler(model, backend=backend, inputs=FakeTensor((1, 3)))
    profiler.register_profiler_function(ComputeLayerTimes())
    table = profiler.compute_status("layer_times", passes=3, backward=False)
    assert table == layer_time_table(TIMES)
    assert backend.asked[-1][1:] == (3, False)


def test_it_is_computed_only_where_it_is_asked_for(model: FakeModel) -> None:
    backend = TimingBackend()
    profiler = Profiler(model, backend=backend, inputs=FakeTensor((1, 3))).register_defaults()
    profiler.compute(profiler.status_keys())
    assert backend.asked == []
    assert profiler.compute_status("layer_times") == layer_time_table(TIMES)
    assert [asked[1:] for asked in backend.asked] == [(10, True)]


def test_a_report_holds_the_table(model: FakeModel) -> None:
    report = profile(model, FakeTensor((1, 3)), backend=TimingBackend(), metrics=["layer_times"])
    assert report["layer_times"] == layer_time_table(TIMES)
    record = report.status("layer_times")
    assert (record.shown, record.completeness.value) == ("4 layers", "complete")
    (written,) = json.loads(json.dumps(report.to_dict()))["statuses"]
    row = dict(zip(written["value"]["columns"], written["value"]["rows"][1], strict=True))
    assert row["forward_seconds"] == 220.0
    assert "4 layers" in str(report)


def test_what_is_missing_of_the_whole_makes_the_table_partial(model: FakeModel) -> None:
    class Blind(FakeBackend):
        def layer_times(self, *args: Any, **kwargs: Any) -> Sequence[LayerTime]:
            inside = LayerTime("a", "L", 1, (1.0,), missing="of one layer")
            return [LayerTime("", "M", 1, (1.0,), missing="half of it"), inside]

    record = profile(model, FakeTensor((1, 3)), backend=Blind(), metrics=["layer_times"]).status("layer_times")
    assert (record.completeness.value, record.missing) == ("partial", ("half of it",))
    assert len(record.value) == 2


def unavailable(model: FakeModel, backend: FakeBackend) -> tuple[str, ...]:
    """Return why there are no times of layers."""
    profiler = Profiler(model, inputs=FakeTensor((1, 3)), backend=backend)
    profiler.register_profiler_function(ComputeLayerTimes())
    assert profiler.compute_status("layer_times") is None
    outcome = profiler.status_get("layer_times", to_value=False).outcome
    assert outcome.completeness is Completeness.UNAVAILABLE
    return tuple(outcome.missing)


def test_a_model_without_values_has_no_times(model: FakeModel) -> None:
    class Unbuilt(FakeBackend):
        def layer_times(self, *args: Any, **kwargs: Any) -> Sequence[LayerTime]:
            raise WithoutValuesError("its weights have no values yet")

    assert unavailable(model, Unbuilt()) == ("its weights have no values yet",)


def test_a_backend_that_cannot_tell_says_so(model: FakeModel) -> None:
    assert "does not time single layers" in unavailable(model, FakeBackend())[0]
    with pytest.raises(NotOfferedError, match="does not time single layers"):
        require_capability(FakeBackend(), TimesLayers).layer_times(model, ModelInputs.of(FakeTensor((1, 3))))
    said = "the fake backend does not time layers while other code runs the model"
    with pytest.raises(NotOfferedError, match=said):
        Profiler(model, backend=FakeBackend()).layer_times()


def test_a_profiler_gives_its_backends_timer_for_its_model_or_another(model: FakeModel) -> None:
    class Timer(LayerTimer):
        def __init__(self, model: Any) -> None:
            self.model = model

        def __enter__(self) -> LayerTimer:
            return self

        def __exit__(self, *raised: object) -> None: ...

        def times(self) -> Sequence[LayerTime]:
            return TIMES

    class Watching(FakeBackend):
        def time_layers(self, model: Any) -> LayerTimer:
            return Timer(model)

    profiler, other = Profiler(model, backend=Watching()), FakeModel()
    with profiler.layer_times() as timer:
        pass
    assert timer.table == layer_time_table(TIMES)
    assert (timer.model, profiler.layer_times(other).model) == (model, other)  # type: ignore[attr-defined]


def test_the_samples_of_all_layers_are_described_in_one_table() -> None:
    table = layer_time_table([LayerTime("", "Net", 1, (1.0, 3.0)), LayerTime("a", "Conv", 1, (2.0, 4.0))])
    whole, own, inner, _ = table.statistics
    assert (whole["path"], whole["column"], whole["samples"]) == ("", "forward_seconds", 2)
    assert (whole["median"], whole["min"], whole["max"]) == (5.0, 3.0, 7.0)  # 1 + 2 and 3 + 4
    assert whole["std"] == pytest.approx(8**0.5)  # of 3 and 7: the root of (4 + 4) / 1
    assert (own["column"], own["median"]) == ("own_forward_seconds", 2.0)
    assert (inner["path"], inner["type"], inner["low"], inner["high"]) == ("a", "Conv", 2.0, 4.0)


@pytest.mark.parametrize(
    ("seconds_of_a_pass", "max_seconds", "passes", "note"),
    [
        (1.0, 5.5, [1, 4], "4 of 10 passes fit into max_seconds=5.5"),
        (9.0, 5.0, [1], "1 of 10 passes fit into max_seconds=5"),
        (0.1, 5.0, [1, 10], ""),
        (1.0, None, [10], ""),
    ],
)
def test_as_many_passes_are_made_as_fit(
    seconds_of_a_pass: float,
    max_seconds: float | None,
    passes: list[int],
    note: str,
    monkeypatch: pytest.MonkeyPatch,
    model: FakeModel,
) -> None:
    made: list[int] = []
    now = [0.0]

    class Slow(TimingBackend):
        def layer_times(self, *args: Any, **kwargs: Any) -> Sequence[LayerTime]:
            count: int = args[3]
            made.append(count)
            now[0] += seconds_of_a_pass * count
            return [LayerTime("", "Net", 1, (seconds_of_a_pass,) * count)]

    monkeypatch.setattr("profilerkit_metrics.layer_times.perf_counter", lambda: now[0])
    given: dict[str, Any] = {} if max_seconds is None else {"max_seconds": max_seconds}
    report = profile(model, FakeTensor((1, 3)), backend=Slow(), metrics=["layer_times"], **given)
    assert made == passes
    assert len(report["layer_times"].samples("")) == passes[-1]
    assert (
        any(note in one_note for one_note in report.notes)
        if note
        else not any("passes fit" in one_note for one_note in report.notes)
    )


def test_a_layer_whose_inner_layers_are_listed_without_those_between_is_no_leaf() -> None:
    """Its time has the time of ``a.b.c``, although ``a.b`` was not timed: 1 + 2 seconds."""
    table = layer_time_table([LayerTime(path, "T", 1, (seconds,)) for path, seconds in (("a", 1.0), ("a.b.c", 2.0))])
    assert [(row["is_leaf"], row["forward_seconds"]) for row in table] == [(False, 3.0), (True, 2.0)]
