"""Conditions and loops of ONNX that values decide: counts and memory have two ends. All numbers by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import GraphProto, TensorProto, helper
from onnx_graphs import BACKEND, F, make_graph, make_model, make_unknown

from profilerkit import ModelInputs, ModelTrace, profile
from profilerkit.backend_kit.graph_traces import FOLLOWED
from profilerkit.trace.bounds import Bounds

#: Two rows of three: 24 bytes.
X = np.ones((2, 3), F)
C = np.asarray(True)
W = np.ones((3, 3), F)
#: Multiply-accumulates of x @ w.
ONE = 2 * 3 * 3


def graph(*nodes: Any, output: str, **weights: Any) -> GraphProto:
    made: GraphProto = make_graph(list(nodes), [], [output], weights)
    return made


def either(condition: str, output: str, then: GraphProto, other: GraphProto) -> Any:
    return helper.make_node("If", [condition], [output], then_branch=then, else_branch=other)


def products(source: str, output: str, number: int) -> GraphProto:
    """Return a graph that multiplies with w so many times."""
    names = [source, *(f"{output}{index}" for index in range(number - 1)), f"{output}_end"]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in pairwise(names)]
    return graph(*nodes, output=names[-1])


def trace_nodes(*nodes: Any, weights: Any = None, **inputs: Any) -> ModelTrace:
    inputs = {"x": X, **inputs}
    trace = BACKEND.trace(make_model(list(nodes), inputs, {"w": W, **(weights or {})}), make_unknown(**inputs))
    assert trace.failure is None
    return trace


# Counts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1)])
def test_a_count_lies_between_the_cheaper_and_the_dearer_branch(first: int, second: int) -> None:
    trace = trace_nodes(either("c", "y", products("x", "a", first), products("x", "b", second)), c=C)
    assert trace.macs == 3 * ONE
    assert trace.bounds("macs") == Bounds(ONE, 3 * ONE)
    assert trace.bounds("flops") == Bounds(2 * ONE, 6 * ONE)


@pytest.mark.parametrize("shapes", [None, {"x": (3,), "c": ((), "bool")}])
def test_a_condition_that_is_a_scalar_input_needs_no_value(shapes: Any) -> None:
    """The inputs are random, as the model declares them or of the given shapes: one product, or three."""
    branches = either("c", "y", products("x", "a", 1), products("x", "b", 3))
    model = make_model([branches], {"x": X, "c": C}, {"w": W})
    record = profile(model, input_shape=shapes, batch_size=2, metrics=["macs"]).status("macs")
    assert (record.value, record.ends) == (3 * ONE, Bounds(ONE, 3 * ONE))


def test_branches_of_the_same_work_leave_the_count_complete() -> None:
    trace = trace_nodes(either("c", "y", products("x", "a", 2), products("x", "b", 2)), c=C)
    assert trace.bounds("macs") == Bounds(2 * ONE, 2 * ONE)
    assert trace.choices == ()


def test_a_condition_inside_a_branch_widens_the_ends_of_that_branch() -> None:
    """One product, or two and then one or four: counted are six, and the least is one."""
    inner = either("d", "inner", products("start_end", "p", 1), products("start_end", "q", 4))
    outer = graph(*products("x", "start", 2).node, inner, output="inner")
    trace = trace_nodes(either("c", "y", products("x", "a", 1), outer), c=C, d=C)
    assert (trace.macs, trace.bounds("macs")) == (6 * ONE, Bounds(ONE, 6 * ONE))
    swapped = trace_nodes(either("c", "y", outer, products("x", "a", 9)), c=C, d=C)
    assert (swapped.macs, swapped.bounds("macs")) == (9 * ONE, Bounds(3 * ONE, 9 * ONE))


@pytest.mark.parametrize("taken", [True, False])
def test_a_condition_inside_a_branch_that_is_known(taken: bool) -> None:
    """The branch that is taken has one product or four; the other one, of nine, counts for nothing."""
    inner = graph(either("c", "inner", products("x", "p", 1), products("x", "q", 4)), output="inner")
    other = products("x", "a", 9)
    node = either("known", "y", inner, other) if taken else either("known", "y", other, inner)
    trace = trace_nodes(node, weights={"known": np.asarray(taken)}, c=C)
    assert (trace.macs, trace.bounds("macs")) == (4 * ONE, Bounds(ONE, 4 * ONE))


def test_a_report_prints_both_ends() -> None:
    model = make_model([either("c", "y", products("x", "a", 1), products("x", "b", 3))], {"x": X, "c": C}, {"w": W})
    report = profile(model, make_unknown(x=X, c=C), metrics=["macs", "memory_footprint"])
    status = report.status("macs")
    assert (status.completeness.value, status.ends) == ("partial", Bounds(ONE, 3 * ONE))
    assert status.missing == (
        "the condition of the If 'y' depends on values: the most expensive of its branches is counted",
    )


def test_what_the_other_branch_leaves_out_opens_the_upper_end() -> None:
    fancy = graph(helper.make_node("Fancy", ["x"], ["f"], domain="com.example"), output="f")
    node = either("c", "y", fancy, products("x", "a", 2))
    model = make_model([node], {"x": X, "c": C}, {"w": W})
    trace = BACKEND.trace(model, make_unknown(x=X, c=C))
    assert trace.missing == ("com.example::Fancy (1 call)",)
    assert trace.bounds("macs") == Bounds(0, None)


# What one branch alone tells ------------------------------------------------------------------------------------------


def constant(value: Any, name: str) -> GraphProto:
    return graph(output=name, **{name: np.asarray(value)})


@pytest.mark.parametrize("first", [True, False])
def test_a_flag_that_a_branch_sets_is_not_known_after_it(first: bool) -> None:
    flag = either("c", "flag", constant(first, "yes"), constant(not first, "no"))
    trace = trace_nodes(flag, either("flag", "y", products("x", "a", 1), products("x", "b", 3)), c=C)
    assert (trace.macs, trace.bounds("macs")) == (3 * ONE, Bounds(ONE, 3 * ONE))


def test_a_flag_that_both_branches_set_alike_is_known() -> None:
    flag = either("c", "flag", constant(True, "yes"), constant(True, "also"))
    trace = trace_nodes(flag, either("flag", "y", products("x", "a", 1), products("x", "b", 3)), c=C)
    assert trace.bounds("macs") == Bounds(ONE, ONE)


def test_a_size_that_a_branch_sets_is_not_known_after_it() -> None:
    """(2, 3) or (4, 3): the product behind the condition may be of two rows or of four."""
    double = graph(helper.make_node("Concat", ["x", "x"], ["twice"], axis=0), output="twice")
    same = graph(helper.make_node("Identity", ["x"], ["once"]), output="once")
    trace = trace_nodes(either("c", "rows", double, same), helper.make_node("MatMul", ["rows", "w"], ["y"]), c=C)
    assert trace.missing == ("MatMul of unknown shape (1 call)",)
    assert trace.bounds("macs") == Bounds(0, None)


# Loops ----------------------------------------------------------------------------------------------------------------


def loop(go_on: Any, trips: int, begins: str = "") -> Any:
    body = make_graph(
        [helper.make_node("MatMul", ["state", "w"], ["next"]), go_on], ["turn", "go", "state"], ["on", "next"]
    )
    body.input[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.INT64, []))
    body.input[1].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.BOOL, []))
    return helper.make_node("Loop", ["trips", begins, "x"], ["y"], body=body), {"trips": np.asarray(trips)}


def test_a_loop_that_its_body_may_end_is_counted_up_to_its_limit() -> None:
    node, weights = loop(helper.make_node("And", ["go", "c"], ["on"]), 7, "yes")
    trace = trace_nodes(node, weights={**weights, "yes": np.asarray(True)}, c=C)
    assert (trace.macs, trace.bounds("macs")) == (7 * ONE, Bounds(0, 7 * ONE))
    assert trace.choices[0].reason == "the Loop 'y' may stop before its limit: it is counted up to that"


@pytest.mark.parametrize("begins", ["", "yes"])
def test_a_loop_that_hands_its_condition_on_runs_to_its_limit(begins: str) -> None:
    node, weights = loop(helper.make_node("Identity", ["go"], ["on"]), 7, begins)
    trace = trace_nodes(node, weights={**weights, "yes": np.asarray(True)})
    assert trace.bounds("macs") == Bounds(7 * ONE, 7 * ONE)


@pytest.mark.parametrize("turns", [0, 5])
def test_a_limit_that_is_an_input_counts_by_its_value(turns: int) -> None:
    node, _ = loop(helper.make_node("Identity", ["go"], ["on"]), turns)
    given = {"x": X, "trips": np.asarray(turns)}
    trace = BACKEND.trace(make_model([node], given, {"w": W}), ModelInputs(**given))
    assert (trace.bounds("macs"), trace.notes) == (Bounds(turns * ONE, turns * ONE), (FOLLOWED,))


def test_a_loop_whose_first_condition_is_not_known_may_not_run() -> None:
    """Its body never ends it, so that it has seven turns or none; seven were counted and said to be complete."""
    node, weights = loop(helper.make_node("Constant", [], ["on"], value=helper.make_tensor("", 9, [], [True])), 7, "c")
    trace = trace_nodes(node, weights=weights, c=C)
    assert (trace.macs, trace.bounds("macs")) == (7 * ONE, Bounds(0, 7 * ONE))


def test_a_body_that_returns_what_nothing_makes_is_named() -> None:
    node, weights = loop(helper.make_node("Identity", ["go"], ["elsewhere"]), 7)
    model = make_model([node], {"x": X}, {"w": W, **weights})
    failure = BACKEND.trace(model, make_unknown(x=X)).failure
    assert "the graph returns the value 'on', which nothing before it makes; export the model again" in str(failure)


def test_a_condition_in_a_loop_counts_in_each_turn() -> None:
    inner = either("c", "next", products("state", "a", 1), products("state", "b", 3))
    body = make_graph([inner, helper.make_node("Identity", ["go"], ["on"])], ["turn", "go", "state"], ["on", "next"])
    body.input[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.INT64, []))
    body.input[1].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.BOOL, []))
    node = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)
    trace = trace_nodes(node, weights={"trips": np.asarray(5)}, c=C)
    assert (trace.macs, trace.bounds("macs")) == (15 * ONE, Bounds(5 * ONE, 15 * ONE))


# Memory ---------------------------------------------------------------------------------------------------------------


def wide(times: int) -> GraphProto:
    """Return a graph that makes ``times`` copies of x side by side (24 bytes each) and sums them up: (2, 1)."""
    return graph(
        helper.make_node("Concat", ["x"] * times, [f"wide{times}"], axis=1),
        helper.make_node("ReduceSum", [f"wide{times}", "axis"], [f"sum{times}"]),
        output=f"sum{times}",
    )


#: A bool of one byte beside x.
GIVEN = 24 + 1


@pytest.mark.parametrize(("first", "second"), [(2, 10), (10, 2)])
def test_the_peak_is_that_of_the_counted_branch_and_another_is_said_to_be_possible(first: int, second: int) -> None:
    """Ten copies are summed up for 60 operations, two for 12, so that ten are counted; each sum takes 8 bytes."""
    trace = trace_nodes(either("c", "y", wide(first), wide(second)), weights={"axis": np.asarray([1])}, c=C)
    assert trace.memory.peak_bytes(include_weights=False) == GIVEN + 240 + 8
    assert trace.peak_spread is not None
    assert (trace.peak_spread.below, trace.peak_spread.above) == (None, None)


def test_branches_of_the_same_work_may_take_different_memory() -> None:
    """Moving data is no work, and two branches without any may make six times as much or nothing."""
    much = graph(
        helper.make_node("Concat", ["x"] * 6, ["six"], axis=1),
        helper.make_node("Slice", ["six", "zero", "three", "axis"], ["cut"]),
        output="cut",
    )
    little = graph(helper.make_node("Identity", ["x"], ["same"]), output="same")
    weights = {"axis": np.asarray([1]), "zero": np.asarray([0]), "three": np.asarray([3])}
    for first, second in ((much, little), (little, much)):
        model = make_model([either("c", "y", first, second)], {"x": X, "c": C}, weights)
        trace = BACKEND.trace(model, make_unknown(x=X, c=C))
        assert trace.bounds("flops") == Bounds(0, 0)
        report = profile(model, make_unknown(x=X, c=C), metrics=["flops", "memory_footprint"])
        assert report.status("flops").completeness.value == "complete"
        footprint = report.status("memory_footprint")
        assert footprint.completeness.value == "partial"
        assert footprint.ends == Bounds()


@pytest.mark.parametrize("given", [True, False, None])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_any_branch_may_read_is_alive_until_the_if(swapped: bool, given: bool | None) -> None:
    """At the second sum: x, c, ten copies and their sum, eight copies and their sum; whichever branch is taken."""
    nodes = [
        node
        for name, number in (("ten", 10), ("eight", 8))
        for node in (
            helper.make_node("Concat", ["x"] * number, [name], axis=1),
            helper.make_node("ReduceSum", [name], [f"{name}_sum"], keepdims=0),
        )
    ]
    product = helper.make_node("MatMul", ["x", "w"], ["made"])
    sides = [
        graph(product, helper.make_node("ReduceSum", ["made"], ["first"], keepdims=0), output="first"),
        graph(helper.make_node("ReduceMax", ["ten"], ["second"], keepdims=0), output="second"),
    ]
    nodes.append(either("c", "z", *(sides[::-1] if swapped else sides)))
    nodes += [helper.make_node("Add", ["z", "ten_sum"], ["u"]), helper.make_node("Add", ["u", "eight_sum"], ["y"])]
    inputs = {"x": X, "c": C if given is None else np.asarray(given)}
    trace = BACKEND.trace(
        make_model(nodes, inputs, {"w": W}), make_unknown(**inputs) if given is None else ModelInputs(**inputs)
    )
    assert trace.failure is None
    assert trace.memory.peak_bytes(include_weights=False) == GIVEN + 240 + 4 + 192 + 4


def test_an_operator_with_two_outputs_of_unknown_size_is_one_call() -> None:
    unique = helper.make_node("Unique", ["x"], ["y", "places"])
    assert trace_nodes(unique).memory.missing == ("Unique of unknown size (1 call)",)
