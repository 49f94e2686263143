"""The layers with counts and times in one table, with numbers by hand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from profilerkit import Comparative, Completeness, Measurement, Report
from profilerkit.render import render
from profilerkit.render.values import Column
from profilerkit.results.report import StatusRecord
from profilerkit.times.layer_times import CallTime, LayerTime, layer_time_table
from profilerkit.trace.layer_view import group_children, with_times
from profilerkit.trace.records import LayerTable


def layer(path: str, kind: str, macs: int, inside: int = 0, **more: Any) -> Mapping[str, Any]:
    """Return a row: so many MACs of its own, so many of the layers inside; two FLOPs each, a parameter for each."""
    depth = path.count(".") + 1 if path else 0
    counts = {"params": macs + inside, "macs": macs + inside, "flops": 2 * (macs + inside)}
    return {
        "path": path,
        "type": kind,
        "depth": depth,
        "is_leaf": not inside,
        "calls": 1,
        **counts,
        "own_macs": macs,
        "own_flops": 2 * macs,
        "output_shapes": ((1, 4),),
        **more,
    }


#: A block of two layers and a head: 0 + (100 + 300) + 400 MACs; "drop" was not timed.
LAYERS = LayerTable(
    [
        layer("", "Net", 0, 800),
        layer("block", "Block", 0, 400),
        layer("block.a", "Linear", 100),
        layer("block.b", "Conv", 300),
        layer("head", "Linear", 400),
        layer("drop", "Dropout", 0),
    ]
)

#: 1 s of the network's own, 2 s and 3 s in the block, 4 s in the head; twice that backward. No parameters, so no layer.
TIMES = layer_time_table(
    [
        LayerTime("", "Net", 1, (1.0,), (2.0,)),
        LayerTime("block", "Block", 1, (0.0,), (0.0,)),
        LayerTime("block.a", "Linear", 1, (2.0,), (4.0,)),
        LayerTime("block.b", "Conv", 1, (3.0,), (6.0,), missing="copies"),
        LayerTime("head", "Linear", 1, (4.0,), (8.0,)),
    ]
)


def make_timed(layers: LayerTable | None = LAYERS, times: Any = TIMES) -> Report:
    record = StatusRecord(
        "layer_times", "Layer Times", "", times, "6 layers", "", Comparative.NONE, Completeness.COMPLETE
    )
    return Report("m", "fake", "module.Net", {"layer_times": record}, layers=layers)


def test_counts_and_times_stand_in_one_row() -> None:
    merged = make_timed().layerwise
    assert [row["path"] for row in merged] == ["", "block", "block.a", "block.b", "head", "drop"]
    block = merged["block"]
    assert (block["macs"], block["forward_seconds"], block["backward_seconds"]) == (400, 5.0, 10.0)
    assert (block["own_macs"], block["own_forward_seconds"]) == (0, 0.0)
    assert block["macs_share"] == block["params_share"] == block["flops_share"] == 0.5
    assert block["forward_seconds_share"] == block["backward_seconds_share"] == 0.5
    assert merged["block.b"]["missing"] == "copies"
    assert len({tuple(row) for row in merged}) == 1, "equal keys in every row"


def test_achieved_flops_are_those_of_the_forward_pass_over_its_seconds() -> None:
    """The network: 1600 FLOPs in 10 s; its block: 800 in 5 s, none of its own; the head: 800 in 4 s."""
    merged = make_timed().layerwise
    assert [row["achieved_flops_per_second"] for row in merged] == [160.0, 160.0, 100.0, 200.0, 200.0, None]
    assert [row["achieved_own_flops_per_second"] for row in merged] == [None, None, 100.0, 200.0, 200.0, None]
    passes = {"forward_flops": 10, "own_forward_flops": 4}
    step = with_times(LayerTable([layer("", "Net", 15, **passes)]), layer_time_table([LayerTime("", "Net", 1, (2.0,))]))
    assert (step[0]["achieved_flops_per_second"], step[0]["achieved_own_flops_per_second"]) == (5.0, 2.0)


@pytest.mark.parametrize(("calls", "rate"), [(1, 5.0), (0, None)])
def test_a_layer_that_has_the_time_of_one_inside_has_no_rate_of_its_own(calls: int, rate: float | None) -> None:
    """An encoder does 10 FLOPs itself, and in its fast path the 90 of the layer inside: 100 in two seconds."""
    layers = [layer("", "Encoder", 0, flops=100, own_flops=10), layer("inner", "Linear", 0, flops=90, own_flops=90)]
    times = [LayerTime("", "Encoder", 1, (2.0,)), LayerTime("inner", "Linear", calls, (1.0 if calls else 0.0,))]
    encoder, inner = with_times(LayerTable(layers), layer_time_table(times))
    assert encoder["achieved_own_flops_per_second"] == rate
    assert encoder["achieved_flops_per_second"] == 100 / encoder["forward_seconds"]
    assert inner["achieved_own_flops_per_second"] == (90.0 if calls else None)


def test_a_layer_that_was_not_timed_has_none_and_ranks_nowhere() -> None:
    merged = make_timed().layerwise
    assert merged["drop"]["forward_seconds"] is merged["drop"]["forward_seconds_share"] is None
    assert [row["path"] for row in merged.top(9, by="forward_seconds")] == ["head", "block.b", "block.a"]
    assert [row["path"] for row in merged.top(1, by="achieved_flops_per_second", depth=1)] == ["head"]
    assert [row["path"] for row in merged.top(2, by="backward_seconds_share", depth=1)] == ["block", "head"]
    with pytest.raises(ValueError, match="column 'path' of the layer table holds no numbers to rank by"):
        merged.top(by="path")


def test_the_types_of_layers_add_up_to_the_model() -> None:
    """Of their own work: Linear 100 + 400 MACs in 2 + 4 s, Conv 300 in 3 s, and 1 s of the network's own."""
    types = {row["type"]: row for row in make_timed().layerwise.by_type()}
    assert {kind: (row["layers"], row["macs"], row["forward_seconds"]) for kind, row in types.items()} == {
        "Net": (1, 0, 1.0),
        "Block": (1, 0, 0.0),
        "Linear": (2, 500, 6.0),
        "Conv": (1, 300, 3.0),
        "Dropout": (1, 0, None),
    }
    assert not any("per_second" in name or "share" in name for name in types["Linear"]), (
        "rates and shares do not add up"
    )
    assert [row["type"] for row in make_timed().layerwise.by_type().top(2, by="backward_seconds")] == ["Linear", "Conv"]
    outer = make_timed().layerwise.by_type(depth=1)
    assert {row["type"]: row["forward_seconds"] for row in outer} == {"Block": 5.0, "Linear": 4.0, "Dropout": None}


