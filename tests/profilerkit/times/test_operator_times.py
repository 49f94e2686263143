"""The table of operators: grouping, shares, and the join with the static trace, on numbers given by hand."""

import pytest
from replacing import replace

from profilerkit.backend_kit.operator_join import operator_table
from profilerkit.times.operator_times import (
    CalledOperator,
    KernelTime,
    OperatorTime,
    OperatorTimes,
    OperatorTimeTable,
    OrderedCall,
)
from profilerkit.times.operator_totals import operator_totals
from profilerkit.trace.ignoring import without_layers
from profilerkit.trace.records import LayerRecord, ModelTrace, OpRecord
from profilerkit.trace.table import Table


def op(operator: str, layer: str, macs: int, flops: int) -> OpRecord:
    return OpRecord(operator, layer, 0, macs, flops, 0, 0, ())


def make_call(order: int, name: str, *inside: CalledOperator, is_free: bool = False) -> OrderedCall:
    return OrderedCall(order, CalledOperator(name, inside, is_free))


def make_timed(operator: str, layer: str, *calls: OrderedCall, seconds: tuple[float, ...] = (1.0,)) -> OperatorTime:
    return OperatorTime(operator, layer, "forward", len(calls), seconds, called=calls)


def trace(*operators: OpRecord, uncounted: tuple[str, ...] = ()) -> ModelTrace:
    layers = {"": None, **dict.fromkeys(one_op.layer for one_op in operators)}
    records = tuple(LayerRecord(path, "Layer", path.count(".") + bool(path)) for path in layers)
    incomplete = tuple(replace(op, missing=op.operator if op.operator in uncounted else "") for op in operators)
    return ModelTrace(records, incomplete, uncounted=dict.fromkeys(uncounted, 1))


def table(
    rows: list[OperatorTime], traced: ModelTrace | str, *, layers: tuple[str, ...] = (), whole: tuple[float, ...] = ()
) -> OperatorTimeTable:
    whole = whole or tuple(map(sum, zip(*(row.seconds for row in rows), strict=True)))
    ran = frozenset(layers or {row.layer for row in rows} | {""})
    return operator_table(OperatorTimes(tuple(rows), {"forward": whole}, {"forward": ran}), {"forward": traced})


def find_row(found: OperatorTimeTable, operator: str) -> dict[str, object]:
    return next(dict(row) for row in found if row["operator"] == operator)


def test_rows_have_medians_shares_and_achieved_flops() -> None:
    linear = make_timed("linear", "fc", make_call(0, "linear"), seconds=(3.0, 1.0, 2.0))
    relu = make_timed("relu", "act", make_call(0, "relu"), seconds=(0.5, 0.5, 9.0))
    found = table([relu, linear], trace(op("linear", "fc", 100, 210), op("relu", "act", 0, 10)))
    assert [row["operator"] for row in found] == ["linear", "relu"]  # the slowest first
    assert [row["seconds"] for row in found] == [2.0, 0.5]
    assert [row["order"] for row in found] == [1, 0]  # relu began first
    assert [row["share"] for row in found] == [0.8, 0.2]
    assert [(row["macs"], row["flops"], row["flops_per_second"]) for row in found] == [(100, 210, 105.0), (0, 10, 20.0)]
    assert found.samples(0) == (3.0, 1.0, 2.0)
    assert found.measurement(0).median == 2.0


@pytest.mark.parametrize("view", ["operator", "layer", "both"])
def test_every_view_adds_up(view: str) -> None:
    rows = [
        make_timed("linear", "a", make_call(0, "linear"), seconds=(1.0, 2.0)),
        make_timed("linear", "b", make_call(0, "linear"), make_call(1, "linear"), seconds=(3.0, 5.0)),
        make_timed("relu", "b", make_call(2, "relu"), seconds=(0.5, 0.5)),
    ]
    traced = trace(op("linear", "a", 10, 20), op("linear", "b", 30, 60), op("linear", "b", 1, 2), op("relu", "b", 0, 7))
    found = table(rows, traced).by(view)
    assert sum(row["share"] for row in found) == pytest.approx(1)
    assert sum(row["macs"] for row in found) == 41
    assert sum(row["flops"] for row in found) == 89
    assert sum(row["calls"] for row in found) == 4
    assert list(found[0])[-1] == "missing"


