"""Layers responsible for a difference: what has only another name is none, and buffers are told from parameters;
and operators that account for one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from profilerkit import Completeness, profile
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.records import LayerTable
from profilerkit.trace.table import Table
from profilerkit_audits import Row, RowStatus, Value
from profilerkit_audits.changes import Change, judge_move
from profilerkit_audits.responsible_layers import Move, find_layers, leave_out_renamed
from profilerkit_audits.responsible_operators import OperatorSum, compare_operators, sum_operators
from profilerkit_audits.series import CaseName
from profilerkit_numpy.layers import Sequential, dense


def test_layers_with_another_name_are_left_out() -> None:
    """Of three layers of 8 that came and two that went one is new; what differs in size or type stays."""
    counts = Counter(
        {
            Move("Linear", 8, "added"): 3,
            Move("Linear", -8, "removed"): 2,
            Move("Linear", 5, "changed"): 1,
            Move("Conv2d", 4, "added"): 1,
            Move("Linear", -4, "removed"): 1,
        }
    )
    assert leave_out_renamed(counts) == {
        ("Linear", 8, "added"): 1,
        ("Linear", 5, "changed"): 1,
        ("Conv2d", 4, "added"): 1,
        ("Linear", -4, "removed"): 1,
    }


def test_a_size_that_moved_without_its_parameters() -> None:
    """A layer of 4 x 8 on both sides: nothing but what layers with others inside hold can have moved its bytes."""
    metrics = ["model_size", "total_params"]
    one, two = (profile(Sequential(dense(4, width)), input_shape=(4,), metrics=metrics) for width in (8, 9))
    assert find_layers(one, one, "model_size") == ("as many parameters as before: buffers or dtypes differ",)
    assert find_layers(one, two, "model_size")[0].endswith("(Dense): +5 parameters"), "4 weights and a bias"


def test_a_size_that_moved_by_dtypes_names_the_layers() -> None:
    """Of 40 and 18 parameters the first layer has 2 bytes each instead of 4: 80 bytes less."""
    metrics = ["model_size", "total_params"]
    whole = profile(Sequential(dense(4, 8), dense(8, 2)), input_shape=(4,), metrics=metrics)
    assert whole.layers is not None
    assert [row["weight_bytes"] for row in whole.layers if row["is_leaf"]] == [160, 72]
    halved = LayerTable({**row, "weight_bytes": 80} if row["weight_bytes"] == 160 else row for row in whole.layers)
    assert find_layers(whole, replace(whole, layers=halved), "model_size") == ("0 (Dense): -80 B",)


def test_a_layer_whose_count_is_unknown_did_not_move() -> None:
    """Layers of 4 x 8 and 8 x 2, for one sample 32 and 16 MACs; unknown is how many the first one has in a report."""
    whole = profile(Sequential(dense(4, 8), dense(8, 2)), input_shape=(4,), metrics=["macs"])
    assert whole.layers is not None
    rows = [{**row, "own_macs": None} if row["own_macs"] == 32 else row for row in whole.layers]
    partly = replace(whole, layers=LayerTable(rows))
    only_known = [row for row in whole.layers if row["own_macs"] != 32]
    smaller = replace(whole, layers=LayerTable(only_known))
    for before, after in ((partly, whole), (whole, partly), (partly, smaller), (smaller, partly)):
        assert find_layers(before, after, "macs") == ()
    (added,), (removed,) = find_layers(smaller, whole, "macs"), find_layers(whole, smaller, "macs")
    assert ("+32, added" in added, "-32, removed" in removed) == (True, True)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((56, 56), (48, 48), "better"),
        ((56, 56), (48, None), "moved"),  # at least 48: it may be 56 as well
        ((56, 56), (60, None), "worse"),  # at least 60
        ((56, None), (48, 48), "better"),
        ((48, None), (56, 56), "moved"),
        ((56, 56), (None, 48), "better"),
        ((0, 50), (48, 48), "moved"),
        ((56, 60), (48, 52), "better"),
    ],
)
def test_a_bound_is_better_or_worse_if_every_value_between_its_ends_is(
    before: tuple[int | None, int | None], after: tuple[int | None, int | None], verdict: str
) -> None:
    """Fewer MACs are better; what is only not counted any more is no improvement."""
    report = profile(Sequential(dense(4, 8)), input_shape=(4,), metrics=["macs"])
    sides = []
    for low, high in (before, after):
        number = low or high or 0
        gap: dict[str, Any] = {"completeness": Completeness.PARTIAL, "sign": Bounds(low, high).sign(number)}
        sides.append(Value(number, "MACs", low=low, high=high, **({} if low == high else gap)))
    old, new = sides
    assert judge_move(old, new, report, "macs") == verdict
    rows = [Row("net.py:build", "", RowStatus.COMPLETE, values={"macs": side}) for side in sides]
    content = Change(CaseName.of(rows[0]), "macs", old, new, verdict, (), (), *rows).to_dict()
    has_sign = [content["sign_before"] != "", content["sign_after"] != ""]
    assert has_sign == [low != high for low, high in (before, after)]


def test_the_peak_of_memory_has_its_layer_and_where_it_moved() -> None:
    """Alive after layers of 4 x 8 and 8 x 2: 12 and 14 numbers of four bytes; then 100 bytes after the first."""
    before = profile(Sequential(dense(4, 8), dense(8, 2)), input_shape=(4,), metrics=["memory_footprint"])
    assert before.memory is not None
    assert before.memory.live_bytes == (48, 56)
    after = replace(before, memory=replace(before.memory, live_bytes=(100, 56)))
    assert find_layers(before, before, "memory_footprint") == ("peak in 1 (Dense)",)
    assert find_layers(before, after, "memory_footprint") == ("peak in 1 (Dense), then in 0 (Dense)",)
    assert find_layers(replace(before, memory=None), replace(before, operators=None), "memory_footprint") == ()


# Operators ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"bmm": (1, 16)}, {"bmm": (1, 16)}, ""),
        ({"bmm": (1, 16)}, {"bmm": (1, 24)}, ""),  # the layer's difference says the same
        ({"bmm": (1, 16)}, {"bmm": (2, 32)}, "bmm +16 (1 -> 2 calls)"),
        (
            {"bmm": (1, 16), "cos": (1, 4)},
            {"mul": (1, 8), "cos": (1, 4)},
            "bmm -16 (no longer called), mul +8 (not called before)",
        ),
        (
            dict.fromkeys("abcde", (1, 5)),
            {name: (1, count) for name, count in zip("abcde", (1, 2, 3, 4, 6), strict=True)},
            "a -4, b -3, c -2, d -1, and 1 more operator",
        ),
    ],
)
def test_operators_that_moved(
    before: dict[str, tuple[int, float]], after: dict[str, tuple[int, float]], expected: str
) -> None:
    mine, theirs = ({name: OperatorSum(*value) for name, value in side.items()} for side in (before, after))
    assert compare_operators(mine, theirs) == expected


def test_the_operators_of_a_report() -> None:
    """Layers of 4 x 8 and 8 x 2 for one sample: 32 and 16 MACs, each in one call."""
    report = profile(Sequential(dense(4, 8), dense(8, 2)), input_shape=(4,), metrics=["macs"])
    sums = sum_operators(report, "macs")
    assert [[value for value in layer.values() if value.total] for layer in sums.values()] == [[(1, 32)], [(1, 16)]]
    assert set(sums) <= {row["path"] for row in report.layers or ()}


def test_the_operators_of_a_layer_are_found_by_its_path_in_each_report() -> None:
    """A layer of 4 x 8, then of 4 x 9 at another path, where two operators do 20 and 16 MACs instead of one."""
    before, after = (profile(Sequential(dense(4, width)), input_shape=(4,), metrics=["macs"]) for width in (8, 9))
    (path,) = sum_operators(before, "macs")
    assert after.layers is not None
    layers = [{**row, "path": "moved" if row["path"] == path else row["path"]} for row in after.layers]
    operators = [{"layer": "moved", "operator": name, "macs": macs} for name, macs in (("one", 20), ("two", 16))]
    after = replace(after, layers=LayerTable(layers), operators=Table([*operators, {**operators[0], "layer": path}]))
    (text,) = find_layers(before, after, "macs")
    (name,) = sum_operators(before, "macs")[path]
    assert text.endswith(
        f": +4 by {name} -32 (no longer called), one +20 (not called before), two +16 (not called before)"
    )


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_report_without_operators_does_not_say_that_none_is_called(lacking: int) -> None:
    """A layer of 4 x 8, then 4 x 9: 4 MACs more. Which operator does them is not known if one report has no table."""
    reports = [profile(Sequential(dense(4, width)), input_shape=(4,), metrics=["macs"]) for width in (8, 9)]
    reports[lacking] = replace(reports[lacking], operators=None)
    before, after = reports
    (text,) = find_layers(before, after, "macs")
    assert text.endswith("(Dense): +4")
