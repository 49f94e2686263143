"""What a report prints first: its values in columns, the parts of the model that cost most, and what is complete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from drawn_reports import STUDENT, TEACHER, record

from profilerkit import Comparison, Completeness, Report
from profilerkit.render.summary import render
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


def test_a_block_of_a_flat_model_is_one_line_with_its_last_output() -> None:
    """Ten blocks of 60 and 30 MACs and a norm, and a head of 100: 31 layers right inside the model, of 1000 MACs."""
    layers = [
        row(f"block_{index}_{name}", kind, macs, own_macs=macs, output_shapes=(shape,))
        for index in range(1, 11)
        for name, kind, macs, shape in (
            ("expand", "Conv2D", 60, (1, 9)),
            ("BN", "Norm", 0, (1, 9)),
            ("project", "Conv2D", 30, (1, 4)),
        )
    ]
    model = row("", "Keras", 1000, own_macs=0, params=310)
    drawn = lines(render(report(model, *layers, row("head", "Dense", 100, own_macs=100))))
    assert "block_10 (3 layers) [1, 4] 30 90 9.0 % ▉" in drawn
    assert "12 others 120 360 36.0 % ███▋" in drawn


def test_shares_are_those_of_the_time_once_it_is_measured() -> None:
    """Half of the two seconds are in the stem, which has a tenth of the MACs."""
    seconds = {"": 2.0, "stem": 1.0, **{f"blocks.{index}": 0.25 for index in range(4)}}
    timed = [{**layer, "forward_seconds": seconds[layer["path"]]} for layer in BLOCKS]
    drawn = lines(render(report(*timed)))
    assert "stem Conv2d 10 100 1 s 50.0 % █████" in [line.replace("[1, 8, 16, 16] ", "") for line in drawn]
    assert "blocks.0-3 4 x Block 40 900 1 s 4 x 12.5 % █████" in [line.replace("[1, 8, 16, 16] ", "") for line in drawn]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (100, "Type Output Parameters MACs"),
        (90, "Type Parameters MACs"),
        (75, "Parameters MACs"),
        (66, "Parameters"),
        (60, ""),
    ],
)
def test_a_narrow_terminal_has_fewer_columns(width: int, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = [row("", "Net", 10), row("encoder_of_images", "ConvolutionalNetwork", 4), row("decoder", "Decoder", 6)]
    text = render(report(*long))
    assert max(map(len, text.splitlines())) <= width
    assert " ".join(f"Layer {columns} MACs".split()) in lines(text), "the last one is the share of the MACs"
    assert ("encoder_of_images: ConvolutionalNetwork" in text) == ("Type" not in columns)
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
    assert "All values are complete." in lines(render(report(statuses=complete)))
    drawn = lines(render(report(statuses={**complete, "c": partial})))
    assert "All values but C are complete." in drawn
    assert "C is a lower bound; not counted: aten::x (1 call)" in drawn
    assert any(line.endswith("C ≥ 3") for line in drawn)
    assert "complete." not in render(report(statuses={"c": partial}))
    assert "complete" not in render(report(statuses={}))


def test_inputs_dtypes_and_threads_are_said() -> None:
    shown = report(inputs="ModelInputs(ids=Tensor(1, 4))", input_dtypes="int64", environment={"intra_op_threads": "2"})
    assert lines(render(shown))[1] == "Input: ids=Tensor(1, 4), int64, 2 threads"
    alone = replace(shown, arguments={"num_threads": "1"})
    assert lines(render(alone))[1].endswith("int64, 1 thread"), "what was asked for, not what the process had"
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
    """One of two layers may have more than its 4 MACs, so their sum of 10 may be more too."""
    rows = [
        row("", "Net", 10, macs_low=10, macs_high=None),
        row("a", "A", 4, macs_low=4, macs_high=None),
        row("b", "B", 6, macs_low=6, macs_high=6),
    ]
    drawn = lines(render(report(*rows)))
    assert "a A [1, 8, 16, 16] 10 ≥ 4 40.0 % ████" in drawn
    assert "b B [1, 8, 16, 16] 10 6 60.0 % ██████" in drawn


def test_a_comparison_of_two_shows_the_layers_that_differ_most() -> None:
    """The student's Linear layers are a quarter as wide: of 128 MACs 32 are left, and of 64 there are 16."""
    drawn = lines(render(Comparison(TEACHER, (STUDENT,))))
    assert "Layers that differ between Teacher and Student" in drawn
    assert "first Linear 144 36 128 32 changed" in drawn
    assert "second Linear 68 20 64 16 changed" in drawn
    assert not any(line.startswith("act") for line in drawn)
    assert "Layers that differ" not in render(Comparison(TEACHER, (TEACHER,)))
    assert "Layers that differ" not in render(Comparison(TEACHER, (STUDENT, STUDENT)))


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