def test_samples_are_added_up_before_the_median_is_taken() -> None:
    rows = [
        make_timed("a", "", make_call(0, "a"), seconds=(1.0, 9.0, 2.0)),
        make_timed("b", "", make_call(1, "b"), seconds=(5.0, 1.0, 1.0)),
    ]
    (row,) = table(rows, trace()).by("layer")
    assert row["seconds"] == 6.0  # of 6, 10 and 3; the medians are 2 and 1


def test_what_is_outside_operators_is_the_rest_of_the_pass() -> None:
    rows = [
        make_timed("a", "", make_call(0, "a"), seconds=(1.0, 2.0)),
        make_timed("b", "", make_call(1, "b"), seconds=(1.0, 1.0)),
    ]
    found = table(rows, trace(), whole=(5.0, 4.0))
    assert found.whole_seconds == {"forward": 4.5}
    assert found.outside_seconds == {"forward": 2.0}  # of 3 and 1


def test_kernels_are_a_view_of_their_own() -> None:
    parts = (KernelTime("addmm", 2, (3.0,)), KernelTime("t", 2, (1.0,)))
    rows = [
        replace(make_timed("linear", "a", make_call(0, "linear"), seconds=(4.0,)), kernels=parts),
        replace(
            make_timed("addmm", "b", make_call(0, "addmm"), seconds=(1.0,)), kernels=(KernelTime("addmm", 1, (1.0,)),)
        ),
    ]
    found = table(rows, trace()).by("kernel")
    assert [(row["kernel"], row["calls"], row["seconds"], row["share"]) for row in found] == [
        ("addmm", 3, 4.0, 0.8),
        ("t", 2, 1.0, 0.2),
    ]


def test_work_is_that_of_what_an_operator_called_where_the_trace_has_that() -> None:
    einsum = make_call(0, "einsum", CalledOperator("permute", is_free=True), CalledOperator("bmm"))
    found = table([make_timed("einsum", "", einsum)], trace(op("bmm", "", 8, 16)))
    assert (found[0]["macs"], found[0]["flops"], found[0]["missing"]) == (8, 16, "")


def test_calls_of_one_name_get_their_work_in_order() -> None:
    through_einsum = make_call(1, "einsum", CalledOperator("bmm"))
    rows = [make_timed("bmm", "", make_call(0, "bmm"), make_call(2, "bmm")), make_timed("einsum", "", through_einsum)]
    found = table(rows, trace(op("bmm", "", 1, 2), op("bmm", "", 10, 20), op("bmm", "", 100, 200)))
    assert find_row(found, "bmm")["macs"] == 101
    assert find_row(found, "einsum")["macs"] == 10


def test_without_an_order_different_work_is_not_guessed() -> None:
    rows = [
        make_timed("bmm", "", make_call(0, "bmm")),
        make_timed("einsum", "", make_call(0, "einsum", CalledOperator("bmm"))),
    ]
    found = table(rows, trace(op("bmm", "", 1, 2), op("bmm", "", 10, 20)))
    assert {row["missing"] for row in found} == {"which of the 2 calls of bmm in this layer is which is not known"}
    alike = table(rows, trace(op("bmm", "", 5, 10), op("bmm", "", 5, 10)))
    assert [row["macs"] for row in alike] == [5, 5]


def test_another_number_of_calls_than_traced_is_said() -> None:
    found = table([make_timed("mm", "a", make_call(0, "mm"))], trace(op("mm", "a", 1, 2), op("mm", "a", 1, 2)))
    assert (found[0]["macs"], found[0]["flops"], found[0]["flops_per_second"]) == (None, None, None)
    assert found[0]["missing"] == "the static trace has 2 calls of mm in this layer, the profiler 1 call"
    assert found.by("layer")[0]["macs"] == 2  # the layer as a whole is known
    assert found.by("operator")[0]["macs"] is None


