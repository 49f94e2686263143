"""The tables of layers: what a row says, ranking, sums by type, one row for each call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from profilerkit.trace import records
from profilerkit.trace.layer_table import LayerTable
from profilerkit.trace.records import (
    LayerCall,
    LayerRecord,
    MemoryTimeline,
    ModelTrace,
    OpRecord,
    TensorInfo,
    WeightRecord,
)


def info(*shape: int, dtype: str = "float32") -> TensorInfo:
    return TensorInfo(shape, dtype)


def weight(identity: int, count: int, dtype: str = "float32", **facts: Any) -> WeightRecord:
    size = {"float32": 4, "float16": 2}[dtype]
    return WeightRecord(f"w{identity}", identity, count, count * size, dtype, **{"trainable": True, **facts})


def op(layer: str, call: int, macs: int, flops: int = 0) -> OpRecord:
    return OpRecord("mm", layer, call, macs, flops or 2 * macs, 10 * macs, macs, (info(2, macs),))


@pytest.fixture
def trace() -> ModelTrace:
    """Net(block(linear, linear again, norm), head): the head is called inside the block, ``idle`` never."""
    root, block = LayerCall((info(2, 8),), (info(2, 3),)), ("", 0)
    inside = ("block", 0)
    layers = (
        LayerRecord("", "Net", 0, calls=(root,)),
        LayerRecord("block", "Block", 1, (weight(0, 5),), calls=(LayerCall((info(2, 8),), (info(2, 8),), block),)),
        LayerRecord(
            "block.linear",
            "Linear",
            2,
            (weight(1, 64), weight(2, 8, "float16", trainable=False)),
            calls=(
                LayerCall((info(2, 8),), (info(2, 8),), inside),
                LayerCall((info(2, 8, dtype="float16"),), (info(2, 8), info(1)), inside),
            ),
        ),
        LayerRecord(
            "block.norm",
            "Norm",
            2,
            (),
            (weight(3, 8, trainable=False), weight(4, 1, trainable=False, persistent=False)),
            calls=(LayerCall((info(2, 8),), (info(2, 8),), inside),),
        ),
        LayerRecord("head", "Linear", 1, (weight(1, 64),), calls=(LayerCall((info(2, 8),), (info(2, 3),), inside),)),
        LayerRecord("idle", "Linear", 1, (weight(5, 30),)),
    )
    operators = (
        op("block.linear", 0, 100),
        op("block.linear", 1, 200),
        op("block.norm", 0, 0, 50),
        op("block", 0, 7),
        op("head", 0, 40),
        op("", 0, 3),
        op("", -1, 11),
    )
    return ModelTrace(layers, operators, MemoryTimeline(0, 0, (0,) * len(operators)))


def test_the_layers_inside_a_layer_follow_it_where_others_run_between_them() -> None:
    called = [
        ("", "Net", 0),
        ("blocks", "List", 1),
        ("blocks.0", "Linear", 2),
        ("drop", "Drop", 1),
        ("blocks.1", "Linear", 2),
    ]
    layers = tuple(LayerRecord(path, kind, depth) for path, kind, depth in called)
    table = ModelTrace(layers).table
    assert [row["path"] for row in table] == ["", "blocks", "blocks.0", "blocks.1", "drop"]


def test_a_row_counts_weights_once_by_dtype_and_by_whether_they_are_trained(trace: ModelTrace) -> None:
    columns = ("params", "own_params", "trainable_params", "params_by_dtype", "weight_bytes")
    assert {row["path"]: tuple(row[name] for name in columns) for row in trace.table} == {
        "": (107, 0, 99, {"float32": 99, "float16": 8}, 64 * 4 + 8 * 2 + 5 * 4 + 8 * 4 + 30 * 4),
        "block": (77, 5, 69, {"float32": 69, "float16": 8}, 64 * 4 + 8 * 2 + 5 * 4 + 8 * 4),
        "block.linear": (72, 72, 64, {"float32": 64, "float16": 8}, 64 * 4 + 8 * 2),
        "block.norm": (0, 0, 0, {}, 8 * 4),
        "head": (64, 64, 64, {"float32": 64}, 64 * 4),
        "idle": (30, 30, 30, {"float32": 30}, 30 * 4),
    }
    assert trace.table[""]["weight_bytes"] == trace.size_bytes


def test_a_row_has_its_shares_of_the_totals(trace: ModelTrace) -> None:
    assert trace.macs == 361
    block, norm, root = (trace.table[path] for path in ("block", "block.norm", ""))
    assert (root["macs_share"], root["flops_share"], root["params_share"]) == (1, 1, 1)
    assert block["macs_share"] == 307 / 361
    assert (norm["macs_share"], norm["flops_share"], norm["params_share"]) == (0, 50 / 772, 0)
    empty = ModelTrace((LayerRecord("", "Net", 0),)).table[0]
    assert (empty["macs_share"], empty["flops_share"], empty["params_share"]) == (None, None, None)
    lazy = replace(trace, unmade_weights="weights of the first call")
    assert lazy.total_params
    assert {row["params_share"] for row in lazy.table} == {None}, "of a whole that is not known"


def test_a_row_has_the_bytes_that_operators_move_inside_and_themselves(trace: ModelTrace) -> None:
    columns = ("bytes_read", "bytes_written", "own_bytes_read", "own_bytes_written")
    assert [trace.table["block"][name] for name in columns] == [3070, 307, 70, 7]


def test_a_row_has_shapes_and_dtypes_of_the_first_call_and_the_record_those_of_all(trace: ModelTrace) -> None:
    row = trace.table["block.linear"]
    assert (row["calls"], row["input_shapes"], row["input_dtypes"]) == (2, ((2, 8),), ("float32",))
    assert (row["output_shapes"], row["output_dtypes"]) == (((2, 8),), ("float32",))
    second = trace.layer("block.linear").calls[1]
    assert (second.inputs[0].dtype, [out.shape for out in second.outputs]) == ("float16", [(2, 8), (1,)])
    idle = trace.table["idle"]
    assert (idle["calls"], idle["macs"], idle["input_shapes"], idle["output_dtypes"]) == (0, 0, (), ())


def test_own_work_of_all_layers_adds_up_to_the_total(trace: ModelTrace) -> None:
    for name in ("macs", "flops"):
        assert sum(row[f"own_{name}"] for row in trace.table) == getattr(trace, name)
        assert sum(row[f"own_{name}"] for row in trace.call_table) == getattr(trace, name)


def test_one_row_for_each_call_counts_what_the_call_led_to(trace: ModelTrace) -> None:
    rows = {(row["path"], row["call"]): (row["own_macs"], row["macs"]) for row in trace.call_table}
    assert rows == {
        ("", 0): (3, 350),
        ("block", 0): (7, 347),  # it calls the head, which lies elsewhere
        ("block.linear", 0): (100, 100),
        ("block.linear", 1): (200, 200),
        ("block.norm", 0): (0, 0),
        ("head", 0): (40, 40),
        ("", -1): (11, 11),
    }
    second = next(row for row in trace.call_table if row["call"] == 1)
    assert (second["input_dtypes"], second["output_shapes"]) == (("float16",), ((2, 8), (1,)))
    assert [row["path"] for row in trace.call_table.top(2)] == ["block.linear", "block.linear"]


def test_an_unknown_layer_is_an_error_that_names_the_nearest(trace: ModelTrace) -> None:
    with pytest.raises(KeyError, match=r"no layer 'block.linea'; the nearest are: block.linear"):
        trace.layer("block.linea")


def test_sums_by_type_are_those_of_own_work(trace: ModelTrace) -> None:
    table = trace.table.by_type()
    assert [(row["type"], row["layers"], row["calls"], row["macs"], row["params"]) for row in table] == [
        ("Net", 1, 1, 14, 0),
        ("Block", 1, 1, 7, 5),
        ("Linear", 3, 3, 340, 166),
        ("Norm", 1, 1, 0, 0),
    ]
    assert sum(row["flops"] for row in table) == trace.flops
    assert table["Linear"]["bytes_read"] == 3400
    assert [row["type"] for row in table.top(2, by="flops")] == ["Linear", "Norm"]
    with pytest.raises(KeyError, match="no layer 'Linaer'; the nearest are: Linear"):
        table["Linaer"]


def test_sums_by_type_at_a_depth_include_what_is_inside(trace: ModelTrace) -> None:
    assert [(row["type"], row["macs"], row["params"]) for row in trace.table.by_type(depth=1)] == [
        ("Block", 307, 77),
        ("Linear", 40, 94),
    ]
    assert trace.table.by_type(depth=9) == trace.table.by_type(depth=2), "beyond the deepest is the deepest"


def test_rows_without_a_value_are_not_ranked() -> None:
    rows = [
        {"path": "a", "type": "A", "depth": 0, "is_leaf": True, "calls": 1, "seconds": None, "own_seconds": None},
        {"path": "b", "type": "B", "depth": 0, "is_leaf": True, "calls": 1, "seconds": 2.0, "own_seconds": 1.0},
        {"path": "c", "type": "B", "depth": 0, "is_leaf": True, "calls": 1, "seconds": 3.0, "own_seconds": None},
    ]
    table = LayerTable(rows)
    assert [row["path"] for row in table.top(by="seconds")] == ["c", "b"]
    assert [(row["type"], row["seconds"]) for row in table.by_type()] == [("A", None), ("B", 1.0)]
    assert [row["type"] for row in table.by_type().top(by="seconds")] == ["B"]
    assert list(LayerTable([{**rows[0]}]).top(by="seconds")) == []


def test_a_column_of_texts_is_not_ranked(trace: ModelTrace) -> None:
    with pytest.raises(ValueError, match="column 'type' of the layer table holds no numbers to rank by"):
        trace.table.top(by="type")
    with pytest.raises(
        ValueError, match="no column 'mac' in the layer table; of numbers it has, nearest first: macs, "
    ):
        trace.table.top(by="mac")
    assert len(LayerTable([]).top()) == len(LayerTable([]).by_type()) == 0


@pytest.mark.parametrize(("table", "maker"), [("table", "list_layer_rows"), ("call_table", "list_call_rows")])
def test_the_rows_are_made_when_they_are_read(
    trace: ModelTrace, table: str, maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ModelTrace] = []

    def rows(trace: ModelTrace) -> list[dict[str, Any]]:
        made.append(trace)
        return [{"path": "", "macs": 7}]

    monkeypatch.setattr(records, maker, rows)
    unread = getattr(trace, table)
    assert made == []
    assert [row["macs"] for row in unread] == [7]
    assert len(getattr(trace, table)) == 1
    assert made == [trace], "once"


def test_weights_that_are_not_made_yet_are_unknown_and_not_zero() -> None:
    """Of a layer without any, and of what it lies in; a layer that has its weights has their numbers."""
    layers = (
        LayerRecord("", "Net", 0),
        LayerRecord("made", "Linear", 1, (weight(0, 64),)),
        LayerRecord("block", "Block", 1, (weight(1, 5),)),
        LayerRecord("block.lazy", "LazyLinear", 2),
    )
    failure = RuntimeError("no inputs")
    table = ModelTrace(layers, failure=failure, unmade_weights="those of LazyLinear").table
    numbers = {row["path"]: (row["params"], row["own_params"], row["trainable_params"]) for row in table}
    assert numbers == {
        "": (None, None, None),
        "made": (64, 64, 64),
        "block": (None, 5, None),
        "block.lazy": (None, None, None),
    }
    assert [row["weight_bytes"] for row in table] == [None, 256, None, None]
    assert table.by_type()[0]["params"] is None
    assert [row["params"] for row in LayerTable([table["made"], {**table["block"], "type": "Linear"}]).by_type(1)] == [
        None
    ]
    complete = ModelTrace(layers, failure=failure).table
    assert [row["params"] for row in complete] == [69, 64, 5, 0]


@pytest.mark.parametrize(
    "lazy",
    [
        LayerRecord("lazy", "Lazy", 1, (weight(0, 5), weight(1, 0))),
        LayerRecord("lazy", "Lazy", 1, (weight(0, 5),), (weight(1, 0),)),
    ],
    ids=["parameter", "buffer"],
)
def test_a_layer_with_only_some_of_its_weights_has_no_numbers(lazy: LayerRecord) -> None:
    """It has a parameter of 5 elements, and a weight without elements, whose size only the first call tells."""
    layers = (LayerRecord("", "Net", 0, (weight(2, 7),)), lazy)
    table = ModelTrace(layers, failure=RuntimeError("no inputs"), unmade_weights="those of Lazy").table
    columns = ("own_params", "params", "trainable_params", "weight_bytes")
    assert [[row[name] for name in columns] for row in table] == [[7, None, None, None], [None] * 4]


class CountedRow(dict[str, Any]):
    """A row that counts how often something is read from any of them."""

    reads = 0

    def __getitem__(self, key: str) -> Any:
        CountedRow.reads += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        CountedRow.reads += 1
        return super().get(key, default)


def count_reads(look: Callable[[LayerTable], object], count: int, nested: bool) -> int:
    """Return how many reads a look at a table of so many layers takes: inside one layer, or each inside another."""
    facts = {"type": "Linear", "calls": 1, "macs": 8, "own_macs": 8, "is_leaf": True}
    paths = (".".join("x" * place) if nested else f"{place}" for place in range(count))
    rows = [CountedRow(path=path, depth=place if nested else 1, **facts) for place, path in enumerate(paths)]
    CountedRow.reads = 0
    look(LayerTable(rows))
    return CountedRow.reads


LOOKS: dict[str, Callable[[LayerTable], object]] = {
    "by_type()": lambda table: table.by_type(),
    "by_type(1)": lambda table: table.by_type(1),
    "by_type(-1)": lambda table: table.by_type(-1),
    "by_depth()": lambda table: table.by_depth(),
    "by_depth(2, 3)": lambda table: table.by_depth(2, 3),
    "top()": lambda table: table.top(),
    "top(depth=1)": lambda table: table.top(depth=1),
    "to_text()": str,
    "to_text(depth=1)": lambda table: table.to_text(depth=1),
    "a path": lambda table: table.position(table[len(table) - 1]["path"]),
}


@pytest.mark.parametrize("nested", [False, True], ids=["wide", "deep"])
@pytest.mark.parametrize("look", LOOKS)
def test_twice_the_layers_are_read_twice_as_often(look: str, nested: bool) -> None:
    """One look at 10,000 layers took three minutes: each row had asked anew for the deepest of all."""
    once, twice = (count_reads(LOOKS[look], count, nested) for count in (100, 200))
    assert 0 < twice <= 2.1 * once


def test_the_layers_as_a_tree_of_dicts(trace: ModelTrace) -> None:
    tree = trace.table.to_tree()
    assert (tree["type"], list(tree["layers"])) == ("Net", ["block", "head", "idle"])
    assert tree["layers"]["block"]["layers"]["linear"]["type"] == "Linear"
    gap = LayerTable([{"path": "", "n": 1}, {"path": "a.b", "n": 2}]).to_tree()
    assert gap == {"path": "", "n": 1, "layers": {"a.b": {"path": "a.b", "n": 2, "layers": {}}}}
    with pytest.raises(ValueError, match="no row of the model itself, whose path is empty: it is no tree"):
        trace.table.by_type().to_tree()


def test_by_what_layers_do_themselves_those_that_hold_others_are_ranked_too() -> None:
    rows = [
        {"path": "", "is_leaf": False, "depth": 0, "own_macs": 3, "macs": 5},
        {"path": "a", "is_leaf": True, "depth": 1, "own_macs": 2, "macs": 2},
    ]
    assert [row["path"] for row in LayerTable(rows).top(2, by="own_macs")] == ["", "a"]
    assert [row["path"] for row in LayerTable(rows).top(2, by="macs")] == ["a"]
    assert [row["path"] for row in LayerTable(rows).top(2, by="own_macs", depth=-1)] == ["a"]


def test_a_layer_whose_inside_does_nothing_is_ranked_as_an_innermost_one() -> None:
    """Attention that uses the weights of a layer inside without calling it; a block that adds 1 to the 5 inside it."""
    rows = [("", 15, 0, False), ("attention", 9, 9, False), ("attention.out", 0, 0, True)]
    rows += [("block", 6, 1, False), ("block.linear", 5, 5, True)]
    table = LayerTable({"path": path, "macs": macs, "own_macs": own, "is_leaf": leaf} for path, macs, own, leaf in rows)
    assert [row["path"] for row in table.top(5, by="macs")] == ["attention", "block.linear", "attention.out"]
    assert [row["path"] for row in table.top(3, by="own_macs")] == ["attention", "block.linear", "block"]


@pytest.mark.parametrize("kind", ["parameters", "buffers"])
@pytest.mark.parametrize("first_is_saved", [True, False])
def test_a_weight_that_one_of_its_layers_saves_has_its_bytes_in_the_size(first_is_saved: bool, kind: str) -> None:
    """Of two layers with one weight of 8 float32, the first or the second saves it: the file has its 32 bytes."""
    first, second = (weight(1, 8, persistent=is_saved) for is_saved in (first_is_saved, not first_is_saved))
    layers = [LayerRecord("a", "A", 1), LayerRecord("b", "B", 1)]
    layers = [structs.replace(layer, **{kind: (own,)}) for layer, own in zip(layers, (first, second), strict=True)]
    found = ModelTrace(layers=(LayerRecord("", "Net", 0), *layers))
    assert found.size_bytes == found.table[""]["weight_bytes"] == 32
