"""Loops whose condition counts the turns, as converters write ``while i < n``: they run as often as it says."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import helper
from onnx_graphs import BACKEND, F, make_graph, make_model, make_unknown

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.graph_traces import FOLLOWED

X = np.ones((2, 3), F)
W = np.ones((3, 3), F)
#: Multiply-accumulates of x @ w.
ONE = 2 * 3 * 3


def number(value: int) -> Any:
    return np.asarray(value, np.int64)


def trace_loop(
    first: int = 0, step: int = 1, bound: int = 5, limit: int | None = None, condition: str = "Less"
) -> ModelTrace:
    """Trace ``while i < bound: x = x @ w; stack x; i += step``."""
    constants = {"first": number(first), "step": number(step), "bound": number(bound), "begins": np.asarray(True)}
    if limit is not None:
        constants["limit"] = number(limit)
    body = make_graph(
        [
            helper.make_node("MatMul", ["carried", "w"], ["after"]),
            helper.make_node("Add", ["i", "step"], ["next"]),
            helper.make_node(condition, ["next", "bound"], ["goes_on"]),
            helper.make_node("Identity", ["after"], ["stacked"]),
        ],
        ["turn", "going", "i", "carried"],
        ["goes_on", "next", "after", "stacked"],
    )
    names = ["limit" if limit is not None else "", "begins", "first", "x"]
    loop = helper.make_node("Loop", names, ["count", "last", "all"], body=body)
    model = make_model([loop], {"x": X}, {"w": W, **constants}, ["last", "all"])
    trace: ModelTrace = BACKEND.trace(model, ModelInputs(x=X))
    assert trace.failure is None
    return trace


@pytest.mark.parametrize(
    ("settings", "turns"),
    [
        ({}, 5),
        ({"step": 2}, 3),  # 2, 4, and 6 is not less than 5
        ({"first": 4}, 1),
        ({"first": 9}, 1),  # before the first turn, the condition is a constant
        ({"limit": 3}, 3),
        ({"limit": 50}, 5),
        ({"limit": 0}, 0),
        ({"step": -1, "bound": -4, "condition": "Greater"}, 4),
    ],
)
def test_a_loop_runs_as_often_as_its_condition_says(settings: dict[str, Any], turns: int) -> None:
    trace = trace_loop(**settings)
    assert (trace.macs, trace.missing, trace.choices, FOLLOWED in trace.notes) == (turns * ONE, (), (), False)
    stacked = [record for record in trace.operators if record.operator == "Loop"][-1]
    assert (turns, 2, 3) in [info.shape for info in stacked.outputs]


def test_a_bound_that_is_an_input_counts_by_its_value() -> None:
    """Turns 0 to 5: the condition of turn 5, ``5 < 5``, ends the loop."""
    body = make_graph(
        [
            helper.make_node("MatMul", ["carried", "w"], ["after"]),
            helper.make_node("Less", ["turn", "bound"], ["goes_on"]),
        ],
        ["turn", "going", "carried"],
        ["goes_on", "after"],
    )
    loop = helper.make_node("Loop", ["", "begins", "x"], ["y"], body=body)
    given = {"x": X, "bound": number(5)}
    trace = BACKEND.trace(make_model([loop], given, {"w": W, "begins": np.asarray(True)}), ModelInputs(**given))
    assert (trace.macs, trace.missing, trace.notes) == (6 * ONE, (), (FOLLOWED,))
    trace = BACKEND.trace(make_model([loop], given, {"w": W, "begins": np.asarray(True)}), make_unknown(**given))
    assert trace.macs == ONE
    assert trace.missing == ("Loop of an unknown number of turns (1 call)",)


def test_a_loop_that_never_ends_is_not_run_for_ever() -> None:
    trace = trace_loop(step=0)
    assert trace.macs == ONE
    assert trace.missing == ("Loop of an unknown number of turns (1 call)",)


def test_a_condition_by_chance_is_not_counted() -> None:
    body = make_graph(
        [
            helper.make_node("MatMul", ["carried", "w"], ["after"]),
            helper.make_node("RandomUniform", [], ["chance"], shape=[1]),
            helper.make_node("Less", ["chance", "half"], ["goes_on"]),
        ],
        ["turn", "going", "carried"],
        ["goes_on", "after"],
        {"half": np.asarray(0.5, F)},
    )
    loop = helper.make_node("Loop", ["limit", "begins", "x"], ["y"], body=body)
    model = make_model([loop], {"x": X}, {"w": W, "limit": number(7), "begins": np.asarray(True)})
    trace = BACKEND.trace(model, ModelInputs(x=X))
    assert trace.macs == 7 * ONE  # its limit, and an upper bound
    assert len(trace.choices) == 1


def test_a_condition_that_a_loop_does_not_ask_for_is_ignored() -> None:
    """Without a condition among its inputs, a loop runs up to its limit, whatever its body says."""
    body = make_graph(
        [
            helper.make_node("MatMul", ["carried", "w"], ["after"]),
            helper.make_node("Less", ["turn", "two"], ["goes_on"]),
        ],
        ["turn", "going", "carried"],
        ["goes_on", "after"],
        {"two": number(2)},
    )
    loop = helper.make_node("Loop", ["limit", "", "x"], ["y"], body=body)
    trace = BACKEND.trace(make_model([loop], {"x": X}, {"w": W, "limit": number(7)}), ModelInputs(x=X))
    assert (trace.macs, trace.choices) == (7 * ONE, ())
