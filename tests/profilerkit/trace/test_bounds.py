"""The two ends of a count, by hand: of values, of choices, and of the layers of a trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from profilerkit import Measurement, Metric, ModelTrace, Report, StatusKey
from profilerkit.hooks.renderers import render
from profilerkit.piping.comparative import Comparative
from profilerkit.piping.outcome import Completeness, Outcome
from profilerkit.piping.returned import apply_gaps, inherit_gaps
from profilerkit.results.comparison import Comparison
from profilerkit.results.report import StatusRecord
from profilerkit.results.saving import parse, to_dict, to_json
from profilerkit.trace.bounds import Bounds, Branch, Choice
from profilerkit.trace.completeness import Gaps, TracePart, find_gaps
from profilerkit.trace.ignoring import without_layers
from profilerkit.trace.layer_work import compute_spread
from profilerkit.trace.records import LayerRecord, MemoryTimeline, OpRecord
from profilerkit_budgets import Budget, Verdict, check


def everywhere(path: str) -> bool:
    return True


#: Two MACs in "a", or five in "b" and one more that is chosen for itself.
INNER = Choice((Branch({"b": (1, 2)}), Branch({})), 0, "inner")
OUTER = Choice((Branch({"a": (2, 4)}), Branch({"b": (6, 12)}, (INNER,))), 1, "outer")


def test_a_choice_has_the_ends_of_its_branches() -> None:
    assert compute_spread([OUTER], "macs", everywhere) == (4, 0), "six are counted, and two are the least"
    assert compute_spread([OUTER], "flops", everywhere) == (8, 0)
    assert compute_spread([OUTER], "macs", lambda path: path == "a") == (0, 2)
    assert compute_spread([OUTER], "macs", lambda path: path == "b") == (6, 0)
    assert compute_spread([OUTER, OUTER], "macs", everywhere) == (8, 0), "two choices are independent"


def test_a_choice_that_decides_more_has_no_ends_unless_it_does_nothing() -> None:
    assert compute_spread([replace(OUTER, decides_more=True)], "macs", everywhere) == (None, None)
    assert compute_spread([replace(OUTER, decides_more=True)], "macs", lambda path: path == "c") == (0, 0)


@pytest.mark.parametrize("counted", [0, 1])
def test_a_choice_inside_a_branch_that_has_no_ends_leaves_none_to_the_choice_around_it(counted: int) -> None:
    """It does so at any depth, whichever branch is counted; of a layer that it does nothing in, the ends are known."""
    open_inner = replace(INNER, decides_more=True)
    around = replace(OUTER, branches=(Branch({"a": (2, 4)}), Branch({"b": (6, 12)}, (open_inner,))), counted=counted)
    farther = Choice((Branch({}), Branch({}, (around,))), 0, "around both")
    for choice in (around, farther):
        assert compute_spread([choice], "macs", everywhere) == (None, None)
        assert compute_spread([choice], "macs", lambda path: path == "b") == (None, None)
    assert compute_spread([around], "macs", lambda path: path == "a") == ((0, 2) if counted else (2, 0))


def test_layers_that_are_left_out_leave_their_part_of_a_choice() -> None:
    assert compute_spread(without_layers(made(), "b").choices, "macs", everywhere) == (0, 2)


def made(uncounted: dict[str, int] | None = None, choices: tuple[Choice, ...] = (OUTER,)) -> ModelTrace:
    layers = tuple(LayerRecord(path, "L", bool(path)) for path in ("", "a", "b", "c"))
    uncounted = uncounted or {}
    missing = "op::c" if "op::c" in uncounted else ""
    operators = (
        OpRecord("op::b", "b", 0, 6, 12, 0, 0, ()),
        OpRecord("op::c", "c", 0, 10, 20, 0, 0, (), missing=missing),
    )
    return ModelTrace(layers, operators, MemoryTimeline(live_bytes=(0, 0)), uncounted, choices=choices)


def test_the_ends_of_layers_and_totals() -> None:
    rows = {row["path"]: (row["macs_low"], row["macs"], row["macs_high"]) for row in made().table}
    assert rows == {"": (12, 16, 16), "a": (0, 0, 2), "b": (0, 6, 6), "c": (10, 10, 10)}
    assert made().bounds("flops") == Bounds(24, 32)


def test_what_is_not_counted_opens_the_layers_where_it_is() -> None:
    rows = {row["path"]: (row["macs_low"], row["macs_high"]) for row in made({"op::c": 1}, ()).table}
    assert rows == {"": (16, None), "a": (0, 0), "b": (6, 6), "c": (10, None)}
    everywhere_open = {row["path"]: row["macs_high"] for row in made({"no record of it": 1}, ()).table}
    assert set(everywhere_open.values()) == {None}
    assert "macs_low" not in made(choices=()).table.columns


@pytest.mark.parametrize("depth", [None, 1])
def test_sums_by_type_have_the_ends_of_their_layers(depth: int | None) -> None:
    """At most 2 in "a", 0 to 6 in "b", 10 in "c": as if independent, which is wider than what they may do together."""
    (row,) = made().table.by_type(depth)
    assert (row["macs_low"], row["macs"], row["macs_high"]) == (0 + 0 + 10, 16, 2 + 6 + 10)
    (row,) = made({"op::c": 1}, ()).table.by_type(depth)
    assert (row["macs_low"], row["macs"], row["macs_high"]) == (16, 16, None), "one of them has no upper end"
    assert "macs_low" not in made(choices=()).table.by_type(depth).columns


def test_what_costs_most_at_a_depth_has_its_ends_and_the_sign_of_a_bound() -> None:
    table = made({"op::c": 1}, ()).table.by_depth(depth=0)
    ranked = {row["by"]: (row["value_low"], row["value"], row["value_high"]) for row in table}
    assert ranked == {"macs": (16, 16, None), "flops": (32, 32, None)}
    assert "≥ 16 MACs" in str(table)
    assert "≥ 10" in str(made({"op::c": 1}, ()).table), "and layers in the table of layers"
    assert "≥ 16" in str(made({"op::c": 1}, ()).table.by_type())


@pytest.mark.parametrize(
    ("trace", "is_known"), [(made(), False), (made({"op::c": 1}, ()), False), (made(choices=()), True)]
)
def test_a_share_of_a_whole_between_two_ends_is_not_known(trace: ModelTrace, is_known: bool) -> None:
    """Six of 16 MACs are in "b", if 16 are all."""
    share = {row["path"]: row["macs_share"] for row in trace.table}["b"]
    assert share == (6 / 16 if is_known else None)
    assert {row["share"] for row in trace.table.by_depth()} == ({1.0} if is_known else {None}), "all are of one type"
    assert ("%" in render(Report("net", "fake", "Net", {}, layers=trace.table), "tree")) == is_known


def test_the_part_of_a_pass_is_not_known_where_that_of_both_is_not() -> None:
    """A training step of 6 MACs in "b" forward, and in "c" 10 backward, where an operator is not counted."""
    whole = made({"op::c": 1}, ())
    before, after = whole.operators
    step = replace(whole, operators=(before, msgspec.structs.replace(after, phase="backward")))
    names = ("forward_macs", "backward_macs", "own_forward_flops", "own_backward_flops")
    rows = {row["path"]: tuple(row[name] for name in names) for row in step.table}
    assert rows == {"": (None, None, 0, 0), "a": (0,) * 4, "b": (6, 0, 12, 0), "c": (None,) * 4}


@pytest.mark.parametrize("value", [Measurement((1.0, 2.0, 3.0)), {"float32": 16}], ids=["measured", "mapping"])
@pytest.mark.parametrize(
    ("trace", "grows", "sign"),
    [
        (made(), True, "~ "),
        (made({"op::c": 1}, ()), True, "≥ "),
        (made({"op::c": 1}, ()), False, "~ "),
        (made(choices=()), False, ""),
    ],
)
def test_a_value_without_ends_is_a_lower_bound_only_if_nothing_counts_too_much(
    value: Any, trace: ModelTrace, grows: bool, sign: str
) -> None:
    """Of a condition the dearer branch is counted: a rate that is computed from it may be lower too. A file says so.

    Seconds for each MAC are no lower bound either: they fall with every MAC that is found.
    """

    class Rate(Metric):
        """A rate."""

        NAME = "rate"
        DERIVED_FROM = TracePart.OPERATORS
        GROWS = grows

    status = Rate().with_outcome(apply_gaps(Outcome.of(value), Rate(), trace))
    report = Report("net", "fake", "Net", {"rate": StatusRecord.of(status)})
    loaded = parse(to_json(report).encode(), "it")
    assert isinstance(loaded, Report)
    assert report.status("rate").sign == loaded.status("rate").sign == sign
    if isinstance(value, Measurement):
        (finding,) = check(report, Budget.of({"rate": ">= 1"}))
        assert finding.verdict is (Verdict.UNCERTAIN if sign == "~ " else Verdict.PASSED)


def test_a_model_that_failed_has_no_ends() -> None:
    assert "macs_low" not in replace(made(), failure=RuntimeError("half-way")).table.columns


def test_an_unknown_column_is_an_error() -> None:
    with pytest.raises(ValueError, match="bounds are known of 'macs' and 'flops'"):
        made().bounds("params")


def test_what_a_value_lacks_by_its_column() -> None:
    assert find_gaps(made(), TracePart.OPERATORS, "macs") == Gaps(("outer",), bounds=Bounds(12, 16))
    assert find_gaps(made(), TracePart.OPERATORS) == Gaps(("outer",), bounds=Bounds())
    equal = Choice((Branch({"a": (2, 4)}), Branch({"b": (2, 9)})), 1, "flops differ")
    assert find_gaps(made(choices=(equal,)), TracePart.OPERATORS, "macs") == Gaps(), "its MACs are known"


def status(value: float, bounds: Bounds | None, completeness: Completeness = Completeness.PARTIAL) -> StatusKey:
    return StatusKey().with_outcome(Outcome(value, completeness, ("it",), bounds=bounds))


@pytest.mark.parametrize(("value", "bounds"), [(9, Bounds()), (3.5, Bounds()), ("a text", None)])
@pytest.mark.parametrize("source", [None, Bounds(0, 4), Bounds(1, 8)])
def test_of_a_number_made_of_bounds_no_end_is_known(value: Any, bounds: Bounds | None, source: Bounds | None) -> None:
    """A quotient grows where its divisor shrinks: 9 = 36 / 4 is an upper bound if 4 is a lower one."""
    outcome = inherit_gaps(Outcome(value), [status(4, source)])
    assert (outcome.completeness, outcome.missing, outcome.bounds) == (Completeness.PARTIAL, ("it",), bounds)


# Reports ------------------------------------------------------------------------------------------------------------

LOWER, UPPER, BETWEEN = None, Bounds(250, 1000), Bounds(500, 2000)


def record(bounds: Bounds | None, value: int = 1000, completeness: Completeness = Completeness.PARTIAL) -> StatusRecord:
    return StatusRecord(
        "macs", "MACs", "", value, f"{value} MACs", "MACs", Comparative.RECIPROCAL, completeness, ("why",), "MACs",
        bounds=bounds,
    )  # fmt: skip


def report(bounds: Bounds | None, **options: Any) -> Report:
    return Report("M", "fake", "m.M", {"macs": record(bounds, **options)})


EXACT = report(None, completeness=Completeness.COMPLETE, value=500)
#: Every renderer of text that shows values, with what it makes of a sign.
TEXTS: dict[str, Callable[[str], str]] = {
    "summary": str,
    "markdown": lambda text: text.replace("~", r"\~").replace("[", r"\[").replace("]", r"\]"),
    "latex": lambda text: (
        text.replace("~", r"\textasciitilde{}")
        .replace("[", "{[}")
        .replace("]", "{]}")
        .replace("≥", r"\ensuremath{\ge}")
        .replace("≤", r"\ensuremath{\le}")
    ),
    "html": str,
}


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize(
    ("bounds", "sign", "kind"),
    [(LOWER, "≥ ", "lower bound"), (UPPER, "≤ ", "upper bound"), (BETWEEN, "~ ", "two ends")],
)
def test_every_form_shows_the_same_sign(form: str, bounds: Bounds | None, sign: str, kind: str) -> None:
    shown = render(report(bounds), form)
    assert TEXTS[form](f"{sign}1000") in shown
    assert kind in shown
    assert (TEXTS[form]("[500 MACs, 2000 MACs]") in shown) is (bounds is BETWEEN)


def test_a_file_holds_both_ends_and_null_for_one_that_is_not_known() -> None:
    for bounds, ends in ((LOWER, (1000, None)), (UPPER, (250, 1000)), (BETWEEN, (500, 2000)), (Bounds(), (None, None))):
        (written,) = to_dict(report(bounds))["statuses"]
        assert (written["low"], written["high"]) == ends
        (read,) = parse(to_json(report(bounds)).encode(), "it").reports
        assert read.statuses["macs"].bounds == bounds
    (written,) = to_dict(EXACT)["statuses"]
    assert (written["low"], written["high"]) == (500, 500)


def test_csv_has_the_ends_that_are_known() -> None:
    line = render(report(UPPER), "csv").splitlines()[1]
    assert ",1000,MACs,250,1000," in line


@pytest.mark.parametrize(
    ("bounds", "limit", "verdict"),
    [
        (LOWER, "<= 2 k", Verdict.UNCERTAIN),
        (LOWER, "<= 900", Verdict.FAILED),
        (LOWER, ">= 900", Verdict.PASSED),
        (LOWER, ">= 2 k", Verdict.UNCERTAIN),
        (UPPER, "<= 1 k", Verdict.PASSED),
        (UPPER, "<= 900", Verdict.UNCERTAIN),
        (UPPER, "<= 200", Verdict.FAILED),
        (UPPER, ">= 1.1 k", Verdict.FAILED),
        (BETWEEN, "<= 2 k", Verdict.PASSED),
        (BETWEEN, "<= 1.5 k", Verdict.UNCERTAIN),
        (BETWEEN, "<= 400", Verdict.FAILED),
        (BETWEEN, "== 1 k", Verdict.UNCERTAIN),
        (LOWER, "<= 1.5x", Verdict.FAILED),
        (LOWER, "<= 3x", Verdict.UNCERTAIN),
        (UPPER, "<= 2x", Verdict.PASSED),
        (BETWEEN, "<= 1x", Verdict.UNCERTAIN),
    ],
)
def test_a_limit_is_decided_by_the_end_that_proves_it(bounds: Bounds | None, limit: str, verdict: Verdict) -> None:
    (finding,) = check(report(bounds), Budget.of({"macs": limit}), EXACT)
    assert finding.verdict is verdict, finding.detail
    assert ("does not decide this limit: why" in finding.detail) is (verdict is Verdict.UNCERTAIN)


@pytest.mark.parametrize(
    ("reference", "other", "low", "high"),
    [
        (EXACT, report(LOWER), 2.0, math.inf),
        (EXACT, report(UPPER), 0.5, 2.0),
        (report(UPPER), report(UPPER), 0.25, 4.0),
        (report(LOWER), EXACT, 0.0, 0.5),
        (report(LOWER), report(LOWER), 0.0, math.inf),
    ],
)
def test_a_ratio_has_the_ends_of_its_values(reference: Report, other: Report, low: float, high: float) -> None:
    ratio = Comparison(reference, (other,)).ratio("macs")
    assert (ratio.low, ratio.high) == (low, high)


@pytest.mark.parametrize(
    ("reference", "other", "shown"),
    [
        (EXACT, report(LOWER), " ≥ 2x more, worse\n"),
        (EXACT, report(UPPER), " ≤ 2x more\n"),
        (report(LOWER), EXACT, " ≥ 2x less, better\n"),
        (report(UPPER), report(UPPER), " ~ the same\n"),
        (report(UPPER), report(LOWER), " ≥ the same\n"),
    ],
)
def test_an_enhancement_says_on_which_side_of_the_truth_it_is(reference: Report, other: Report, shown: str) -> None:
    assert shown in str(Comparison(reference, (other,)))