def test_nothing_stands_out_by_bounds() -> None:
    layers = (
        row("", "Net", 10, params=100, macs_low=10, macs_high=None),
        row("table", "Embedding", 0, params=80, macs_low=0, macs_high=None),
        row("body", "Body", 10, params=20, macs_low=10, macs_high=10),
    )
    assert not any(" has " in line for line in lines(render(report(*layers))))


@pytest.mark.parametrize(("own", "is_said"), [(200, True), (199, False)])
def test_work_of_the_model_outside_of_its_layers(own: int, is_said: bool) -> None:
    """A fifth of 1000 MACs is done by the model itself; half of these, 100, by one of its operators."""
    layers = (row("", "Net", 1000, own_macs=own), row("a", "A", 500, own_macs=500), row("b", "B", 500 - own))
    operators = Table(
        [
            {"operator": "bmm", "layer": "", "macs": 100},
            {"operator": "mm", "layer": "", "macs": 60},
            {"operator": "add", "layer": "", "macs": 40},
            {"operator": "conv", "layer": "a", "macs": 800},
        ]
    )
    said = "The model itself, outside of its layers, has 20.0 % of the MACs; its MACs are mostly those of bmm."
    assert (said in lines(render(report(*layers, operators=operators)))) == is_said
    fewer = Table([{**one, "macs": one["macs"] - (one["operator"] == "bmm")} for one in operators])
    drawn = lines(render(report(*layers, operators=fewer)))
    assert ("The model itself, outside of its layers, has 20.0 % of the MACs." in drawn) == is_said
    inside = tuple({**one, "path": f"net.{one['path']}".rstrip(".")} for one in layers)
    assert "outside of its layers" not in render(report(row("", "Wrapper", 1000), *inside))


@pytest.mark.parametrize(("wide", "is_said"), [(5, True), (4, False)])
def test_weights_in_a_wider_dtype_than_most(wide: int, is_said: bool) -> None:
    def hold(path: str, **counts: int) -> dict[str, Any]:
        return row(path, "Layer", 10, params=sum(counts.values()), params_by_dtype=counts, is_leaf=bool(path))

    layers = (
        hold("", float16=100 - wide, float32=wide),
        hold("norm", float32=1),
        hold("head", float32=wide - 1),
        hold("body", float16=100 - wide),
    )
    said = f"{wide}.0 % of the parameters are float32, most of them in head, in a model of float16."
    assert (said in lines(render(report(*layers)))) == is_said
    wider = tuple({**one, "params_by_dtype": {"float32": 99, "bfloat16": 1}} for one in layers)
    assert "in a model of" not in render(report(*wider)), "what is narrower needs less"
    quantized = tuple({**one, "params_by_dtype": {"int8": 50, "float32": 50}} for one in layers)
    assert "in a model of" not in render(report(*quantized))


@pytest.mark.parametrize(("written", "is_said"), [(24, True), (25, False), (23, False)])
def test_what_is_written_at_the_peak(written: int, is_said: bool) -> None:
    """The second operator adds 24 bytes to 16, at a peak of 100: all of what it has written, if that is 24 bytes."""
    operators = Table(
        [{"operator": name, "layer": "", "macs": 0, "bytes_written": written} for name in ("conv", "softmax")]
    )
    footprint = {"memory": record("memory", 100, "100 B", "B", base_unit="B")}
    shown = report(*BLOCKS, memory=MemoryTimeline(60, 8, (16, 40)), operators=operators, statuses=footprint)
    said = "Memory: highest after softmax; what that writes is 24.0 % of it, weights are 60.0 % of it."
    assert (said in lines(render(shown))) == is_said
    fewer = Table([{**one, "bytes_written": 19} for one in operators])
    small = replace(shown, memory=MemoryTimeline(60, 8, (21, 40)), operators=fewer)
    assert "what that writes" not in render(small), "19 % are less than a fifth"


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
    other = replace(shown, memory=MemoryTimeline(60, 8, (16, 41)))
    assert "highest" not in render(other), "no metric of the report has this peak"
