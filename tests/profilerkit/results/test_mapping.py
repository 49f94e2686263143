"""Reports and comparisons read by the names of their metrics, as dicts, flat numbers, rows and one line."""

import math
from pathlib import Path

import pytest
from layer_reports import report as layer_report

from profilerkit import Comparative, Completeness, Measurement, Report, UnknownStatusError, load
from profilerkit.results.comparison import Comparison, distinct_names, side_by_side
from profilerkit.results.report import StatusRecord
from profilerkit.trace.bounds import UNKNOWN_ENDS, Bounds, Sign


def record(key: str, value: object, shown: str = "", **facts: object) -> StatusRecord:
    facts = {"comparative": Comparative.RECIPROCAL, "completeness": Completeness.COMPLETE, "unit": "", **facts}
    return StatusRecord(key, key.title(), "", value, shown, **facts)  # type: ignore[arg-type]


def report(name: str, *records: StatusRecord, **facts: object) -> Report:
    return Report(name, "fake", "module.Model", {one_record.key: one_record for one_record in records}, **facts)  # type: ignore[arg-type]


TIME = Measurement((0.002, 0.001, 0.003))
NET = report(
    "Net",
    record("macs", 8_000_000, "8 MMACs"),
    record("time", TIME, "2 ms"),
    record("table", [1, 2], "2 rows"),
    record("energy", None, completeness=Completeness.UNAVAILABLE, missing=("no counter",)),
    record(
        "flops",
        10,
        "10",
        completeness=Completeness.PARTIAL,
        missing=("op",),
        bounds=Bounds(10, None),
        base_unit="FLOPs",
    ),
    data={"trace": "a trace"},
)


def test_a_report_reads_like_a_dict() -> None:
    keys = ["macs", "time", "table", "energy", "flops", "trace"]
    assert len(NET) == 6
    assert list(NET) == list(NET.keys()) == NET._ipython_key_completions_() == keys
    assert dict(NET) == dict(NET.items()) == {key: NET[key] for key in keys}
    assert next(iter(NET.values())) == 8_000_000
    assert NET.get("macs") == 8_000_000
    assert NET.get("mac") is None
    assert NET.get("mac", 0) == 0
    assert all(key in NET for key in NET)


@pytest.mark.parametrize(
    "value", [{"float32": 192}, [1, 2], TIME, 192], ids=["mapping", "list", "measurement", "count"]
)
@pytest.mark.parametrize(("bounds", "sign"), [(None, Sign.LOWER), (UNKNOWN_ENDS, Sign.BETWEEN)])
def test_a_partial_value_of_any_kind_keeps_its_sign_in_a_file(
    value: object, bounds: Bounds | None, sign: Sign, tmp_path: Path
) -> None:
    """The dearer branch of a condition counts in the products of each dtype too: they are no lower bound."""
    net = report("Net", record("work", value, completeness=Completeness.PARTIAL, missing=("a branch",), bounds=bounds))
    net.save(tmp_path / "net.json")
    again = load(tmp_path / "net.json")
    assert isinstance(again, Report)
    assert net.status("work").sign is again.status("work").sign is sign


def test_a_report_without_metrics_is_still_true() -> None:
    assert len(report("Empty")) == 0
    assert report("Empty")


def test_metrics_are_flat_numbers_with_the_ends_of_intervals() -> None:
    numbers = NET.metrics()
    assert numbers == {
        "macs": 8_000_000,
        "time": 0.002,
        "time.low": 0.001,
        "time.high": 0.003,
        "flops": 10,
        "flops.low": 10,
    }
    assert {type(value) for value in numbers.values()} == {int, float}


def test_metrics_of_a_report_as_a_frame() -> None:
    frame = NET.to_pandas("metrics").set_index("key")
    assert list(frame.index) == ["macs", "time", "table", "energy", "flops"]
    assert (frame.loc["macs", "value"], frame.loc["macs", "low"], frame.loc["macs", "high"]) == (8e6, 8e6, 8e6)
    assert (frame.loc["time", "value"], frame.loc["time", "low"], frame.loc["time", "high"]) == (0.002, 0.001, 0.003)
    assert frame.loc["flops", "low"] == 10 and math.isnan(frame.loc["flops", "high"])
    assert frame.loc["flops", "unit"] == "FLOPs"
    assert math.isnan(frame.loc["table", "value"]) and frame.loc["table", "shown"] == "2 rows"
    assert frame.loc["energy", "missing"] == "no counter"


@pytest.mark.parametrize("name", ["Net", "a\nb" * 200])
def test_a_report_is_represented_in_one_line(name: str) -> None:
    many = report(name, *(record(f"metric_{index}", index, str(index)) for index in range(50)))
    assert len(repr(many)) < 160
    assert "\n" not in repr(many)
    assert "and 4" in repr(many) or "and 5" in repr(many)  # how many are left out


