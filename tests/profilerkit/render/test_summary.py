"""What a report prints first: its values in columns, the parts of the model that cost most, and what is complete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from drawn_reports import STUDENT, TEACHER, record

from profilerkit import Comparative, Comparison, Completeness, Measurement, Report
from profilerkit.piping.quantity import Scale
from profilerkit.render.cost_grids import Costs
from profilerkit.render.summary import render
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.records import LayerTable, MemoryTimeline
from profilerkit.trace.table import Table


def row(path: str, kind: str, macs: int | None, **more: Any) -> dict[str, Any]:
    shapes = {"input_shapes": ((1, 8),), "output_shapes": ((1, 8, 16, 16),)}
    return (
        {"path": path, "type": kind, "depth": path.count("."), "params": 10, "macs": macs, "calls": 1} | shapes | more
    )


def report(*rows: dict[str, Any], **changes: Any) -> Report:
    return replace(TEACHER, layers=LayerTable(rows) if rows else None, **changes)


BLOCKS = (
    row("", "Net", 1000, own_macs=0),
    row("stem", "Conv2d", 100, own_macs=100),
    *(row(f"blocks.{index}", "Block", 225, own_macs=225) for index in range(4)),
)


def lines(text: str) -> list[str]:
    """Return the lines of a text, each with its words one blank apart."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_equal_blocks_are_one_line_with_the_share_of_each() -> None:
    """Of 1000 MACs the stem has 100; four blocks have 225 each: bars of one and of nine tenths of ten characters."""
    drawn = lines(render(report(*BLOCKS)))
    assert "stem Conv2d [1, 8, 16, 16] 10 100 10.0 % █" in drawn
    assert "blocks.0-3 4 x Block [1, 8, 16, 16] 40 900 4 x 22.5 % █████████" in drawn
    assert "MACs by type: Block 90.0 %, Conv2d 10.0 %." in drawn


@pytest.mark.parametrize(("count", "rest"), [(4, ""), (5, ", 1 other 10.0 %"), (6, ", 2 others 20.0 %")])
def test_the_types_beyond_four_are_counted(count: int, rest: str) -> None:
    """Of 100 MACs each layer but the first has 10, and the first has what is left."""
    shares = [100 - 10 * (count - 1), *[10] * (count - 1)]
    layers = [row(kind, kind.upper(), macs, own_macs=macs) for kind, macs in zip("abcdef"[:count], shares, strict=True)]
    drawn = lines(render(report(row("", "Net", 100, own_macs=0), *layers)))
    assert f"MACs by type: A {shares[0]}.0 %, B 10.0 %, C 10.0 %, D 10.0 %{rest}." in " ".join(drawn)


def test_what_equal_layers_do_themselves_has_the_share_of_each() -> None:
    """Of each block's 225 MACs, of 1000, the layer inside has 100, and so the block itself 125."""
    inside = [row(f"blocks.{index}.inner", "Linear", 100, own_macs=100) for index in range(4)]
    around = [one | {"own_macs": 125} if one["type"] == "Block" else one for one in BLOCKS]
    drawn = lines(render(report(*around, *inside)))
    assert any(line.startswith("blocks.0-3 4 x Block") and "4 x 22.5 %" in line for line in drawn)
    assert any(line.startswith("inner 4 x Linear") and "4 x 10.0 %" in line for line in drawn)
    assert any(line.startswith("(itself)") and "500 4 x 12.5 %" in line for line in drawn)


def test_blocks_of_a_flat_model_are_one_line_with_their_last_output() -> None:
    """Ten blocks of 60 and 30 MACs and a norm, and a head of 100: 31 layers right inside the model, of 1000 MACs.

    The first three blocks give one shape and the others another: 3 * 90 and 7 * 90 MACs.
    """
    layers = [
        row(f"block_{index}_{name}", kind, macs, own_macs=macs, output_shapes=(shape,))
        for index in range(1, 11)
        for name, kind, macs, shape in (
            ("expand", "Conv2D", 60, (1, 9)),
            ("BN", "Norm", 0, (1, 9)),
            ("project", "Conv2D", 30, (1, 4 if index <= 3 else 2)),
        )
    ]
    model = row("", "Keras", 1000, own_macs=0, params=310)
    drawn = lines(render(report(model, *layers, row("head", "Dense", 100, own_macs=100))))
    assert "block_1-3 (9 layers) [1, 4] 90 270 27.0 % ██▊" in drawn
    assert "block_4-10 (21 layers) [1, 2] 210 630 63.0 % ██████▎" in drawn
    assert "head Dense [1, 8, 16, 16] 10 100 10.0 % █" in drawn


