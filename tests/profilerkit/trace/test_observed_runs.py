"""What a run did is compared with the trace: nothing is said where they agree, or where something was not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from profilerkit.errors import ModelFailedError
from profilerkit.trace import LayerCall, LayerRecord, ModelTrace, ObservedRun, OpRecord
from profilerkit.trace.bounds import Branch, Choice
from profilerkit.trace.observed_runs import MeasuredPeak, TimedLayers, add_contradiction, explain_contradiction

CALL = LayerCall((), ())
LAYERS = (
    LayerRecord("", "Net", 0, calls=(CALL,)),
    LayerRecord("a", "Linear", 1, calls=(CALL, CALL)),
    LayerRecord("b", "Block", 1, calls=(CALL,)),
    LayerRecord("b.c", "Linear", 2, calls=(CALL,)),
    LayerRecord("b.d", "Linear", 2),
)
TRACE = ModelTrace(LAYERS, (OpRecord("mm", "a", 0, 1200, 2400, 0, 0, ()),), operator_macs=1200)
CALLS = {"": 1, "a": 2, "b": 1, "b.c": 1, "b.d": 0}
OTHER = "the model does other work when it is run than in the static pass, which is counted here: "


def of(**seen: Any) -> str:
    return explain_contradiction(TRACE, [ObservedRun("its first run", **seen)])


def test_runs_that_agree_with_the_trace() -> None:
    assert of() == of(macs=1200) == of(calls=CALLS) == of(macs=1200, calls=CALLS) == ""
    assert explain_contradiction(TRACE, []) == ""


def test_other_work_of_the_operators() -> None:
    assert of(macs=2400) == f"{OTHER}its first run has 2,400 MACs in its operators, the static pass 1,200"
    assert of(macs=0) == f"{OTHER}its first run has 0 MACs in its operators, the static pass 1,200"


def test_the_first_run_that_disagrees_is_named() -> None:
    runs = [ObservedRun("its first run", 1200), ObservedRun("a later run", 600), ObservedRun("the last run", 6)]
    assert (
        explain_contradiction(TRACE, runs) == f"{OTHER}a later run has 600 MACs in its operators, the static pass 1,200"
    )


def test_what_either_has_not_seen_is_not_compared() -> None:
    run = [ObservedRun("its first run", 2400)]
    assert explain_contradiction(TRACE, run)
    assert explain_contradiction(replace(TRACE, operator_macs=None), run) == ""
    failed = ModelTrace(LAYERS, failure=ModelFailedError("the model raised ValueError: no"), operator_macs=0)
    assert explain_contradiction(failed, run) == ""
    assert of(calls={"": 1, "of no record": 3}) == ""


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ({"a": 1}, "calls layer 'a' once (static pass: 2)"),
        ({"b.d": 2}, "calls layer 'b.d' 2 times (static pass: 0)"),
        ({"b.c": 0, "b.d": 1}, "calls layers 'b.c' 0 times (static pass: 1), 'b.d' once (static pass: 0)"),
        ({"a": 0}, "calls layer 'a' 0 times (static pass: 2)"),
    ],
)
def test_other_calls_of_layers(calls: dict[str, int], words: str) -> None:
    assert of(calls={**CALLS, **calls}) == f"{OTHER}its first run {words}"


def test_of_many_layers_three_are_named() -> None:
    layers = (LAYERS[0], *(LayerRecord(name, "Linear", 1, calls=(CALL,)) for name in "abcde"))
    found = explain_contradiction(ModelTrace(layers), [ObservedRun("its first run", calls=dict.fromkeys("abcde", 2))])
    assert found.startswith(f"{OTHER}its first run calls layers 'a' 2 times (static pass: 1), 'b' 2 times")
    assert found.endswith("'c' 2 times (static pass: 1) and 2 more")


def test_layers_inside_of_one_that_calls_none_of_them_may_be_in_a_fused_kernel() -> None:
    assert of(calls={**CALLS, "b.c": 0}) == ""
    assert of(calls={**CALLS, "b": 0, "b.c": 0}) == f"{OTHER}its first run calls layer 'b' 0 times (static pass: 1)"


def test_a_contradicted_trace_keeps_its_tables_and_says_it_once() -> None:
    table = TRACE.table
    twice = add_contradiction(add_contradiction(TRACE, "one"), "one")
    assert twice.contradictions == ("one",)
    assert twice.table is table
    assert (twice.macs, twice.layers, TRACE.contradictions) == (1200, LAYERS, ())


def test_a_measured_peak_is_a_number_with_its_runs() -> None:
    run = ObservedRun("its first run", 3)
    assert MeasuredPeak(12, [run]) == 12
    assert MeasuredPeak(12, [run]).runs == (run,)
    assert MeasuredPeak(12).runs == ()


@pytest.mark.parametrize(("macs", "agrees"), [(599, False), (600, True), (900, True), (1200, True), (1201, False)])
def test_a_run_of_a_model_with_branches_lies_between_the_two_ends(macs: int, agrees: bool) -> None:
    choice = Choice((Branch({"a": (1200, 2400)}), Branch({"a": (600, 1200)})), 0, "why")
    found = explain_contradiction(replace(TRACE, choices=(choice,)), [ObservedRun("its first run", macs)])
    assert (found == "") == agrees
    ends = "has the ends 600 and 1,200"
    assert agrees or found.endswith(f"its first run has {macs:,} MACs in its operators, and the static pass {ends}")


def test_the_ends_of_a_model_with_formulas_for_layers_are_not_those_of_its_operators() -> None:
    choice = Choice((Branch({"a": (1200, 2400)}), Branch({})), 0, "why")
    trace = replace(TRACE, choices=(choice,), operator_macs=5000)
    assert explain_contradiction(trace, [ObservedRun("its first run", 9000)]) == ""


def test_times_of_layers_carry_their_runs() -> None:
    run = ObservedRun("a run", 3)
    times = TimedLayers(["time"], [run])
    assert (times, times.runs, TimedLayers().runs) == (["time"], (run,), ())
