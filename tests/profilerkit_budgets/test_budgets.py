"""Budgets: limits as people write them, what comes of them, and what is said."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from drawn_reports import HOSTILE_NAMES, STUDENT, TEACHER, Tags, layers, record

from profilerkit import BudgetError, Completeness, Measurement, Report, Scale
from profilerkit.trace.bounds import Bounds
from profilerkit.trace.records import LayerTable, MemoryTimeline
from profilerkit.trace.table import Table
from profilerkit_budgets import Budget, Finding, Limit, Verdict, check
from profilerkit_budgets.findings import divide
from profilerkit_budgets.forms import format_headline, format_junit, format_markdown, format_text, summarize
from profilerkit_budgets.layer_limits import check_layers
from profilerkit_budgets.limits import read_budget
from profilerkit_budgets.metric_limits import check_metric

BOUNDS = {
    ("<= 5", ""): 5.0,
    ("<= 5 G", "MACs"): 5e9,
    ("<=5G", "MACs"): 5e9,
    ("<= 5 GMACs", "MACs"): 5e9,
    ("<= 5 MMACs", "MACs"): 5e6,
    ("< 1.5e3 k", ""): 1.5e6,
    ("<= 1_000_000", ""): 1e6,
    (">= .5", ""): 0.5,
    ("<= 25 MiB", "B"): 25 * 2**20,
    ("<= 25 Mi", "B"): 25 * 2**20,
    ("<= 25 MB", "B"): 25e6,
    ("<= 2.5 ms", "s"): 2.5e-3,
    ("<= 300 us", "s"): 300e-6,
    ("<= 2 s", "s"): 2.0,
    (">= 90 %", "%"): 90.0,
    (">= 90%", "%"): 90.0,
    (">= 100 samples/s", "samples/s"): 100.0,
}


@pytest.mark.parametrize(("text", "unit"), BOUNDS)
def test_a_bound_is_read_in_base_units(text: str, unit: str) -> None:
    limit = Limit.parse("key", text)
    assert limit.bound(unit) == pytest.approx(BOUNDS[text, unit], rel=1e-12)
    assert not limit.relative


@pytest.mark.parametrize(("prefix", "power"), [("k", 3), ("M", 6), ("G", 9), ("T", 12)])
def test_a_count_that_equals_its_limit_keeps_it(prefix: str, power: int) -> None:
    """Hundredths of a prefix are whole numbers; 2.01 * 1000 as floats is less than 2010."""
    wrong = []
    for hundredths in range(1, 1000):
        number = f"{hundredths // 100}.{hundredths % 100:02d}"
        if Limit.parse("macs", f"== {number} {prefix}").bound("MACs") != hundredths * 10 ** (power - 2):
            wrong.append(number)
    assert wrong == []


@pytest.mark.parametrize("written", ["9007199254740993 MACs", "9_007_199_254_740_993", "9.007199254740993e15"])
def test_a_count_beyond_floats_is_compared_in_all_digits(written: str) -> None:
    """2**53 + 1 is 9,007,199,254,740,993, and the float next to it is 2**53."""
    most = Budget.of({"macs": f"<= {written}", "layers": {"fc": {"macs": "<= 9007199254740993"}}})
    assert "9007199254740993" in str(most.limits[0])
    for count, verdict in ((2**53 + 1, Verdict.PASSED), (2**53 + 2, Verdict.FAILED)):
        table = layers(("", "Net", 0, 0), ("fc", "Linear", 0, count))
        report = replace(TEACHER, statuses={"macs": record("macs", count, "", base_unit="MACs")}, layers=table)
        assert {finding.verdict for finding in check(report, most)} == {verdict}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_ratio_that_equals_its_percentage_keeps_it(sign: int) -> None:
    """Of 100 to 114 the ratio is 114 / 100; 1 + 14 / 100 as floats is more than that."""
    wrong = [
        percent
        for percent in range(1, 100)
        if Limit.parse("macs", f"== {sign * percent:+} %").number != (100 + sign * percent) / 100
    ]
    assert wrong == []


def test_a_percentage_with_a_sign_is_relative_to_the_baseline() -> None:
    assert Limit.parse("macs", "<= +2%") == Limit.parse("macs", "<= 1.02x")
    assert Limit.parse("throughput", ">= -5 %") == Limit.parse("throughput", ">= 0.95x")
    assert str(Limit.parse("macs", "<= +2 %")) == "macs <= 1.02x"
    assert not Limit.parse("accuracy", ">= 90 %").relative


def test_a_limit_of_layers_as_a_text_names_the_file_that_holds_such_limits() -> None:
    with pytest.raises(
        BudgetError, match=r"limits of layers stand in a file, .*: \[layers\.'blocks\.\*'\] and below it"
    ):
        read_budget(None, ["blocks.*: params <= 10"])


def test_times_the_baseline() -> None:
    limit = Limit.parse("execution_time", "<= 1.10x")
    assert (limit.relative, limit.bound("s"), str(limit)) == (True, 1.1, "execution_time <= 1.1x")


@pytest.mark.parametrize("toml", ['[limits]\nmacs = "<= 3"', '[layers.encoder.0]\nmacs = "<= 3"'])
def test_a_table_where_a_limit_belongs_is_told_where_limits_stand(toml: str) -> None:
    with pytest.raises(BudgetError, match=r"is a table, and no limit; .* in quotes: \[layers\.\"encoder\.0\"\]"):
        Budget.of(tomllib.loads(toml))


@pytest.mark.parametrize("text", ["5 G", "<= ", "<= five", "~ 3", "", 5, None, True, "<= 1 2", "=< 3"])
def test_what_is_no_limit_is_said(text: Any) -> None:
    with pytest.raises(BudgetError, match=r"is no limit; write a comparison, a number and what it is in"):
        Limit.parse("macs", text).bound("MACs")


def test_another_unit_is_said() -> None:
    with pytest.raises(BudgetError, match="macs <= 5 GB: 'GB' cannot be read; the unit of macs is MACs"):
        Limit.parse("macs", "<= 5 GB").bound("MACs")
    with pytest.raises(BudgetError, match="'MiB' cannot be read; total_params is a number without a unit"):
        Limit.parse("total_params", "<= 5 MiB").bound("")


def test_a_budget_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    path.write_text('macs = ["<= 5 G", "<= 1x"]\n[layers."head.*"]\nparams = "<= 1 M"\n', encoding="utf-8")
    budget = Budget.load(path)
    assert list(map(str, budget.limits)) == ["macs <= 5 G", "macs <= 1x", "layers 'head.*': params <= 1 M"]
    assert Limit.parse("params", "<= 1 M", "a: b").condition == "params <= 1 M"
    assert (budget.metrics, budget.needs_baseline) == (("macs",), True)


@pytest.mark.parametrize("text", ["<= 1e400", "<= nan", "<= inf", "<= _", "<= 1_", "<= 1e999 G", "<= 1e308 P"])
def test_a_number_that_is_none_or_too_large(text: str) -> None:
    with pytest.raises(BudgetError, match=r"is no limit; write|beyond what a number can hold; give a smaller one"):
        Limit.parse("macs", text).bound("MACs")


def test_a_budget_that_is_nested_too_deep(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    for text in (f"macs = {'[' * 5000}{']' * 5000}", f"macs = {'{a=' * 5000}1{'}' * 5000}", f"macs = {'9' * 5000}"):
        path.write_text(text)
        with pytest.raises(BudgetError, match=r"nested too deep to be read|is no limit|is no TOML"):
            Budget.load(path)
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    for given in (value, {"macs": value}, {"layers": {"a": {"macs": value}}}, 3, None, [], {"macs": math.nan}):
        with pytest.raises(BudgetError, match=r"is no limit|is no budget"):
            Budget.of(given)  # type: ignore[arg-type]


def test_what_is_no_budget_is_said(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    with pytest.raises(BudgetError, match=r"cannot read the budget .*: No such file"):
        Budget.load(path)
    path.write_text("macs <= 5", encoding="utf-8")
    with pytest.raises(BudgetError, match=r"the budget .* is no TOML: "):
        Budget.load(path)
    path.write_text("# nothing", encoding="utf-8")
    with pytest.raises(BudgetError, match="the budget {} has no limits; give one for each metric that matters"):
        Budget.load(path)
    with pytest.raises(BudgetError, match="layers holds limits by path pattern"):
        Budget.of({"layers": {"head": "<= 3"}})


def check_budget(given: Mapping[str, Any], report: Report = TEACHER, baseline: Report | None = None) -> list[Finding]:
    return check(report, Budget.of(given), baseline)


def verdict(given: Mapping[str, Any], report: Report = TEACHER, baseline: Report | None = None) -> str:
    (finding,) = check_budget(given, report, baseline)
    return finding.verdict.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<= 192", "passed"),
        ("<= 191", "failed"),
        ("< 192", "failed"),
        (">= 192", "passed"),
        ("== 192", "passed"),
        ("> 192", "failed"),
    ],
)
def test_a_limit_of_the_whole(text: str, expected: str) -> None:
    """The teacher has 8 x 16 + 16 x 4 = 192 MACs."""
    assert verdict({"macs": text}) == expected


@pytest.mark.parametrize(("text", "expected"), [("== 2", "passed"), ("== 3", "failed"), ("<= 2", "passed")])
def test_an_absolute_limit_of_a_measured_value_is_one_of_its_median(text: str, expected: str) -> None:
    measured = record("energy", Measurement((1.0, 2.0, 3.0)), "2 J", base_unit="J")
    assert verdict({"energy": text}, replace(TEACHER, statuses={"energy": measured})) == expected


def test_a_baseline_in_another_unit_has_no_ratio() -> None:
    """As of an older version of a metric: 2 s are not twice 1 ms."""
    now, then = (replace(TEACHER, statuses={"t": record("t", 2, "2", base_unit=unit)}) for unit in ("s", "ms"))
    with pytest.raises(BudgetError, match="t <= 3x: t is in 's', and in 'ms' in the baseline Teacher"):
        check_budget({"t": "<= 3x"}, now, then)


@pytest.mark.parametrize("rows", [[], [{"path": "", "type": "Net", "forward_seconds": 1.0}]])
def test_a_broken_limit_of_time_names_no_layer_where_none_has_its_own_time(rows: list[dict[str, Any]]) -> None:
    times = {
        "execution_time": record("execution_time", 2.0, "2 s"),
        "layer_times": record("layer_times", LayerTable(rows), ""),
    }
    (finding,) = check_budget({"execution_time": "<= 1"}, replace(TEACHER, statuses=times))
    assert (finding.verdict, finding.responsible) == (Verdict.FAILED, ())


def test_a_layer_responsible_for_more_than_is_counted_has_the_sign_of_a_bound() -> None:
    """And no layer has a share of a model of which not all is counted."""
    rows = []
    for row in TEACHER.layers or ():
        counts = {name: row[name] for name in ("macs", "own_macs")}
        is_open = row["path"] in ("", "first")
        ends = {f"{name}_low": count for name, count in counts.items()}
        rows.append({**row, **ends, **{f"{name}_high": None if is_open else count for name, count in counts.items()}})
    (finding,) = check_budget({"macs": "<= 100"}, replace(TEACHER, layers=LayerTable(rows)))
    assert finding.responsible == ("first (Linear): ≥ 128 MACs", "second (Linear): 64 MACs")


def test_the_layers_responsible_are_named() -> None:
    (finding,) = check_budget({"macs": "<= 100"})
    assert finding.detail == "192 MACs, 192 % of the limit"
    (far,) = check_budget({"macs": "<= 64"})
    assert far.detail == "192 MACs, 3 times the limit"
    assert format_headline([far]).startswith("macs <= 64 failed, 3 times the limit: 192 MACs, 3 times the limit; the ")
    assert finding.responsible == ("first (Linear): 128 MACs, 66.67 %", "second (Linear): 64 MACs, 33.33 %")
    assert check_budget({"macs": "<= 1 k"})[0].responsible == ()


def make_tuned(head: int) -> Report:
    """Return the report of a frozen backbone of 1000 parameters of int8, and a head of float32 that is trained."""
    rows = [
        {**row, "params": params, "trainable_params": trainable, "weight_bytes": size}
        for row, params, trainable, size in zip(
            layers(("", "Net", 0, 0), ("backbone", "Linear", 0, 0), ("head", "Linear", 0, 0)),
            (1000 + head, 1000, head),
            (head, 0, head),
            (1000 + 4 * head, 1000, 4 * head),
            strict=True,
        )
    ]
    statuses = (
        record("total_params", 1000 + head, "total", scale=Scale.SI),
        record("trainable_params", head, "trainable", scale=Scale.SI),
        record("model_size", 1000 + 4 * head, "size", base_unit="B", scale=Scale.IEC),
    )
    return replace(TEACHER, statuses={status.key: status for status in statuses}, layers=LayerTable(rows))


def test_each_count_of_weights_is_explained_by_the_layers_that_have_it() -> None:
    """A frozen layer has no trainable parameters, and 300 parameters of four bytes are more than 1000 of one."""
    tuned = make_tuned(head=300)
    (finding,) = check_budget({"total_params": "<= 10"}, tuned)
    assert finding.responsible == ("backbone (Linear): 1 k, 76.92 %", "head (Linear): 300, 23.08 %")
    (finding,) = check_budget({"trainable_params": "<= 10"}, tuned)
    assert finding.responsible == ("head (Linear): 300, 100 %",)
    (finding,) = check_budget({"model_size": "<= 10 B"}, tuned)
    assert finding.responsible == ("head (Linear): 1.172 KiB, 54.55 %", "backbone (Linear): 1000 B, 45.45 %")


def test_each_count_of_weights_grew_in_the_layers_that_have_more_of_it() -> None:
    before, after = make_tuned(head=100), make_tuned(head=300)
    for key, growth in (("total_params", "+200"), ("trainable_params", "+200"), ("model_size", "+800 B")):
        (finding,) = check_budget({key: "<= 1x"}, after, before)
        assert finding.responsible == (f"head (Linear): {growth}",)


def test_a_layer_of_which_the_baseline_does_not_know_the_count_did_not_grow() -> None:
    """Neither did one that came with an unknown count; a layer that came with 300 parameters grew by these."""
    before, after = make_tuned(head=100), make_tuned(head=300)
    rows = {row["path"]: row for row in after.layers or ()}
    unknown, backbone = {**rows["head"], "params": None}, rows["backbone"]
    for old, new, grown in (
        ([backbone, unknown], [backbone, rows["head"]], ()),
        ([backbone], [backbone, unknown], ()),
        ([backbone], [backbone, rows["head"]], ("head (Linear): +300, added",)),
    ):
        baseline, report = (replace(side, layers=LayerTable(of)) for side, of in ((before, old), (after, new)))
        assert check_budget({"total_params": "<= 1x"}, report, baseline)[0].responsible == grown


def test_a_layer_that_is_trained_now_grew_in_trainable_parameters_alone() -> None:
    before = make_tuned(head=100)
    assert before.layers is not None
    rows = [{**row, "trainable_params": row["params"]} for row in before.layers]
    trainable = record("trainable_params", 1100, "trainable", scale=Scale.SI)
    after = replace(before, statuses={**before.statuses, "trainable_params": trainable}, layers=LayerTable(rows))
    (finding,) = check_budget({"trainable_params": "<= 1x"}, after, before)
    assert finding.responsible == ("backbone (Linear): +1 k",)


def test_a_limit_of_the_trainable_parameters_and_the_size_of_layers() -> None:
    tuned = make_tuned(head=300)
    assert verdict({"layers": {"backbone": {"trainable_params": "<= 0"}}}, tuned) == "passed"
    assert verdict({"layers": {"head": {"trainable_params": "<= 299"}}}, tuned) == "failed"
    assert verdict({"layers": {"head": {"model_size": "<= 1200 B"}}}, tuned) == "passed"
    assert verdict({"layers": {"head": {"model_size": "<= 1 KiB"}}}, tuned) == "failed"
    assert verdict({"layers": {"head": {"model_size": "<= 3x"}}}, tuned, make_tuned(head=100)) == "passed"
    with pytest.raises(BudgetError, match="the layers of Teacher have no trainable_params; make the report again"):
        check_budget({"layers": {"first": {"trainable_params": "<= 0"}}})


@pytest.mark.parametrize("lacks", ["layers", "params"])
def test_layers_that_the_report_or_the_baseline_lacks_are_said(lacks: str) -> None:
    rows = [{name: value for name, value in row.items() if name != lacks} for row in TEACHER.layers or ()]
    poor = replace(TEACHER, layers=None if lacks == "layers" else LayerTable(rows))
    for report, baseline in ((poor, TEACHER), (TEACHER, poor)):
        with pytest.raises(BudgetError, match=f"layers 'first': params <= 1x: the .* of Teacher .* no {lacks}"):
            check_budget({"layers": {"first": {"params": "<= 1x"}}}, report, baseline)


def test_a_limit_of_layers_holds_for_each_that_matches() -> None:
    findings = check_budget({"layers": {"*": {"macs": "<= 100"}}})
    assert [(finding.subject, finding.verdict.value) for finding in findings] == [
        ("first", "failed"),
        ("act", "passed"),
        ("second", "passed"),
    ]
    assert verdict({"layers": {"sec*": {"params": "<= 68"}}}) == "passed"
    assert verdict({"layers": {"sec*": {"flops": "<= 127"}}}) == "failed"


def test_a_lower_bound_proves_nothing_but_may_break_a_limit() -> None:
    partial = record("macs", 192, "192 MACs", base_unit="MACs", completeness=Completeness.PARTIAL, missing=("my::op",))
    report = replace(TEACHER, statuses={"macs": partial})
    (finding,) = check_budget({"macs": "<= 1 k"}, report)
    assert finding.verdict is Verdict.UNCERTAIN
    why = "lower bound, which does not decide this limit: my::op"
    assert finding.detail == f"≥ 192 MACs, 19.2 % of the limit: {why}"
    (broken,) = check_budget({"macs": "<= 100"}, report)
    assert (broken.verdict, broken.detail[:17]) == (Verdict.FAILED, "≥ 192 MACs, 192 %")
    assert verdict({"macs": ">= 100"}, report) == "passed"
    (finding,) = check_budget({"layers": {"first": {"macs": "<= 1 k"}}}, report)
    assert (finding.verdict, finding.detail) == (Verdict.UNCERTAIN, f"≥ 128 MACs: {why}")
    assert check_budget({"macs": "<= 1x"}, report, TEACHER)[0].verdict is Verdict.UNCERTAIN
    assert check_budget({"macs": "<= 0.9x"}, report, TEACHER)[0].verdict is Verdict.FAILED


@pytest.mark.parametrize("metric", ["macs", "flops", "total_params"])
def test_a_layer_that_is_not_all_counted_is_uncertain_whatever_metric_the_report_has(metric: str) -> None:
    """The first layer of the teacher has 8 * 16 MACs and something without a formula: 1x of them is not certain."""
    assert TEACHER.layers is not None
    open_ended = {"flops_low": 256, "flops_high": None, "macs_low": 128, "macs_high": None}
    rows = [
        {**row, "flops": 2 * row["macs"], **(open_ended if row["path"] == "first" else {})} for row in TEACHER.layers
    ]
    partial = record(metric, 1, "1", completeness=Completeness.PARTIAL, missing=("my::op",))
    report = replace(TEACHER, statuses={metric: partial}, layers=LayerTable(rows))
    before = replace(TEACHER, layers=LayerTable([{**row, "flops": 2 * row["macs"]} for row in TEACHER.layers]))
    for key in ("macs", "flops"):
        for text, baseline in (("<= 1 k", None), ("<= 1x", before)):
            (finding,) = check_budget({"layers": {"first": {key: text}}}, report, baseline)
            assert finding.verdict is Verdict.UNCERTAIN
            reason = "my::op" if metric != "total_params" else "the report does not say what is not counted"
            assert finding.detail.endswith(f"does not decide this limit: {reason}")


def test_nothing_that_stays_nothing_keeps_a_ratio() -> None:
    none, some = (replace(TEACHER, statuses={"macs": record("macs", count, str(count))}) for count in (0, 5))
    assert verdict({"macs": "<= 1x"}, none, none) == "passed"
    assert verdict({"macs": "<= 0.9x"}, none, none) == "failed"
    assert verdict({"macs": "<= 1x"}, some, none) == "failed"
    assert verdict({"macs": "<= 1x"}, none, some) == "passed"


def test_a_value_that_is_not_there_fails_with_its_reason() -> None:
    (finding,) = check_budget({"energy": "<= 1"})
    assert (finding.verdict, finding.detail) == (Verdict.FAILED, "unavailable: no counter here")


def test_a_value_that_failed_is_said_to_be_none() -> None:
    failed = record("macs", None, "", completeness=Completeness.FAILED, missing=("the model raised ValueError",))
    findings = check_budget({"macs": "<= 1 k"}, replace(TEACHER, statuses={"macs": failed}))
    assert format_headline(findings) == "macs <= 1 k failed: no value: the model raised ValueError"


def test_exact_values_beside_a_baseline() -> None:
    assert verdict({"macs": "<= 0.25x"}, STUDENT, TEACHER) == "passed"
    assert verdict({"macs": "<= 0.24x"}, STUDENT, TEACHER) == "failed"
    (finding,) = check_budget({"macs": "<= 1x"}, TEACHER, STUDENT)
    assert finding.detail == "4x (192 MACs after 48 MACs)"
    assert finding.responsible == ("first (Linear): +96 MACs", "second (Linear): +48 MACs")


def make_timed(*samples: float, session: int | None = 1) -> Report:
    time = record("execution_time", Measurement(samples, session=session), "t", base_unit="s", scale=Scale.TIME)
    return replace(TEACHER, statuses={"execution_time": time})


def test_a_ratio_is_judged_by_its_interval() -> None:
    """Seven pairs: the interval is their range. Slower by 10 to 16 %, a median of 13 %."""
    before, after = make_timed(*[1.0] * 7), make_timed(1.10, 1.11, 1.12, 1.13, 1.14, 1.15, 1.16)
    assert verdict({"execution_time": "<= 1.2x"}, after, before) == "passed"
    assert verdict({"execution_time": "<= 1.13x"}, after, before) == "uncertain"
    assert verdict({"execution_time": "<= 1.05x"}, after, before) == "failed"
    (finding,) = check_budget({"execution_time": "<= 1.05x"}, after, before)
    assert finding.detail == "1.13x [1.1, 1.16] (t after t)"
    alone = make_timed(1.10, 1.11, 1.12, 1.13, 1.14, 1.15, 1.16, session=2)
    assert check_budget({"execution_time": "<= 1.05x"}, alone, before)[0].detail.endswith(
        "(t after t), not measured in turn"
    )


@pytest.mark.parametrize(
    ("limit", "expected"), [("<= 1.2x", "uncertain"), ("<= 1.05x", "failed"), (">= 1.05x", "passed")]
)
@pytest.mark.parametrize("samples", [(1.10, 1.11, 1.12, 1.13, 1.14, 1.15, 1.16), (1.13,) * 7])
def test_a_measurement_of_which_a_part_is_missing_has_a_ratio_without_an_upper_end(
    samples: tuple[float, ...], limit: str, expected: str
) -> None:
    """Joules of one processor of two: with those of the other the ratio may be anything above."""
    before, whole = make_timed(*[1.0] * 7), make_timed(*samples)
    time = replace(whole.status("execution_time"), completeness=Completeness.PARTIAL, missing=("package-1",))
    (finding,) = check_budget({"execution_time": limit}, replace(whole, statuses={"execution_time": time}), before)
    assert finding.verdict.value == expected
    assert finding.detail.startswith("≥ 1.13x [")
    assert ("which does not decide this limit: package-1" in finding.detail) == (expected == "uncertain")


def test_a_ratio_of_too_few_samples_is_uncertain() -> None:
    before, after = make_timed(1.0, 1.0, 1.0), make_timed(1.10, 1.11, 1.12)
    for limit in ("<= 1.2x", "<= 1.05x"):
        (finding,) = check_budget({"execution_time": limit}, after, before)
        assert finding.verdict.value == "uncertain"
        assert finding.detail == "1.11x [1.1 to 1.12, 3 pairs] (t after t)"
    (finding,) = check_budget({"execution_time": "<= 2x"}, make_timed(9.0, session=None), make_timed(1.0, session=None))
    assert (finding.verdict.value, finding.detail) == ("uncertain", "9x [1 sample] (t after t), not measured in turn")


def test_layers_beside_a_baseline() -> None:
    findings = check_budget({"layers": {"*t": {"macs": "<= 1x"}, "second": {"macs": "<= 4x"}}}, TEACHER, STUDENT)
    assert [(finding.subject, finding.verdict.value) for finding in findings] == [
        ("first", "failed"),
        ("act", "passed"),
        ("second", "passed"),
    ]
    assert findings[0].detail == "4x (128 MACs after 32 MACs)"
    assert findings[1].detail == "1x (0 MACs after 0 MACs)"
    table = layers(("", "Net", 0, 0), ("third", "Conv2d", 1, 5))
    (finding,) = check_budget({"layers": {"third": {"macs": "<= 1x"}}}, replace(TEACHER, layers=table), STUDENT)
    assert (finding.verdict.value, finding.detail) == ("failed", "5 MACs, and the baseline has no such layer")


def test_a_layer_of_which_the_baseline_does_not_know_all_is_uncertain() -> None:
    """One of two layers has an operator without a formula: of the other both ends are known."""
    macs = replace(STUDENT.status("macs"), completeness=Completeness.PARTIAL, missing=("my::op",))
    ends = {"first": (32, None), "act": (0, 0), "second": (16, 16), "": (48, None)}
    rows = [
        {**row, "macs_low": ends[row["path"]][0], "macs_high": ends[row["path"]][1]} for row in STUDENT.layers or ()
    ]
    told = replace(STUDENT, layers=LayerTable(rows), statuses={**STUDENT.statuses, "macs": macs})
    untold = replace(STUDENT, statuses=told.statuses)  # as a report has it that does not tell the layers apart
    budget = {"layers": {"first": {"macs": "<= 4x"}, "second": {"macs": "<= 4x"}}}
    unknown = "128 MACs, and the baseline's macs of it are not all known, which has no ratio"
    first, second = check_budget(budget, TEACHER, told)
    assert (first.verdict.value, first.detail) == ("uncertain", unknown)
    assert (second.verdict.value, second.detail) == ("passed", "4x (64 MACs after 16 MACs)")
    assert [finding.verdict.value for finding in check_budget(budget, TEACHER, untold)] == ["uncertain"] * 2


def test_the_ratio_of_a_layer_whose_ends_are_not_known_decides_nothing() -> None:
    """As of a loop that is counted once: 128 of its MACs are counted, and neither end is known."""
    macs = replace(TEACHER.status("macs"), completeness=Completeness.PARTIAL, missing=("a loop",))
    rows = [{**row, "macs_low": None, "macs_high": None} for row in TEACHER.layers or ()]
    report = replace(TEACHER, layers=LayerTable(rows), statuses={**TEACHER.statuses, "macs": macs})
    for text in ("<= 1x", "<= 8x"):
        (finding,) = check_budget({"layers": {"first": {"macs": text}}}, report, STUDENT)
        assert (finding.verdict.value, finding.detail.startswith("~ 4x (128 MACs after 32 MACs)")) == (
            "uncertain",
            True,
        )


def test_a_limit_below_zero_has_no_share() -> None:
    """A log likelihood of -1 under a limit of -2 is neither half of it nor 50 % under it."""
    report = replace(TEACHER, statuses={"score": record("score", -1.0, "-1")})
    (finding,) = check_budget({"score": "<= -2"}, report)
    assert (finding.verdict.value, finding.detail, finding.excess) == ("failed", "-1", None)
    assert format_headline([finding]) == "score <= -2 failed: -1"


def test_a_model_that_is_one_layer_has_a_name_where_it_grew() -> None:
    """As where it costs most: the path of the model itself is empty."""
    small, large = (
        replace(item, layers=layers(("", "Linear", 0, macs))) for item, macs in ((STUDENT, 48), (TEACHER, 192))
    )
    assert check_budget({"macs": "<= 1x"}, large, small)[0].responsible == ("(model) (Linear): +144 MACs",)


def test_the_peak_is_where_memory_is_spent() -> None:
    footprint = record("memory_footprint", 300, "300 B", base_unit="B", scale=Scale.IEC)
    operators = Table([{"operator": "mm", "layer": "first"}, {"operator": "relu", "layer": "act"}])
    memory = MemoryTimeline(weight_bytes=100, input_bytes=10, live_bytes=(50, 200))
    report = replace(TEACHER, statuses={"memory_footprint": footprint}, operators=operators, memory=memory)
    assert check_budget({"memory_footprint": "<= 256 B"}, report)[0].responsible == (
        "act: most is alive after relu, 200 B of activations and inputs",
        "weights: 100 B",
    )


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown metric": ({"mac": "<= 1"}, "the report of Teacher has no mac; it has, nearest first: macs"),
    "no baseline": ({"macs": "<= 1x"}, "macs <= 1x is relative, and there is no baseline to compare with"),
    "no layer": ({"layers": {"frist": {"macs": "<= 1"}}}, "no layer matches; the nearest paths are: first"),
    "layer value": (
        {"layers": {"first": {"colour": "<= 1"}}},
        "have limits of params, total_params, trainable_params, model_size, macs, flops, not of colour",
    ),
    "layer unit": ({"layers": {"first": {"macs": "<= 1 MiB"}}}, "the unit of macs is MACs"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_limit_that_cannot_be_checked_is_an_error(name: str) -> None:
    given, expected = ERRORS[name]
    with pytest.raises(BudgetError) as caught:
        check_budget(given)
    assert expected in str(caught.value)


@pytest.mark.parametrize("given", [{"macs": "<= 1.1x"}, {"layers": {"first": {"macs": "<= 1.1x"}}}])
def test_each_relative_limit_needs_a_baseline(given: dict[str, Any]) -> None:
    """Read without one, 1.1 times would be 1.1 MACs."""
    (limit,) = Budget.of(given).limits
    with pytest.raises(BudgetError, match="is relative, and there is no baseline"):
        list(check_layers(TEACHER, limit, None)) if limit.pattern else check_metric(TEACHER, limit, None)


def test_a_negative_baseline_exchanges_the_ends() -> None:
    """What is at least -6 is at most 1.5 times -4."""
    ratio = divide(-6, Bounds(-6, None), -4, "")
    assert (ratio.value, ratio.ends, ratio.sign) == (1.5, Bounds(None, 1.5), "≤ ")


def test_a_baseline_without_the_value_is_an_error() -> None:
    with pytest.raises(BudgetError, match="the baseline Teacher has no value of energy to compare with"):
        check_budget({"energy": "<= 1x"}, replace(TEACHER, statuses={"energy": record("energy", 1, "1")}), TEACHER)
    partial = replace(
        TEACHER, statuses={"macs": record("macs", 1, "1", completeness=Completeness.PARTIAL, missing=("op",))}
    )
    with pytest.raises(BudgetError, match=r"not all is known \(lower bound\), which has no ratio; give a baseline"):
        check_budget({"macs": "<= 1x"}, TEACHER, partial)
    with pytest.raises(BudgetError, match="the report of Teacher holds no layers"):
        check_budget({"layers": {"*": {"macs": "<= 1"}}}, replace(TEACHER, layers=None))


FINDINGS = check_budget({"macs": "<= 100", "accuracy": ">= 90 %", "layers": {"second": {"params": "<= 1 k"}}})


def test_as_text() -> None:
    failed = "macs <= 100 failed, 92 % over the limit: 192 MACs, 192 % of the limit"
    first = f"{failed}; the largest part in layer first (Linear): "
    assert format_text(FINDINGS, "Teacher").splitlines() == [
        f"{first}128 MACs, 66.67 %",
        "Budget of Teacher",
        "  FAILED     macs <= 100            192 MACs, 192 % of the limit",
        "               first (Linear): 128 MACs, 66.67 %",
        "               second (Linear): 64 MACs, 33.33 %",
        "  ok         accuracy >= 90 %       92.0 %, 102.2 % of the limit",
        "  ok         second: params <= 1 k  68",
        "3 limits: 2 passed, 1 failed",
    ]


def test_the_headline_names_the_limit_by_how_much_and_the_layer() -> None:
    kept = check_budget({"macs": "<= 200"})
    assert format_headline(kept) == ""
    assert format_text(kept, "Teacher").splitlines()[0] == "Budget of Teacher"
    two = check_budget({"macs": ">= 384", "accuracy": ">= 100 %"})  # 192 MACs and 92 %: half of it, and 8 % less
    assert format_headline(two).startswith("macs >= 384 failed, 50 % under the limit: 192 MACs")
    assert format_headline(two).endswith("; and 1 more")
    assert "accuracy >= 100 % failed, 8 % under the limit" in format_headline(two[1:])
    layer = check_budget({"layers": {"second": {"params": "<= 34"}}})  # which has 68
    assert format_headline(layer) == "second: params <= 34 failed, 100 % over the limit: 68"
    assert ", " not in format_headline(check_budget({"macs": "<= 0"})).partition(":")[0], "there is no share of nothing"
    before = replace(TEACHER, statuses={"macs": record("macs", 96, "96", base_unit="MACs")})
    beside = check_budget({"macs": "<= 1.6x"}, baseline=before)
    assert format_headline(beside).startswith("macs <= 1.6x failed, 25 % over the limit: 2x (192 MACs after 96"), (
        "2 / 1.6"
    )


def test_as_markdown() -> None:
    lines = format_markdown(FINDINGS, "Teacher").splitlines()
    assert lines[0] == "### Budget of Teacher"
    assert lines[2].startswith("macs &lt;= 100 failed, 92 % over the limit: 192 MACs")
    assert lines[6].startswith(
        "| FAILED | macs &lt;= 100 | 192 MACs, 192 % of the limit | first \\(Linear\\): 128 MACs"
    )
    assert lines[-1] == "3 limits: 2 passed, 1 failed"


def test_as_junit() -> None:
    uncertain = Finding(Limit.parse("time", "<= 1x"), "time", Verdict.UNCERTAIN, "1x [0.9, 1.1]")
    root = ET.fromstring(format_junit([*FINDINGS, uncertain], "Teacher"))
    assert root.tag == "testsuites"
    (suite,) = root
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    cases = {case.get("name"): [part.tag for part in case] for case in suite}
    assert cases == {
        "macs <= 100": ["failure"],
        "accuracy >= 90 %": ["system-out"],
        "second: params <= 1 k": ["system-out"],
        "time <= 1x": ["skipped"],
    }


def test_hostile_names_are_escaped() -> None:
    given = [("", "Net", 0, 0), *((name.replace(".", ""), name, 1, 9) for name in HOSTILE_NAMES)]
    report = replace(TEACHER, name=HOSTILE_NAMES[0] + "\x1b", layers=layers(*given))
    findings = check_budget({"macs": "<= 1", "layers": {"*": {"macs": "<= 1"}}}, report)
    assert "\x1b" not in format_text(findings, report.name)
    assert Tags(format_markdown(findings, report.name)).found == set()
    (suite,) = ET.fromstring(format_junit(findings, report.name))
    assert len(suite) == 1 + len(HOSTILE_NAMES)
    assert summarize(findings) == f"{len(findings)} limits: {len(findings)} failed"


def test_a_limit_may_name_a_metric_by_one_of_its_other_names() -> None:
    (finding,) = check_budget({"latency": "<= 2 s"}, make_timed(1.0, 1.0, 1.0))
    assert (finding.subject, finding.verdict.value) == ("execution_time", "passed")
