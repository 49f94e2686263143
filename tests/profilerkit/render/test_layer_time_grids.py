"""The times of layers, printed: each once, with its noise and its share, and one answer to which layer is slow."""

from __future__ import annotations

from drawn_reports import record

from profilerkit import Report
from profilerkit.render.layer_time_grids import layer_time_grid
from profilerkit.render.ranks import describe_first_row
from profilerkit.times.layer_times import LayerTime, LayerTimeTable
from profilerkit.trace.records import LayerTable

#: Of 10 ms forward the stem takes 6, and the block 4: 1 itself, and 3 in its convolution, which is slowest backward.
TIMES = LayerTimeTable(
    [
        LayerTime("", "Net", 1, (0.0, 0.0), (0.0, 0.0)),
        LayerTime("stem", "Conv2d", 1, (0.006, 0.006), (0.002, 0.002)),
        LayerTime("block", "Block", 1, (0.001, 0.001), (0.0, 0.0)),
        LayerTime("block.conv", "Conv2d", 1, (0.002, 0.004), (0.008, 0.008)),
    ]
)


def cells(table: LayerTable, top: int = 10) -> list[list[str]]:
    grid = layer_time_grid("Layer Times", table, top)
    return [[title.replace("\n", " ") for title in grid.titles], *map(list, grid.rows)]


def test_each_time_stands_once_with_its_noise_and_its_share() -> None:
    """The samples of the convolution, 2 and 4 ms, are a third off their median of 3; own times are of holders alone."""
    titles, model, stem, block, conv = cells(TIMES)
    assert titles == ["Layer", "Type", "Forward", "Share of forward", "Own forward", "Backward", "Share of backward"]
    assert model[:4] == ["(model)", "Net", "10 ms ±10%", "100.0 %"]
    assert stem == ["stem", "Conv2d", "6 ms ±0.0%", "60.0 %", "", "2 ms ±0.0%", "20.0 %"]
    assert block == ["block", "Block", "4 ms ±25%", "40.0 %", "1 ms ±0.0%", "8 ms ±0.0%", "80.0 %"]
    assert conv == ["conv", "Conv2d", "3 ms ±33%", "30.0 %", "", "8 ms ±0.0%", "80.0 %"]


def test_of_many_layers_the_slowest_are_shown_by_their_own_time() -> None:
    titles, *rows = cells(TIMES, top=2)
    assert titles == ["Layer", "Type", "Own forward", "Share of forward", "Own backward", "Share of backward"]
    assert [row[0] for row in rows] == ["stem", "block.conv"]
    assert rows[0][2:4] == ["6 ms ±0.0%", "60.0 %"]


def test_calls_have_a_column_where_a_layer_is_called_more_than_once() -> None:
    twice = LayerTimeTable([LayerTime("", "Net", 1, (0.0,)), LayerTime("a", "A", 2, (0.001,))])
    assert [row[2] for row in cells(twice)] == ["Calls", "1", "2"]
    assert cells(twice)[2][3] == "1 ms", "one sample has no noise"


def test_of_a_model_without_layers_the_note_has_one() -> None:
    assert describe_first_row(LayerTimeTable([LayerTime("", "Net", 1, (0.004,))])).startswith(
        "the slowest of 1 layer is "
    )


def test_the_note_the_ranking_and_the_grid_name_one_layer() -> None:
    first = "the slowest of 4 layers is stem (Conv2d), 6 ms (60.0 %) of its own forward"
    assert describe_first_row(TIMES) == f"{first}; backward it is block.conv (Conv2d), 8 ms (80.0 %)"
    assert TIMES.top(1, by="own_forward_seconds")[0]["path"] == "stem"
    assert cells(TIMES, top=1)[1][0] == "stem"


def test_a_layer_that_holds_others_may_be_the_slowest_itself() -> None:
    table = LayerTimeTable([LayerTime("", "Net", 1, (0.003,)), LayerTime("a", "A", 1, (0.001,))])
    assert table.top(1, by="own_forward_seconds")[0]["path"] == ""
    assert table.top(1, by="own_forward_seconds", depth=-1)[0]["path"] == "a"
    assert "is Net, 3 ms (75.0 %)" in describe_first_row(table)


def test_times_stand_in_one_table_of_a_report() -> None:
    counts = [
        {"path": row["path"], "type": row["type"], "depth": row["depth"], "is_leaf": row["is_leaf"], "calls": 1}
        | {"params": 1, "macs": 1, "flops": 2, "output_shapes": ()}
        for row in TIMES
    ]
    statuses = {"layer_times": record("layer_times", TIMES, "4 layers")}
    text = Report("net", "fake", "m.Net", statuses, layers=LayerTable(counts)).to_text(details=True)
    assert text.count("6 ms") == 2, "in the note and in the grid"
    narrow = [line.split() for line in text.splitlines() if "stem" in line and "slowest" not in line]
    assert len(narrow) == 2
