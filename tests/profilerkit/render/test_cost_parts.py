"""Few lines that say where a model's cost is: models made by hand, whose parts can be told by eye."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from profilerkit.render.cost_parts import choose_column, divide
from profilerkit.render.part_contents import Part

#: Path, type, MACs with the layers inside, own MACs, parameters.
_Layer = tuple[str, str, int, int, int]


def rows(*layers: _Layer) -> list[Mapping[str, Any]]:
    names = ("path", "type", "macs", "own_macs", "params")
    return [dict(zip(names, layer, strict=True)) for layer in layers]


def describe(model: Part) -> list[tuple[int, str, str, int, float | None]]:
    return [(depth, part.kind, part.label, len(part.rows), part.sum("macs")) for depth, part in model.walk()]


ENCODER = rows(
    ("", "Bert", 1000, 0, 500),
    ("embeddings", "Embeddings", 0, 0, 200),
    ("encoder", "Encoder", 990, 0, 290),
    ("encoder.layer", "ModuleList", 990, 0, 290),
    *(
        layer
        for index in range(3)
        for layer in (
            (f"encoder.layer.{index}", "Block", 330, 30, 95),
            (f"encoder.layer.{index}.attention", "Attention", 100, 100, 30),
            (f"encoder.layer.{index}.norm", "Norm", 0, 0, 0),
            (f"encoder.layer.{index}.mlp", "Mlp", 200, 200, 65),
        )
    ),
    ("pooler", "Pooler", 10, 10, 10),
)


def test_equal_blocks_are_one_part_and_their_layers_too() -> None:
    """Three blocks of 330: attention 100, an MLP 200, and 30 that a block does itself; what only holds is passed."""
    assert describe(divide(ENCODER, "macs", 10)) == [
        (0, "layers", "embeddings", 1, 0),
        (0, "layers", "encoder.layer.0-2", 3, 990),
        (1, "layers", "attention", 3, 300),
        (1, "layers", "norm", 3, 0),
        (1, "layers", "mlp", 3, 600),
        (1, "own", "", 3, 90),
        (0, "layers", "pooler", 1, 10),
    ]


@pytest.mark.parametrize("most", [3, 4, 5, 6, 7, 10])
def test_all_parts_together_are_the_model(most: int) -> None:
    parts = [part for _, part in divide(ENCODER, "macs", most).walk()]
    assert len(parts) <= most
    assert sum(part.sum("macs") or 0 for part in parts if not part.inside) == 1000


def test_without_room_equal_blocks_stay_closed() -> None:
    assert describe(divide(ENCODER, "macs", 4)) == [
        (0, "layers", "embeddings", 1, 0),
        (0, "layers", "encoder.layer.0-2", 3, 990),
        (0, "layers", "pooler", 1, 10),
    ]


def test_small_layers_are_gathered() -> None:
    model = rows(
        ("", "Net", 1000, 0, 1000),
        ("conv", "Conv", 600, 600, 500),
        ("norm", "Norm", 1, 1, 1),
        ("relu", "ReLU", 0, 0, 0),
        ("head", "Linear", 399, 399, 499),
    )
    assert describe(divide(model, "macs", 10)) == [
        (0, "layers", "conv", 1, 600),
        (0, "layers", "head", 1, 399),
        (0, "others", "", 2, 1),
    ]


def test_of_many_layers_the_largest_are_shown() -> None:
    """Twenty layers with 1 to 20 MACs: the largest four, and 16 others with the rest of 210."""
    layers = [(name, f"Kind{name}", index, index, index) for index, name in enumerate("abcdefghijklmnopqrst", 1)]
    model = rows(("", "Net", 210, 0, 210), *layers)
    assert describe(divide(model, "macs", 5)) == [
        *((0, "layers", name, 1, index) for index, name in enumerate("qrst", 17)),
        (0, "others", "", 16, 210 - 74),
    ]


def test_numbered_layers_that_differ_stand_apart() -> None:
    model = rows(
        ("", "Sequential", 100, 0, 10),
        ("0", "Linear", 20, 20, 2),
        ("1", "Linear", 20, 20, 2),
        ("2", "Linear", 60, 60, 6),
    )
    assert describe(divide(model, "macs", 10)) == [(0, "layers", "0-1", 2, 40), (0, "layers", "2", 1, 60)]


def test_what_the_parts_are_found_by() -> None:
    """The time where it is known; a model without work is divided by its parameters; an empty one is not divided."""
    root = {"path": "", "type": "Net", "params": 5, "macs": 0, "flops": None}
    assert choose_column([{**root, "forward_seconds": 0.5}]) == "forward_seconds"
    assert choose_column([{**root, "macs": 7}]) == "macs"
    assert choose_column([root]) == "params"
    assert choose_column([{**root, "params": 0}]) == choose_column([]) == ""


def test_layers_without_a_value_count_nothing() -> None:
    """A layer that was not timed has None."""
    layers = [
        {"path": path, "type": "T", "params": 1, "forward_seconds": seconds}
        for path, seconds in (("", 2.0), ("a", 1.5), ("b", None), ("c", 0.5))
    ]
    parts = divide(layers, "forward_seconds", 10).inside
    assert [(part.label, part.sum("forward_seconds")) for part in parts] == [("a", 1.5), ("b", None), ("c", 0.5)]


def test_a_model_that_holds_one_other_is_passed_through() -> None:
    model = rows(
        ("", "Wrapper", 30, 0, 3), ("net", "Net", 30, 0, 3), ("net.a", "A", 10, 10, 1), ("net.b", "B", 20, 20, 2)
    )
    whole = divide(model, "macs", 10)
    assert whole.label == "net"
    assert [part.label for part in whole.inside] == ["a", "b"]


def test_a_part_with_little_of_the_whole_stays_closed() -> None:
    """Three tenths of the work and more are looked into."""
    inner = [("x.a", "A", 10, 10, 1), ("x.b", "B", 10, 10, 1), ("y.a", "A", 40, 40, 1), ("y.b", "B", 40, 40, 1)]
    model = rows(("", "Net", 100, 0, 4), ("x", "X", 20, 0, 2), *inner[:2], ("y", "Y", 80, 0, 2), *inner[2:])
    assert [(depth, part.label) for depth, part in divide(model, "macs", 10).walk()] == [
        (0, "x"),
        (0, "y"),
        (1, "a"),
        (1, "b"),
    ]


def test_a_part_stays_closed_where_the_others_inside_have_more_than_one_shown() -> None:
    """Six parts of 15 each have no room in the four lines that are left: two of them would say little of 90."""
    inner = [(f"dec.{name}", f"B{name}", 15, 15, 1) for name in "abcdef"]
    model = rows(("", "Net", 100, 0, 8), ("head", "H", 10, 10, 1), ("dec", "D", 90, 0, 7), *inner)
    assert [part.label for _, part in divide(model, "macs", 5).walk()] == ["head", "dec"]
    assert len(list(divide(model, "macs", 8).walk())) == 8


def test_a_part_with_one_layer_that_costs_stays_closed() -> None:
    """An activation beside the only layer with work says no more than the part of both."""
    model = rows(
        ("", "Net", 100, 0, 4),
        ("a", "A", 60, 0, 2),
        ("a.dense", "Linear", 60, 60, 2),
        ("a.act", "GELU", 0, 0, 0),
        ("b", "B", 40, 40, 2),
    )
    assert [part.label for _, part in divide(model, "macs", 8).walk()] == ["a", "b"]


def test_numbered_layers_with_other_layers_inside_stand_apart() -> None:
    """Two blocks of one type with equal counts, one of which calls what it holds by another name."""
    model = rows(
        ("", "Net", 100, 0, 10),
        ("0", "Block", 50, 0, 5),
        ("0.left", "Linear", 30, 30, 3),
        ("0.right", "Linear", 20, 20, 2),
        ("1", "Block", 50, 0, 5),
        ("1.left", "Linear", 30, 30, 3),
        ("1.other", "Linear", 20, 20, 2),
    )
    assert [(depth, part.label) for depth, part in divide(model, "macs", 8).walk()] == [
        (0, "0"),
        (1, "left"),
        (1, "right"),
        (0, "1"),
        (1, "left"),
        (1, "other"),
    ]


def test_a_model_of_many_layers_with_little_each_is_not_divided() -> None:
    """Each of a thousand layers has a tenth of a percent: none of them says where the work is."""
    layers = [(f"l{index}", f"Kind{index}", 1, 1, 1) for index in range(1000)]
    assert divide(rows(("", "Net", 1000, 0, 1000), *layers), "macs", 8).inside == []


def list_flat_blocks(count: int, *more: _Layer) -> list[Mapping[str, Any]]:
    """Return a model whose blocks are in the names of its layers alone: 60, 0 and 30 MACs each."""
    layers = [
        (f"block_{index}_{name}", kind, macs, macs, macs)
        for index in range(1, count + 1)
        for name, kind, macs in (("expand", "Conv2D", 60), ("BN", "Norm", 0), ("project", "Conv2D", 30))
    ]
    whole = sum(layer[2] for layer in (*layers, *more))
    return rows(("", "Keras", whole, 0, whole), *layers, *more)


def test_many_flat_layers_are_blocks_by_their_names() -> None:
    """31 layers: ten blocks of three, with 90 MACs each, and one layer beside them."""
    model = list_flat_blocks(10, ("head", "Dense", 100, 100, 100))
    assert describe(divide(model, "macs", 12)) == [
        *((0, "block", f"block_{index}", 3, 90) for index in range(1, 11)),
        (0, "layers", "head", 1, 100),
    ]


def test_few_flat_layers_stand_alone() -> None:
    """Thirty layers, the ten without MACs or parameters gathered."""
    parts = divide(list_flat_blocks(10), "macs", 30).inside
    assert [part.label for part in parts[:2]] == ["block_1_expand", "block_1_project"]
    assert [(part.kind, len(part.rows)) for part in parts] == [("layers", 1)] * 20 + [("others", 10)]


@pytest.mark.parametrize("name", ["conv2d_{0}", "dense{0}", "{0}_conv", "layer", "net1_layer"])
def test_names_that_part_no_layers_are_no_blocks(name: str) -> None:
    """What Keras names by itself has a number for each layer, or no number; and a stem of all layers is no block."""
    layers = [(name.format(index) + ("" if "{" in name else "x" * index), "Conv2D", 10, 10, 1) for index in range(40)]
    parts = divide(rows(("", "Keras", 400, 0, 40), *layers), "macs", 40).inside
    assert [(part.kind, len(part.rows)) for part in parts] == [("layers", 1)] * 40


def test_blocks_are_layers_that_follow_each_other() -> None:
    """A layer between two of one stem parts them, and a stem may end in a letter."""
    filling = [(f"plain{'x' * index}", "Dense", 0, 0, 0) for index in range(27)]
    names = ["block1a_conv", "block1a_bn", "between", "block1a_act", "block1b_conv"]
    model = rows(("", "Keras", 50, 0, 0), *((name, "Any", 10, 10, 0) for name in names), *filling)
    assert [(part.label, len(part.rows)) for part in divide(model, "macs", 8).inside] == [
        ("block1a", 2),
        ("between", 1),
        ("block1a_act", 1),
        ("block1b_conv", 1),
        ("", 27),
    ]


def give(model: list[Mapping[str, Any]], shapes: Mapping[str, tuple[int, ...]]) -> list[Mapping[str, Any]]:
    """Return layers with the shapes of their outputs, those of others unknown."""
    return [{**row, "output_shapes": (shapes[row["path"]],)} if row["path"] in shapes else row for row in model]


def test_blocks_of_a_series_that_give_one_shape_are_one_part_where_room_lacks() -> None:
    """Blocks 1 and 2 give (1, 4), 3 to 9 (1, 2), and 10 (1, 4) again; each has 90 MACs."""
    model = list_flat_blocks(10, ("head", "Dense", 100, 100, 100))
    last = {f"block_{index}_project": (1, 2 if 3 <= index <= 9 else 4) for index in range(1, 11)}
    assert describe(divide(give(model, last), "macs", 8)) == [
        (0, "block", "block_1-2", 6, 180),
        (0, "block", "block_3-9", 21, 630),
        (0, "block", "block_10", 3, 90),
        (0, "layers", "head", 1, 100),
    ]
    assert len(divide(give(model, last), "macs", 11).inside) == 11, "there is room for all"


def test_numbered_layers_of_one_type_and_shape_are_one_part_where_room_lacks() -> None:
    """Of ten layers with 1 to 10 MACs, five give one shape and four another; a pool between them gives that too."""
    kinds = ["Block"] * 5 + ["Pool"] + ["Block"] * 4
    layers = [(f"features.{index}", kind, index + 1, index + 1, 1) for index, kind in enumerate(kinds)]
    model = rows(("", "Net", 55, 0, 10), ("features", "Sequential", 55, 0, 10), *layers)
    shapes = {f"features.{index}": (1, 8 if index < 5 else 4) for index in range(10)}
    assert describe(divide(give(model, shapes), "macs", 8)) == [
        (0, "block", "0-4", 5, 15),
        (0, "layers", "5", 1, 6),
        (0, "block", "6-9", 4, 34),
    ]


def test_blocks_are_not_joined_to_one_part_that_is_all() -> None:
    """Eleven blocks that give one shape: seven of them and the others say more than their sum."""
    model = list_flat_blocks(11)
    parts = divide(give(model, {row["path"]: (1, 4) for row in model}), "macs", 8).inside
    assert [(part.kind, len(part.rows)) for part in parts] == [*[("block", 3)] * 7, ("others", 12)]


def test_what_is_small_between_blocks_is_part_of_them() -> None:
    """As `add_1` between two blocks, and as `multiply` between layers of one, which then is one block and not two."""
    layers = [
        layer
        for index in range(1, 11)
        for layer in (
            (f"block{index}_conv", "Conv", 40, 40, 1),
            (f"multiply_{index}", "Multiply", 0, 0, 0),
            (f"block{index}_point", "Conv", 50, 50, 1),
            (f"add_{index}", "Add", 0, 0, 0),
        )
    ]
    model = rows(("", "Keras", 900, 0, 20), *layers)
    shapes = {f"block{index}_point": (1, 2 if index <= 4 else 4) for index in range(1, 11)}
    assert describe(divide(give(model, shapes), "macs", 8)) == [
        (0, "block", "block1-4", 15, 360),
        (0, "block", "block5-10", 23, 540),
        (0, "others", "", 2, 0),
    ], "add_4 stands between two stages, and add_10 behind them"