def test_one_kernel_for_a_whole_layer_has_the_work_of_its_operators() -> None:
    """A fused layer calls neither the layers inside it nor the operators that the trace has."""
    fused = make_call(0, "fused_layer", CalledOperator("gemm"), CalledOperator("view", is_free=True))
    traced = trace(op("linear", "block.fc", 10, 21), op("relu", "block", 0, 4), op("linear", "head", 1, 2))
    rows = [make_timed("fused_layer", "block", fused), make_timed("linear", "head", make_call(0, "linear"))]
    found = table(rows, traced, layers=("", "block", "head"))
    assert (find_row(found, "fused_layer")["macs"], find_row(found, "fused_layer")["flops"]) == (10, 25)
    assert {row["layer"]: row["flops"] for row in found.by("layer")} == {"block": 25, "head": 2}


def test_two_operators_that_the_trace_lacks_share_no_work() -> None:
    rows = [make_timed("one", "a", make_call(0, "one")), make_timed("other", "a", make_call(1, "other"))]
    found = table(rows, trace(op("linear", "a", 10, 20)))
    assert {row["missing"] for row in found} == {"the static trace has no such operator in this layer"}
    assert found.by("layer")[0]["flops"] == 20


def test_operators_of_a_layer_that_is_left_out_say_so() -> None:
    traced = without_layers(trace(op("linear", "a", 10, 20), op("linear", "b", 1, 2)), ["a"])
    rows = [make_timed("linear", "a", make_call(0, "linear")), make_timed("linear", "b", make_call(1, "linear"))]
    assert [(row["layer"], row["macs"], row["missing"]) for row in table(rows, traced)] == [
        ("a", None, "layer 'a' is left out by ignore="),
        ("b", 1, ""),
    ]


def test_a_kernel_that_does_the_work_of_a_layer_left_out_has_no_counts() -> None:
    """Its time has that work, and the trace has not: 4 FLOPs of ``relu`` alone would make it look slow."""
    traced = trace(op("linear", "block.fc", 10, 21), op("relu", "block", 0, 4), op("linear", "head", 1, 2))
    rows = [
        make_timed("fused_layer", "block", make_call(0, "fused_layer")),
        make_timed("linear", "head", make_call(0, "linear")),
    ]
    found = table(rows, without_layers(traced, ["block.fc"]), layers=("", "block", "head"))
    assert [(row["operator"], row["flops"], row["missing"]) for row in found] == [
        ("fused_layer", None, "layer 'block.fc' is left out by ignore="),
        ("linear", 2, ""),
    ]


def test_operators_of_a_layer_left_out_are_not_those_of_the_layer_around_it() -> None:
    traced = without_layers(trace(op("relu", "act", 0, 50), op("relu", "", 0, 4)), ["act"])
    rows = [make_timed("relu", "act", make_call(0, "relu")), make_timed("relu", "", make_call(1, "relu"))]
    assert {row["layer"]: row["flops"] for row in table(rows, traced)} == {"act": None, "": 4}


@pytest.mark.parametrize("prefix", ["module", "layer"])
def test_a_kernel_has_the_work_of_formulas_for_layers_that_it_runs(prefix: str) -> None:
    """Its rest of the trace is the formula of ``block.attention`` with 50 FLOPs, and ``relu`` with 4."""
    traced = trace(
        op("mul", "block.attention", 0, 0),
        op("mul", "block.attention.inner", 0, 0),
        op(f"{prefix}::Attention", "block.attention", 20, 50),
        op("relu", "block", 0, 4),
    )
    found = table([make_timed("fused_layer", "block", make_call(0, "fused_layer"))], traced)
    assert (found[0]["macs"], found[0]["flops"], found[0]["missing"]) == (20, 54, "")
    assert (found.by("layer")[0]["macs"], found.by("layer")[0]["flops"]) == (20, 54)