def test_shares_are_those_of_the_time_once_it_is_measured() -> None:
    """Half of the two seconds are in the stem, which has a tenth of the MACs."""
    seconds = {"": 2.0, "stem": 1.0, **{f"blocks.{index}": 0.25 for index in range(4)}}
    timed = [{**layer, "forward_seconds": seconds[layer["path"]]} for layer in BLOCKS]
    drawn = lines(render(report(*timed)))
    assert "stem Conv2d 10 100 1 s 50.0 % █████" in [line.replace("[1, 8, 16, 16] ", "") for line in drawn]
    assert "blocks.0-3 4 x Block 40 900 1 s 4 x 12.5 % █████" in [line.replace("[1, 8, 16, 16] ", "") for line in drawn]


@pytest.mark.parametrize(
    ("slowest", "share"), [(1.0, "12.5 to 50.0 %"), (0.5, "4 x 15.6 %")]
)  # two seconds in all; 4 times as slow as the others, and 2 times: 1.25 / 4 of 2
def test_layers_that_are_far_apart_in_time_have_a_range_of_shares(slowest: float, share: str) -> None:
    seconds = {"": 2.0, "stem": 0.25, **{f"blocks.{index}": 0.25 for index in range(4)}, "blocks.2": slowest}
    timed = [{**layer, "forward_seconds": seconds[layer["path"]]} for layer in BLOCKS]
    assert any(
        line.startswith("blocks.0-3 4 x Block") and f" s {share}" in line for line in lines(render(report(*timed)))
    )


def peak_table(*, head: bool = False) -> LayerTable:
    """Blocks of 300 bytes, three of which have the same of each part, and 100 of the model itself; a head has none."""

    def peak(path: str, kind: str, weights: int, activations: int, own: int) -> dict[str, Any]:
        layer = {"path": path, "type": kind, "depth": path.count("."), "is_leaf": bool(path)}
        parts = {"weights_bytes": weights, "activations_bytes": activations, "own_weights_bytes": own}
        return (
            layer | {"peak_bytes": weights + activations, "own_peak_bytes": own} | parts | {"own_activations_bytes": 0}
        )

    blocks = [peak(f"blocks.{index}", "Block", 100, 200, 0) for index in range(3)]
    heads = [peak("head", "Linear", 0, 0, 0)] if head else []
    return LayerTable([peak("", "Net", 400, 600, 100), *blocks, *heads])