def test_what_was_timed_or_traced_alone() -> None:
    assert [row["forward_seconds"] for row in make_timed(layers=None).layerwise] == [10.0, 5.0, 2.0, 3.0, 4.0]
    counted = replace(make_timed(), statuses={}).layerwise
    assert counted["head"]["macs_share"] == 0.5
    assert "forward_seconds" not in counted[0]
    assert len(Report("m", "fake", "module.Net", {}).layerwise) == 0
    lacking = make_timed(layers=LayerTable(row for row in LAYERS if row["path"] != "head")).layerwise
    assert (lacking[-1]["path"], lacking[-1]["macs"], lacking[-1]["forward_seconds"]) == ("head", None, 4.0)


def test_shares_that_are_there_are_kept_and_none_is_made_of_nothing() -> None:
    merged = with_times(
        LayerTable([layer("", "Net", 0, macs_share=None), layer("a", "Linear", 5, macs_share=0.25)]), None
    )
    assert [row["macs_share"] for row in merged] == [None, 0.25]
    assert [row["params_share"] for row in merged] == [None, None]


def test_the_layers_inside_each_layer() -> None:
    inside = {path: [row["path"] for row in rows] for path, rows in group_children(LAYERS).items()}
    assert inside == {"": ["block", "head", "drop"], "block": ["block.a", "block.b"]}
    gaps = [layer(path, "T", 1) for path in ("", "a", "a.list.0")]
    assert {path: [row["path"] for row in rows] for path, rows in group_children(gaps).items()} == {
        "": ["a"],
        "a": ["a.list.0"],
    }