def test_what_is_not_counted_of_an_operator_is_said_in_the_words_of_the_trace() -> None:
    traced = trace(op("Conv", "a", 0, 0), op("Exp", "a", 0, 3))
    gap, whole = traced.operators
    traced = replace(traced, operators=(replace(gap, missing="Conv of unknown shape"), whole))
    found = table([make_timed("Conv", "a", make_call(0, "Conv"))], traced)
    assert find_row(found, "Conv")["missing"] == "not counted: Conv of unknown shape"
    assert found.by("layer")[0]["missing"] == "not counted: Conv of unknown shape"


def test_an_operator_without_a_formula_has_no_zero() -> None:
    found = table([make_timed("fft", "", make_call(0, "fft"))], trace(op("fft", "", 0, 0), uncounted=("fft",)))
    for view in (found, found.by("layer")):
        assert (view[0]["flops"], view[0]["missing"]) == (None, "not counted: fft")


@pytest.mark.parametrize("prefix", ["module", "layer"])
def test_a_layer_with_a_formula_of_its_own_is_counted_as_a_whole(prefix: str) -> None:
    traced = trace(op("mul", "norm", 0, 0), op("mul", "norm.inner", 0, 0), op(f"{prefix}::Norm", "norm", 0, 50))
    rows = [make_timed("mul", "norm", make_call(0, "mul")), make_timed("mul", "norm.inner", make_call(0, "mul"))]
    found = table(rows, traced)
    said = "counted with the whole of layer 'norm', by the formula of Norm"
    assert [(row["flops"], row["missing"]) for row in found] == [(None, said), (None, said)]
    assert {row["layer"]: row["flops"] for row in found.by("layer")} == {"norm": 50, "norm.inner": None}


def test_free_operators_work_nothing_whatever_the_trace_has() -> None:
    found = table([make_timed("view", "a", make_call(0, "view", is_free=True))], trace(op("mm", "b", 1, 2)))
    assert (found[0]["macs"], found[0]["flops"], found[0]["missing"]) == (0, 0, "")


def test_names_of_the_trace_are_those_that_the_backend_says() -> None:
    times = OperatorTimes(
        (make_timed("aten::mm", "", make_call(0, "aten::mm")),),
        {"forward": (1.0,)},
        {"forward": frozenset({""})},
        name_of=lambda name: f"aten::{name.split('.')[1]}",
    )
    assert operator_table(times, {"forward": trace(op("aten.mm.default", "", 4, 8))})[0]["macs"] == 4


def test_why_there_is_no_trace_is_said_in_every_row() -> None:
    rows = [make_timed("mm", "", make_call(0, "mm"))]
    assert table(rows, "not counted: because")[0]["missing"] == "not counted: because"
    failed = replace(trace(), failure=ValueError("no"))
    assert table(rows, failed)[0]["missing"] == "the static trace failed: no"
    backward = replace(rows[0], phase="backward")
    times = OperatorTimes((backward,), {"backward": (1.0,)})
    (row,) = operator_table(times, {"backward": trace(op("mm", "", 1, 2))})
    assert row["missing"] == "not counted: the static trace does not say which operators are backward"


def test_top_ranks_by_a_column_of_numbers() -> None:
    rows = [
        make_timed("slow", "", make_call(0, "slow"), seconds=(2.0,)),
        make_timed("mm", "", make_call(1, "mm"), seconds=(1.0,)),
        make_timed("odd", "", make_call(2, "odd"), seconds=(0.5,)),
    ]
    found = table(rows, trace(op("mm", "", 9, 18), op("slow", "", 0, 1)))
    assert [row["operator"] for row in found.top(2)] == ["slow", "mm"]
    assert [row["operator"] for row in found.top(3, by="macs")] == ["mm", "slow", "odd"]
    with pytest.raises(ValueError, match=r"no column of numbers 'mac'; this view has: macs, calls"):
        found.top(1, by="mac")