def test_where_the_memory_is_at_the_peak() -> None:
    """Three equal blocks of 300 of 1000 bytes are one line; the model itself has 100, all of them weights."""
    peak = record("peak_of_all", peak_table(), "4 layers")
    drawn = lines(render(report(*BLOCKS, statuses={"peak_of_all": peak})))
    title = drawn.index("Where it goes, by peak bytes")
    assert drawn[title + 1] == "Layer Type Peak bytes Share Most of it"
    assert drawn[title + 3 : title + 5] == [
        "blocks.0-2 3 x Block 900 B 3 x 30.0 % █████████ activations",
        "(itself) 100 B 10.0 % █ weights",
    ]
    beside = record("peak_of_all", peak_table(head=True), "5 layers")
    assert "head Linear 0 B 0.0 %" in lines(render(report(*BLOCKS, statuses={"peak_of_all": beside})))
    detailed = lines(render(report(*BLOCKS, statuses={"peak_of_all": peak}), details=True))
    assert "Layer Type Peak bytes Weights bytes Activations bytes" in detailed


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (100, "Type Output Params MACs"),
        (90, "Params MACs"),
        (80, "Params MACs"),
        (66, "Params"),
        (60, ""),
    ],
)
def test_a_narrow_terminal_has_fewer_columns(width: int, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = [row("", "Net", 10), row("encoder_of_all_images", "ConvolutionalNetwork", 4), row("decoder", "Decoder", 6)]
    text = render(report(*long))
    assert max(map(len, text.splitlines())) <= width
    assert " ".join(f"Layer {columns} Share".split()) in lines(text)
    assert ("encoder_of_all_images: ConvolutionalNetwork" in text) == ("Type" not in columns)
    assert "continued" not in text


def test_values_stand_in_columns_from_top_to_bottom() -> None:
    records = {name: record(name, number, str(number)) for number, name in enumerate("abcdefgh")}
    drawn = lines(render(report(statuses=records)))
    assert drawn[2:6] == ["A 0 E 4", "B 1 F 5", "C 2 G 6", "D 3 H 7"]
    few = {name: records[name] for name in "abc"}
    assert lines(render(report(statuses=few)))[2:5] == ["A 0", "B 1", "C 2"]


def test_what_is_complete_is_said_once() -> None:
    complete = {"a": record("a", 1, "1"), "b": record("b", 2, "2")}
    partial = record("c", 3, "3", completeness=Completeness.PARTIAL, missing=("aten::x (1 call)",))
    sentence = "All values are complete, and for a batch of 1."
    assert sentence in lines(render(report(statuses=complete)))
    assert "All values are complete." in lines(render(report(statuses=complete, batch_size=None)))
    drawn = lines(render(report(statuses={**complete, "c": partial})))
    assert "All values but C are complete, and for a batch of 1." in drawn
    assert "C is a lower bound; not counted: aten::x (1 call)" in drawn
    assert any(line.endswith("C ≥ 3") for line in drawn)
    assert "complete." not in render(report(statuses={"c": partial}))
    assert "complete" not in render(report(statuses={}))


def test_that_nothing_was_computed_is_said() -> None:
    """As of a bare `Profiler`, which has no metric."""
    nothing = report(statuses={}, notes=())
    for drawn in (render(nothing), render(Comparison(nothing, (nothing,)))):
        assert " ".join(drawn.split()).count("o metric was computed: this profiler has none") == 1


def test_inputs_dtypes_device_and_threads_are_said() -> None:
    shown = report(inputs="ModelInputs(ids=Tensor(1, 4))", input_dtypes="int64", environment={"intra_op_threads": "2"})
    assert lines(render(shown))[1] == "Input: ids=Tensor(1, 4), int64, 2 threads"
    alone = replace(shown, arguments={"num_threads": "1"})
    assert lines(render(alone))[1].endswith("int64, 1 thread"), "what was asked for, not what the process had"
    placed = replace(shown, environment={"device": "cuda:1", **shown.environment})
    assert lines(render(placed))[1] == "Input: ids=Tensor(1, 4), int64, cuda:1, 2 threads"
    assert ", cpu:0," in lines(render(replace(placed, environment={"device": "/CPU:0"})))[1] + ",", "TensorFlow's words"
    static = replace(shown, statuses={"a": record("a", 1, "1")})
    assert lines(render(static))[1] == "Input: ids=Tensor(1, 4), int64", "threads matter to times alone"


@pytest.mark.parametrize(
    "rows", [(), (row("", "Linear", 9),), (row("", "Net", None, params=None), row("a", "A", None, params=None))]
)
def test_a_model_that_is_not_divided_has_no_table(rows: tuple[dict[str, Any], ...]) -> None:
    text = render(report(*rows))
    assert "Where it goes" not in text
    assert "\n\n\n" not in text


def test_a_model_of_small_layers_alone_has_its_types() -> None:
    """Each of 200 layers has half a percent."""
    many = (
        row("", "Net", 200, own_macs=0, params=2000),
        *(row(f"l{index}", "Conv2d", 1, own_macs=1) for index in range(200)),
    )
    text = render(report(*many))
    assert "Where it goes" not in text
    assert "MACs by type: Conv2d 100.0 %." in lines(text)


def test_layers_that_are_shown_whole_are_not_summarized() -> None:
    assert "Where it goes" not in render(report(*BLOCKS), details=True)
    assert "Where it goes" not in render(report(*BLOCKS), top=2)


def test_a_lower_bound_of_a_part_has_its_sign() -> None:
    """One layer may have more than its 4 MACs, and one may do more than 20 itself."""
    rows = [
        row("", "Net", 40, macs_low=40, macs_high=None),
        row("a", "A", 4, macs_low=4, macs_high=None),
        row("b", "B", 6, macs_low=6, macs_high=6),
        row("c", "C", 30, macs_low=30, macs_high=None, own_macs=20, own_macs_low=20, own_macs_high=None),
        row("c.d", "D", 10, macs_low=10, macs_high=10),
    ]
    drawn = lines(render(report(*rows)))
    assert "Where it goes, by MACs, of what is counted" in drawn, "the shares are"
    assert "a A [1, 8, 16, 16] 10 ≥ 4 10.0 % █" in drawn
    assert "b B [1, 8, 16, 16] 10 6 15.0 % █▌" in drawn
    assert "(itself) - ≥ 20 50.0 % █████" in drawn


def test_a_part_of_which_only_some_layers_are_known_is_a_lower_bound() -> None:
    """Of three small layers two have 10 parameters each, and the third has no weights yet: 3 of 1000 MACs together."""
    small = [row(name, name.upper(), 1, params=10) for name in "ab"] + [row("c", "C", 1, params=None)]
    drawn = lines(render(report(row("", "Net", 1000, params=None), row("large", "Large", 997), *small)))
    assert "3 others ≥ 20 3 0.3 %" in drawn
    assert not any(line.startswith("large") and "≥" in line for line in drawn)


@pytest.mark.parametrize(("timed", "share"), [(4, "4 x 20.0 %"), (2, "2 x 40.0 %"), (1, "80.0 %"), (0, "-")])
def test_equal_layers_share_what_those_of_them_took_that_ran(timed: int, share: str) -> None:
    """Of four equal blocks some ran; these took 0.8 of 1 s together, each the same."""
    seconds = [0.8 / max(timed, 1)] * timed + [None] * (4 - timed)
    blocks = [row(f"blocks.{index}", "Block", 25, forward_seconds=time) for index, time in enumerate(seconds)]
    rows = [row("", "Net", 200, forward_seconds=1.0), *blocks, row("head", "Head", 100, forward_seconds=0.2)]
    grid = Costs.divide(LayerTable(rows), "forward_seconds").draw()
    cells = {line[0]: dict(zip(grid.titles, line, strict=True)) for line in grid.rows}
    assert [cells[name]["Share"] for name in ("blocks.0-3", "head")] == [share, "20.0 %"]


def test_a_comparison_of_two_shows_the_layers_that_differ_most() -> None:
    """The student's Linear layers are a quarter as wide: of 128 MACs 32 are left, and of 64 there are 16."""
    drawn = lines(render(Comparison(TEACHER, (STUDENT,))))
    assert "Layers that differ between Teacher and Student" in drawn
    assert "first Linear 144 36 128 32" in drawn
    assert "second Linear 68 20 64 16" in drawn
    assert not any(line.startswith("act") for line in drawn)
    assert "Layers that differ" not in render(Comparison(TEACHER, (TEACHER,)))
    assert "Layers that differ" not in render(Comparison(TEACHER, (STUDENT, STUDENT)))


def test_the_layer_that_differs_most_is_opened_while_there_is_room() -> None:
    """Of 9 layers that differ body has most MACs: its two stages are shown, and of the first its six blocks are not."""
    paths = ["", "stem", "body", "body.one", *(f"body.one.{index}" for index in range(6)), "body.two"]
    sizes = {"": 130, "stem": 10, "body": 120, "body.one": 90, "body.two": 30}
    wide, slim = (
        report(*(row(path, "Any", times * sizes.get(path, 15), flops=0, is_leaf=True) for path in paths), name=name)
        for name, times in (("Wide", 2), ("Slim", 1))
    )
    drawn = render(Comparison(wide, (slim,))).splitlines()
    start = drawn.index("Layers that differ between Wide and Slim")
    shown = [line.split() for line in drawn[start + 4 : start + 7]]
    assert shown == [
        ["stem", "Any", "10", "10", "20", "10"],
        ["body.one", "Any", "10", "10", "180", "90"],
        ["body.two", "Any", "10", "10", "60", "30"],
    ]
    assert not drawn[start + 7]


def report_of_linear(name: str, kind: str, flops: int, *parts: str) -> Report:
    layers = [row(part, "Part", 0, flops=0, is_leaf=True) for part in parts]
    return report(
        row("", "Net", 8, flops=flops, is_leaf=False),
        row("fc", kind, 8, flops=flops, is_leaf=not parts),
        *layers,
        name=name,
    )


@pytest.mark.parametrize("names", [("Float", "Quantized"), ("Quantized", "Float")])
@pytest.mark.parametrize(("flops", "is_said"), [(16, False), (20, True)])
def test_parts_of_a_layer_that_has_none_in_the_other_model_are_no_layers_that_differ(
    names: tuple[str, str], flops: int, is_said: bool
) -> None:
    """A quantized layer packs its weights in a part of its own: nothing was added to the model, or removed."""
    by_name = {
        "Float": report_of_linear("Float", "Linear", 16),
        "Quantized": report_of_linear("Quantized", "QLinear", flops, "fc.packed", "fc.packed.scale"),
    }
    drawn = render(Comparison(by_name[names[0]], (by_name[names[1]],)))
    assert ("FLOPs" in drawn and "fc" in drawn) is is_said
    assert "packed" not in drawn


def test_a_layer_in_whose_place_is_a_block_is_shown_once_with_the_layers_of_the_block() -> None:
    whole = report_of_linear("Whole", "Linear", 16)
    factors = report_of_linear("Factors", "Sequential", 12, "fc.0", "fc.1")
    drawn = lines(render(Comparison(whole, (factors,))))
    shown = [line.split() for line in drawn if line.startswith("fc")]
    assert [(words[0], words[-1]) for words in shown] == [("fc", "removed"), ("fc.0", "added"), ("fc.1", "added")]


def test_a_block_in_the_place_of_another_is_not_opened_where_both_have_a_layer() -> None:
    """Of the blocks' layers 0 changed, and the other is removed here and added there: shown alone, 0 would be lost."""
    changed: dict[str, Any] = {"is_leaf": True, "flops": 0}
    one, other = (
        report(
            row("", "Net", 8 + own + 5, flops=0, is_leaf=False),
            row("block", kind, own + 5, flops=0, is_leaf=False),
            row("block.0", "Linear", own, **changed),
            row(f"block.{name}", "Linear", 5, **changed),
            row("head", "Linear", 8, **changed),
            name=kind,
        )
        for kind, own, name in (("Sequential", 10, "1"), ("Cell", 80, "w"))
    )
    drawn = lines(render(Comparison(one, (other,))))
    shown = [line.split() for line in drawn if line.startswith("block")]
    assert [(words[0], words[1], words[-1]) for words in shown] == [
        ("block", "Sequential", "removed"),
        ("block", "Cell", "added"),
    ]


def test_of_more_layers_that_differ_the_title_says_how_many() -> None:
    """Eight layers have twice the MACs: six rows, and eight in the title. Layers with other FLOPs alone count last."""
    paths = ["", *(f"l{index}" for index in range(8)), "pool"]
    wide, slim = (
        report(
            *(row(path, "Any", 0 if path == "pool" else times, flops=times, is_leaf=True) for path in paths), name=name
        )
        for name, times in (("Wide", 2), ("Slim", 1))
    )
    drawn = render(Comparison(wide, (slim,)))
    assert "Layers that differ between Wide and Slim, 6 of 8" in drawn
    assert "pool" not in drawn


def test_layers_of_two_frameworks_are_not_shown_where_most_have_no_partner() -> None:
    """One is nested and the other flat, so that the same layers are removed here and added there."""
    nested = report(row("", "Net", 4, flops=8, is_leaf=False), row("block", "Block", 4, flops=8, is_leaf=True))
    flat = report(
        row("", "Model", 4, flops=8, is_leaf=False),
        *(row(f"conv2d_{index}", "Conv2D", 2, flops=4, is_leaf=True) for index in range(2)),
    )
    assert "Layers that differ" in render(Comparison(nested, (flat,)))
    assert "Layers that differ" not in render(Comparison(nested, (replace(flat, backend="other"),)))


def test_a_column_without_any_value_is_left_out() -> None:
    """Layers that were timed and not counted have no parameters and no MACs."""
    rows = [
        {"path": path, "type": "Any", "depth": 0, "calls": 1, "forward_seconds": seconds, "own_forward_seconds": 0.0}
        for path, seconds in (("", 3.0), ("a", 1.0), ("b", 2.0))
    ]
    assert "Layer Type Forward Share" in lines(render(report(*rows)))


def test_times_of_layers_that_do_not_add_up_are_noisy() -> None:
    """Of 10 seconds the layers have 5 and 4, which is told from 95 %, or 1 and 4, which is half."""
    for own, is_said in ((5.0, False), (1.0, True)):
        table = LayerTable(
            {
                "path": path,
                "type": "Any",
                "forward_seconds": whole,
                "own_forward_seconds": seconds,
                "is_leaf": bool(path),
            }
            for path, whole, seconds in (("", 10.0, 0.5), ("a", own, own), ("b", 4.0, 4.0))
        )
        text = " ".join(render(report(statuses={"layer_times": record("layer_times", table, "3 layers")})).split())
        said = "noisy: the own times of layers, a median each, add up to 55.0 % of the model's; measure longer"
        assert (said in text) == is_said


def test_intervals_are_left_out_where_two_columns_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy, text = Measurement((1.2, 1.5, 1.9), precision=0.01), "1.5 s ±23% [1.2 to 1.9, 3 samples]"
    facts = {"base_unit": "s", "scale": Scale.TIME}
    long = {f"a_long_name_{index}": record(f"a_long_name_{index}", noisy, text, "s", **facts) for index in range(4)}
    monkeypatch.setenv("COLUMNS", "100")  # twice a name of 13 and a value of 34 characters, two blanks between all
    assert f"A_Long_Name_0 {text} A_Long_Name_2 {text}" in lines(render(report(statuses=long)))
    monkeypatch.setenv("COLUMNS", "99")
    assert "A_Long_Name_0 1.5 s ±23% A_Long_Name_2 1.5 s ±23%" in lines(render(report(statuses=long)))


def test_counts_are_written_in_full_beside_the_rounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,056 is shown as "1.056 k", which is all of it; of two narrow columns the rounded numbers are left out."""
    counts = {"a": (11_689_512, "11.69 M"), "b": (1_056, "1.056 k"), "c": (1_814_073_344, "1.814 G"), "d": (2.5, "2.5")}
    records = {name: record(name, value, shown, scale=Scale.SI) for name, (value, shown) in counts.items()}
    partial = replace(records["c"], completeness=Completeness.PARTIAL, missing=("aten::x (1 call)",))
    shown = report(statuses={**records, "c": partial})
    drawn = lines(render(shown))
    assert "A 11.69 M (11,689,512) C ≥ 1.814 G (1,814,073,344)" in drawn
    assert "B 1.056 k D 2.5" in drawn
    monkeypatch.setattr("profilerkit.render.console.NARROWEST", 20)
    monkeypatch.setenv("COLUMNS", "36")  # 1 + 10 characters, and 1 + 15, with two blanks between all
    assert "A 11.69 M C ≥ 1.814 G" in lines(render(shown))
    monkeypatch.setenv("COLUMNS", "30")
    assert "A 11.69 M C ≥ 1.814 G" in lines(render(shown))


def test_counts_that_four_digits_tell_are_not_written_in_full_however_large() -> None:
    """8.7 P is all of 8,700,000,000,000,000, of which 8.7 * 1e15 is no exact product; 10**22 is beyond all prefixes."""
    counts = {"a": (8_700_000_000_000_000, "8.7 P"), "b": (10**22, "10,000 E"), "c": (10**22 + 2**21, "10,000 E")}
    records = {name: record(name, value, shown, scale=Scale.SI) for name, (value, shown) in counts.items()}
    drawn = lines(render(report(statuses=records)))
    assert drawn[2:5] == ["A 8.7 P", "B 10,000 E", "C 10,000 E (10,000,000,000,000,002,097,152)"]


def test_a_line_is_not_folded_between_a_number_and_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    note = "the weights of this model have at least 51.9 % of it, then 12.5 MiB and 3.25 ms are of the second half"
    for width in range(60, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        text = render(report(notes=(note,)))
        assert all(number in text for number in ("51.9 %", "12.5 MiB", "3.25 ms")), width


def test_a_narrow_comparison_folds_what_is_behind_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of a time, and the interval of a ratio, stand below it; no column is moved to a second table."""
    times = Measurement((0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.25), session=1)
    slow = record("execution_time", times, "200 ms ±50% [100, 300]", base_unit="s", comparative=Comparative.DIV)
    reports = [report(name=name, statuses={"execution_time": slow}) for name in ("A model of long name", "Another one")]
    monkeypatch.setenv("COLUMNS", "66")
    text = render(Comparison(reports[0], (reports[1],)))
    assert max(map(len, text.splitlines())) <= 66
    assert "continued" not in text


def test_what_stands_out_is_said_with_its_figures() -> None:
    """The table has 80 of 100 parameters and no MACs; the head has 1.5 of 2 seconds, and 0.1 % of MACs."""
    layers = (
        row("", "Net", 1000, params=100, forward_seconds=2.0),
        row("table", "Embedding", 0, params=80, forward_seconds=0.1),
        row("body", "Body", 999, params=10, forward_seconds=0.4),
        row("head", "Head", 1, params=10, forward_seconds=1.5),
    )
    drawn = lines(render(report(*layers)))
    assert "head has 75.0 % of the forward time and 0.1 % of the MACs." in drawn
    assert "table has 80.0 % of the parameters and 0.0 % of the MACs." in drawn
    assert not any(line.startswith("body has") for line in drawn), "a fifth of the time is no tenth of its MACs"
    assert not any(" has " in line for line in lines(render(report(*layers), advice=False)))


@pytest.mark.parametrize("seconds", [0.0, None, 0.01])
def test_a_layer_whose_work_another_does_while_it_is_timed_is_not_called_fast(seconds: float | None) -> None:
    """An encoder's fast path takes all of the time, and does the work of the layer inside in its place."""
    layers = (
        row("", "Net", 1000, forward_seconds=1.0, own_forward_seconds=1.0),
        row("linear", "Linear", 600, forward_seconds=seconds),
        row("head", "Linear", 400, forward_seconds=seconds),
    )
    drawn = lines(render(report(*layers)))
    assert ("linear has 60.0 % of the MACs and 1.0 % of the forward time." in drawn) == bool(seconds)
    assert any("of the MACs and" in line for line in drawn) == bool(seconds)


@pytest.mark.parametrize(("calls", "own_macs", "is_said"), [(0, 900, False), (1, 900, True), (0, 0, True)])
def test_weights_that_the_layer_around_uses_do_not_stand_out(calls: int, own_macs: int, is_said: bool) -> None:
    """Attention multiplies by the weights of the layer inside it, which it does not call; a layer of no use is said."""
    layers = (
        row("", "Net", 1000, params=100),
        row("mix", "Attention", own_macs, params=60, own_macs=own_macs, own_params=10),
        row("mix.out", "Linear", 0, params=50, calls=calls),
        row("head", "Head", 1000 - own_macs, params=40),
    )
    drawn = render(report(*layers))
    assert ("mix.out has 50.0 % of the parameters and 0.0 % of the MACs." in drawn) is is_said


def test_nothing_stands_out_by_bounds() -> None:
    layers = (
        row("", "Net", 10, params=100, macs_low=10, macs_high=None),
        row("table", "Embedding", 0, params=80, macs_low=0, macs_high=None),
        row("body", "Body", 10, params=20, macs_low=10, macs_high=10),
    )
    assert not any(" has " in line for line in lines(render(report(*layers))))


@pytest.mark.parametrize(("own", "is_said"), [(200, True), (199, False)])
def test_work_of_the_model_outside_of_its_layers(own: int, is_said: bool) -> None:
    """A fifth of 1000 MACs is done by the model itself."""
    layers = (row("", "Net", 1000, own_macs=own), row("a", "A", 500, own_macs=500), row("b", "B", 500 - own))
    said = "The model itself, outside of its layers, has 20.0 % of the MACs."
    assert (said in lines(render(report(*layers)))) == is_said
    inside = tuple({**one, "path": f"net.{one['path']}".rstrip(".")} for one in layers)
    assert "outside of its layers" not in render(report(row("", "Wrapper", 1000), *inside))


@pytest.mark.parametrize(("written", "is_said"), [(24, True), (25, False), (23, False)])
def test_what_is_written_at_the_peak(written: int, is_said: bool) -> None:
    """The second operator adds 24 bytes to 16, at a peak of 100: all of what it has written, if that is 24 bytes."""
    operators = Table(
        [{"operator": name, "layer": "", "macs": 0, "bytes_written": written} for name in ("conv", "softmax")]
    )
    footprint = {"memory": record("memory", 100, "100 B", "B", base_unit="B")}
    shown = report(*BLOCKS, memory=MemoryTimeline(60, 8, (16, 40)), operators=operators, statuses=footprint)
    said = "Memory: highest after softmax, whose output is 24.0 % of it; weights are 60.0 % of it."
    assert (said in lines(render(shown))) == is_said
    fewer = Table([{**one, "bytes_written": 19} for one in operators])
    small = replace(shown, memory=MemoryTimeline(60, 8, (21, 40)), operators=fewer)
    assert "whose output" not in render(small), "19 % are less than a fifth"


def test_where_memory_is_highest() -> None:
    """Weights of 60 bytes, and 40 bytes alive after the second operator: 60 and 40 of 100."""
    operators = Table([{"operator": "conv", "layer": "stem", "macs": 0}, {"operator": "relu", "layer": "", "macs": 0}])
    memory = MemoryTimeline(60, 8, (16, 40))
    footprint = {"memory": record("memory", 100, "100 B", "B", base_unit="B")}
    shown = report(*BLOCKS, memory=memory, operators=operators, statuses=footprint)
    assert "Memory: highest after relu; weights are 60.0 % of it." in lines(render(shown))
    early = replace(shown, memory=MemoryTimeline(40, 8, (60, 16)))
    assert "Memory: highest after conv in stem; weights are 40.0 % of it." in lines(render(early))
    unknown = replace(shown, memory=replace(memory, unsized={"x": 1}))
    assert "highest" not in render(unknown), "more may be alive elsewhere"
    bounded = replace(footprint["memory"], completeness=Completeness.PARTIAL)
    assert "highest" not in render(replace(shown, statuses={"memory": bounded})), "another branch may need more"
    other = replace(shown, memory=MemoryTimeline(60, 8, (16, 41)))
    assert "highest" not in render(other), "no metric of the report has this peak"


def test_a_branch_that_is_not_counted_has_no_share() -> None:
    """Its work is at most 50 MACs, and none of the 100 that are counted."""
    ends = {"own_macs_low": 0, "own_macs_high": 0}
    layers = (
        row("", "Net", 100, own_macs=0, macs_low=50, macs_high=100, **ends),
        row("a", "Linear", 100, own_macs=100, macs_low=50, macs_high=100, **ends),
        row("b", "Linear", 0, own_macs=0, macs_low=0, macs_high=50, **ends),
    )
    drawn = lines(render(report(*layers)))
    assert "b Linear [1, 8, 16, 16] 10 ≤ 50 -" in drawn
    assert "a Linear [1, 8, 16, 16] 10 ≤ 100 100.0 % ██████████" in drawn


def test_the_time_of_a_type_is_a_share_of_the_same_time_as_that_of_its_layers() -> None:
    """The medians of own times, 6 and 3 ms, add up to less than that of the model, 10 ms."""
    times = (("", 0.010, 0.0), ("a", 0.006, 0.006), ("b", 0.003, 0.003))
    layers = [
        row(path, path.upper() or "Net", 10, forward_seconds=seconds, own_forward_seconds=own, is_leaf=bool(path))
        for path, seconds, own in times
    ]
    drawn = lines(render(report(*layers)))
    assert any(line.startswith("a A ") and " 60.0 % " in line for line in drawn)
    assert "Forward time by type: A 60.0 %, B 30.0 %." in drawn


@pytest.mark.parametrize("columns", range(60, 120, 7))
def test_wide_letters_cut_no_value(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A letter of Japanese takes two columns of a terminal: "層" twelve times takes 24."""
    monkeypatch.setenv("COLUMNS", str(columns))
    records = {name: record(name, 11_689_512, "11.69 M", scale=Scale.SI) for name in "abcd"}
    wide = {name: replace(one, friendly_name=f"{'層' * 12}{name}") for name, one in records.items()}
    drawn = render(report(statuses=wide))
    assert drawn.count("11.69 M") == 4
    assert "…" not in drawn


@pytest.mark.parametrize(
    ("bounds", "note"), [(Bounds(5, 20), "lies between two ends"), (Bounds(), "may be less or more")]
)
def test_an_estimate_without_ends_is_not_said_to_have_two(bounds: Bounds, note: str) -> None:
    partial = replace(
        record("macs", 10, "10 MACs"), completeness=Completeness.PARTIAL, missing=("a branch",), bounds=bounds
    )
    assert f"{partial.friendly_name} {note}: a branch" in render(replace(TEACHER, statuses={"macs": partial}))