def test_readers_get_the_merged_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    layers = render(make_timed(), "table", details=True).rpartition("Layers")[2]
    (head,) = (" ".join(line.split()) for line in layers.splitlines() if "head" in line)
    assert head == "head Linear [1, 4] 400 400 800 200 FLOP/s", "the times stand in a table of their own"
    (drop,) = (" ".join(line.split()) for line in layers.splitlines() if "drop" in line)
    assert drop == "drop Dropout [1, 4] - - - -"
    header, *rows = render(make_timed(), "layers-csv").splitlines()
    assert header.endswith("achieved_flops_per_second,achieved_own_flops_per_second")
    assert rows[4].endswith("200.0,200.0")
    assert rows[5].endswith(",,")


def test_a_tree_of_the_slowest_layers() -> None:
    drawn = render(make_timed(), "tree", top=1, by="forward_seconds").splitlines()
    assert [line.split("  ")[0] for line in drawn[1:]] == ["Net", "└── head: Linear"]
    assert "4 s forward (40.0 %), 8 s backward (40.0 %), 200 FLOP/s" in drawn[-1]
    inner = render(make_timed(), "tree", top=2, by="forward_seconds")
    assert "block: Block" in inner and "b: Conv" in inner and "a: Linear" not in inner


def test_the_samples_of_layers_are_among_the_iterations() -> None:
    """Two passes of a layer of which the backend tells the calls apart, and one of a layer that it timed as a whole."""
    calls = (CallTime(0, 1, 2.0, 1.5), CallTime(1, 0, 3.0, 2.5, 4.0, 3.5))
    time = StatusRecord("time", "Time", "", Measurement((5.0,)), "", "", Comparative.NONE, Completeness.COMPLETE)
    report = make_timed(times=layer_time_table([LayerTime("a", "T", 2, (1.5, 2.5), (0.0, 3.5), each_call=calls)]))
    rows = replace(report, statuses={**report.statuses, "time": time}).iterations
    assert [tuple(row.values()) for row in rows] == [
        ("layer_times.forward_seconds", "a", 1, 0, 2.0, False),
        ("layer_times.own_forward_seconds", "a", 1, 0, 1.5, False),
        ("layer_times.forward_seconds", "a", 0, 1, 3.0, False),
        ("layer_times.backward_seconds", "a", 0, 1, 4.0, False),
        ("layer_times.own_forward_seconds", "a", 0, 1, 2.5, False),
        ("layer_times.own_backward_seconds", "a", 0, 1, 3.5, False),
        ("time", None, None, 0, 5.0, False),
    ]
    assert rows.columns == ("metric", "layer", "call", "iteration", "value", "warmup")
    whole = [row for row in make_timed().iterations if row["metric"] == "layer_times.forward_seconds"]
    assert [(row["layer"], row["call"], row["value"]) for row in whole][1:3] == [
        ("block", None, 5.0),
        ("block.a", None, 2.0),
    ]


@pytest.mark.parametrize(
    ("name", "value", "title", "shown"),
    [
        ("macs", 4_089_184_256, "MACs", "4.089 GMACs"),
        ("forward_macs", 5, "Forward MACs", "5 MACs"),
        ("trainable_params", 12_300, "Trainable parameters", "12.3 k"),
        ("own_backward_seconds", 0.002, "Own backward time", "2 ms"),
        ("weight_bytes", 2048, "Weight bytes", "2 KiB"),
        ("own_bytes_read", 1024, "Own bytes read", "1 KiB"),
        ("achieved_flops_per_second", 2e9, "Achieved FLOP/s", "2 GFLOP/s"),
        ("forward_seconds_share", 0.125, "Share of forward time", "12.5 %"),
        ("calls", None, "Calls", ""),
    ],
)
def test_what_columns_are_called_and_shown_in(name: str, value: Any, title: str, shown: str) -> None:
    column = Column.of(name)
    assert (column.title, column.show(value)) == (title, shown)