def test_mistakes_are_said() -> None:
    found = table([make_timed("mm", "", make_call(0, "mm"))], trace(op("mm", "", 9, 18)))
    with pytest.raises(ValueError, match=r"no view by 'layers'; nearest first there are: layer, "):
        found.by("layers")
    uneven = [
        make_timed("a", "", make_call(0, "a"), seconds=(1.0,)),
        make_timed("b", "", make_call(0, "b"), seconds=(1.0, 2.0)),
    ]
    with pytest.raises(ValueError, match="the operators were timed forward in 1, 2 passes; all must have the same"):
        operator_table(OperatorTimes(tuple(uneven), {"forward": (1.0,)}), {})
    assert repr(found).startswith("OperatorTimeTable, 1 row\n")


def test_the_rows_become_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = table([make_timed("mm", "", make_call(0, "mm"))], trace(op("mm", "", 9, 18))).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["macs"].tolist() == [9]


def told_by_name(operator: str, layer: str, calls: int = 1, none: bool = True) -> OperatorTime:
    return OperatorTime(operator, layer, "forward", calls, (1.0,), called=None if none else ())


@pytest.mark.parametrize("none", [True, False])
def test_operators_without_their_calls_are_joined_by_layer_and_name(none: bool) -> None:
    rows = [told_by_name("linear", "a", 2, none), told_by_name("linear", "b", none=none)]
    found = table(rows, trace(op("linear", "a", 1, 2), op("linear", "b", 100, 200), op("linear", "a", 10, 20)))
    assert [(row["layer"], row["macs"], row["flops"], row["missing"]) for row in found] == [
        ("a", 11, 22, ""),
        ("b", 100, 200, ""),
    ]


def test_operators_without_their_calls_have_no_zero_where_they_cannot_be_joined() -> None:
    rows = [told_by_name("fused", "a"), told_by_name("linear", "b", 2), told_by_name("odd", "c")]
    traced = trace(op("linear", "a", 10, 20), op("linear", "b", 1, 2), op("odd", "c", 0, 0), uncounted=("odd",))
    found = table(rows, traced)
    assert {str(row["operator"]): (row["macs"], row["flops"], row["missing"]) for row in found} == {
        "fused": (None, None, "the static trace has no such operator in this layer"),
        "linear": (None, None, "the static trace has 1 call of linear in this layer, the profiler 2 calls"),
        "odd": (None, None, "not counted: odd"),
    }


def test_an_operator_time_tells_nothing_of_its_calls_unless_it_says_so() -> None:
    assert OperatorTime("linear", "a", "forward", 1, (1.0,)).called is None


def test_an_operator_that_the_last_pass_did_not_call_has_no_average() -> None:
    """The calls are those of the last pass; the seconds are the median of (3, 0, 1)."""
    rows = [make_timed("linear", "fc", make_call(0, "linear"), seconds=(3.0,) * 3), make_timed("erf", "fc")]
    rows[1] = replace(rows[1], seconds=(3.0, 0.0, 1.0))
    totals = {row["operator"]: row for row in operator_totals(table(rows, trace(op("linear", "fc", 100, 210))))}
    assert [totals["erf"][name] for name in ("calls", "seconds", "average_seconds")] == [0, 1.0, None]
    assert totals["linear"]["average_seconds"] == 3.0


@pytest.mark.parametrize("seconds", [(None, 3.0), (None, None), (0.0, 0.0)], ids=str)
def test_a_share_is_unknown_in_its_column_where_the_whole_is(seconds: tuple[float | None, float | None]) -> None:
    totals = operator_totals(
        Table({"operator": name, "seconds": time, "calls": 1} for name, time in zip("ab", seconds, strict=True))
    )
    assert [row["share"] for row in totals] == [None, None]
    assert "share" not in operator_totals(Table([{"operator": "a", "calls": 1, "macs": 2}])).columns


def test_the_calls_of_an_operator_are_unknown_where_those_of_a_row_are() -> None:
    rows = Table({"operator": "a", "seconds": 3.0, "calls": calls} for calls in (2, None))
    assert [(row["calls"], row["seconds"], row["average_seconds"]) for row in operator_totals(rows)] == [
        (None, 6.0, None)
    ]