def test_the_representation_has_the_first_metrics() -> None:
    assert repr(NET) == "<Report 'Net', fake, macs=8 MMACs, time=2 ms, table=2 rows, flops=≥ 10>"


OTHER = report("Other", record("macs", 2_000_000, "2 MMACs"), record("size", 5, "5"))
BOTH = Comparison(NET, (OTHER,))


def test_a_comparison_has_the_values_of_each_model_by_name() -> None:
    assert BOTH["macs"] == {"Net": 8_000_000, "Other": 2_000_000}
    assert BOTH["size"] == {"Net": None, "Other": 5}
    assert list(BOTH) == ["macs", "time", "table", "energy", "flops", "size"]
    assert len(BOTH) == 6
    assert "size" in BOTH and "trace" not in BOTH
    assert dict(BOTH)["time"] == {"Net": TIME, "Other": None}
    assert repr(BOTH) == "<Comparison 'Net' and 'Other', 6 metrics>"
    with pytest.raises(UnknownStatusError, match="unknown metric 'mac'; this comparison knows, nearest first: macs, "):
        BOTH["mac"]


def test_the_metrics_of_a_comparison_as_a_frame() -> None:
    frame = BOTH.to_pandas().set_index("key")
    assert list(frame.columns) == ["name", "unit", "Net", "Other", "ratio of Other", "low of Other", "high of Other"]
    assert frame.loc["macs", ["Net", "Other", "ratio of Other"]].tolist() == [8e6, 2e6, 0.25]
    assert math.isnan(frame.loc["size", "ratio of Other"])
    with pytest.raises(ValueError, match="no table 'operators' in a comparison; it has 'metrics' and 'layers'"):
        BOTH.to_pandas("operators")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "names", [("key", "name"), ("unit", "unit (model)"), ("ratio of B", "B"), ("A", "low of low of A")]
)
def test_no_column_of_the_frame_hides_another(names: tuple[str, str]) -> None:
    first, second = (report(name, record("macs", value, "")) for name, value in zip(names, (8, 2), strict=True))
    frame = Comparison(first, (second,)).to_pandas()
    assert frame.shape == (1, 8)
    assert frame.iloc[0].tolist()[0::3] == ["macs", 8, 0.25], "key name unit, 8 2, 0.25 0.25 0.25"
    assert frame.iloc[0].tolist()[4] == 2


def test_numbers_of_two_units_have_no_ratio() -> None:
    first, second = (report(name, record("t", 2, "", base_unit=unit)) for name, unit in (("A", "s"), ("B", "ms")))
    both = Comparison(first, (second,))
    assert both.enhancement("t") is None
    row = both.to_pandas().iloc[0]
    assert (row["unit"], row["A"], row["B"], row["ratio of B"]) == ("s / ms", 2, 2, None)
    with pytest.raises(ValueError, match="t has no ratio: its units differ, 's' in A, 'ms' in B"):
        both.ratio("t")


def test_differences_that_are_measured_have_no_note_on_ratios() -> None:
    gaps = Measurement((-0.1, 0.2, 0.3)), Measurement((-0.2, 0.1, 0.4))
    first, second = (report("A", record("gap", gap, "", comparative=Comparative.DIFF)) for gap in gaps)
    assert "ratio" not in str(Comparison(first, (second,)))


@pytest.mark.parametrize("names", [["A", "A", "A (1)"], ["A (2)", "A", "A"], ["A", "A", "A (1)", "A (1)"], ["A"] * 3])
def test_no_model_of_a_comparison_hides_another(names: list[str]) -> None:
    """A model may have the very name that the number of another would give."""
    first, *others = (report(name, record("macs", value, str(value))) for value, name in enumerate(names))
    comparison = Comparison(first, tuple(others))
    assert list(comparison["macs"].values()) == list(range(len(names)))
    assert [found.name for found in comparison.reports] == distinct_names(names) == list(comparison["macs"])
    assert all(found.startswith(name) for name, found in zip(names, distinct_names(names), strict=True))
    assert side_by_side([first, *others]) == comparison == side_by_side(comparison.reports)
    assert (comparison.other(0), first.name) == (comparison.others[0], names[0])


def test_two_profiles_of_one_model_stand_side_by_side() -> None:
    """As two saved reports of one name do: each has its value, its layers and its column."""
    before, after = (layer_report("Net", [("a", "Linear", macs)]) for macs in (1, 2))
    comparison = Comparison(before, (after,))
    assert [comparison.other(which).name for which in (None, 0, "Net (2)")] == ["Net (2)"] * 3
    row = comparison.all_layers()[1]
    assert (row["macs of Net (1)"], row["macs of Net (2)"]) == (1, 2)
