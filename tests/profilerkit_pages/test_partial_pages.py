"""What a page says of values that are bounds, unknown, or alike only where they are rounded."""

from dataclasses import replace
from typing import Any

import pytest
from page_reports import layer_table, small, status, unpack, with_bounds

from profilerkit import Comparison, Completeness, Report
from profilerkit.render import render
from profilerkit.trace.bounds import Bounds, Branch, Choice
from profilerkit.trace.records import LayerCall, LayerRecord, LayerTable, MemoryTimeline, ModelTrace, OpRecord
from profilerkit.trace.table import Table
from profilerkit_pages.figures import draw
from profilerkit_pages.page_data import page_data


def test_a_table_without_rows_is_named() -> None:
    """A page has no table of it, so the summary says that there is one."""
    page = render(replace(small(), statuses={"kernels": status("kernels", Table(()), "0 kernels")}), "html")
    assert "Kernels (0 kernels)" in page


def test_bounds_of_two_models_have_their_signs_and_their_change_is_no_number_that_is_known() -> None:
    """Of the five layers `second` alone is exact; `block.act` is counted as 0, and at most 7."""
    (sides,) = page_data(Comparison(with_bounds(), (small("Student"),)))["sides"]
    assert sides is not None
    columns = {column["key"]: column for column in sides["columns"]}
    assert columns["macs"]["signed"] == {0: ["≥ ", 4224], 1: ["≤ ", 128], 2: ["~ ", 128], 3: ["≤ ", 7]}
    assert "signed" not in columns["macs_other"]
    assert columns["macs_difference"]["signed"] == {place: ["~ ", 0] for place in range(4)}
    assert not any("signed" in column for key, column in columns.items() if not key.startswith(("macs", "own_macs")))


def test_own_work_has_the_signs_of_its_bounds() -> None:
    """Of `block.first`, counted as 128, it is 100 to 200; of `block.act` 0 to 7; that of `second` is exact."""
    (report,) = page_data(with_bounds())["reports"]
    (own,) = [column for column in report["layers"]["columns"] if column["key"] == "own_macs"]
    assert own["signed"] == {2: ["~ ", 128], 3: ["≤ ", 7]}
    by_layer, by_type = report["tables"][:2]
    assert _read_signs(by_layer) == {"block.first": ["~ ", 128], "block.act": ["≤ ", 7]}
    assert _read_signs(by_type) == {"Linear": ["~ ", 128], "ReLU": ["≤ ", 7]}


def test_the_sum_of_a_type_has_the_sign_of_its_ends() -> None:
    """Two layers of 8 and of 4 MACs; a branch that may not be taken does the first 8: at most 12 together."""
    layers = [LayerRecord(path, "Linear", 1, calls=(LayerCall((), ()),)) for path in "ab"]
    operators = [OpRecord("mm", path, 0, macs, 2 * macs, 0, 0, ()) for path, macs in (("a", 8), ("b", 4))]
    choice = Choice((Branch({"a": (8, 16)}), Branch({})), 0, "a branch")
    root = LayerRecord("", "Net", 0, calls=(LayerCall((), ()),))
    trace = ModelTrace((root, *layers), tuple(operators), MemoryTimeline(0, 0, (0, 0)), choices=(choice,))
    (report,) = page_data(Report("net", "fake", "Net", {}, layers=trace.table))["reports"]
    (by_type,) = [table for table in report["tables"] if table["title"] == "By type"]
    assert _read_signs(by_type) == {"Linear": ["≤ ", 12]}
    shown = {column["key"]: column["shown"] for column in by_type["rows"]["columns"]}
    assert (shown["macs"], shown["macs_low"], shown["macs_high"]) == (True, False, False)


def _read_signs(table: dict[str, Any]) -> dict[str, Any]:
    """Return the signs of the MACs in a table of the page, by the name of the row."""
    (macs,) = [column for column in table["rows"]["columns"] if column["key"] == "macs"]
    names = unpack(table["rows"]["names"])
    return {names[place]: sign for place, sign in macs["signed"].items()}


@pytest.mark.parametrize(("calls", "seconds"), [(1, [0.001, 0.001]), (0, [None, None])])
def test_a_layer_that_has_the_time_of_one_inside_has_no_speed(calls: int, seconds: list[float | None]) -> None:
    """`a` computes with the weights of `a.b` and does not call it: 20 FLOPs in the time of 200 are no speed of its own.

    An encoder of torch does so in its fast path.
    """
    report = small(layers=(("", "Net", 0, 0), ("a", "Block", 0, 10), ("a.b", "Linear", 0, 90)))
    times = LayerTable(
        {**row, "calls": calls if row["path"] == "a.b" else 1} for row in report.statuses["layer_times"].value
    )
    told = replace(report, statuses={"layer_times": replace(report.statuses["layer_times"], value=times)})
    (data,) = page_data(told)["reports"]
    assert (data["roofline"]["flops"], data["roofline"]["seconds"]) == ([20, 180], seconds)
    (table,) = [column for column in data["layers"]["columns"] if column["key"] == "own_intensity"]
    assert unpack(table["values"]) == [None, 20 / 128, 180 / 128], "which is known without a time"
    pytest.importorskip("matplotlib")
    if calls:
        assert len(draw(told, "roofline").axes[0].collections) == 2
    else:
        with pytest.raises(ValueError, match="no layer has FLOPs, bytes and a time of its own"):
            draw(told, "roofline")


def test_a_metric_that_counts_otherwise_than_the_trace_has_columns_of_its_own() -> None:
    """A training step has three times the MACs of the forward pass; it never hides them, or is hidden by them."""
    exact = small().layers or LayerTable(())
    bounds = with_bounds().layers or LayerTable(())
    thrice = [
        {**row, **{key: 3 * (row[key] or 0) for key in row if "macs" in key and row[key] is not None}} for row in bounds
    ]
    records = {"training_layers": status("training_layers", LayerTable(thrice), "5 layers")}
    (data,) = page_data(replace(small(timed=False), layers=exact, statuses=records))["reports"]
    columns = {column["key"]: column for column in data["layers"]["columns"]}
    forward, training = columns["macs"], columns["macs (training_layers)"]
    assert "signed" not in forward
    assert unpack(forward["values"]) == [4224, 128, 128, 0, 4096]
    assert unpack(training["values"]) == [3 * macs for macs in unpack(forward["values"])]
    assert training["signed"] == {0: ["≥ ", 12672], 1: ["≤ ", 384], 2: ["~ ", 384], 3: ["≤ ", 21]}
    assert (training["title"], "flops (training_layers)" in columns) == ("MACs (training_layers)", False)


@pytest.mark.parametrize("title", ["By layer", "By type"])
def test_the_shares_of_layers_that_share_their_weights_are_at_most_the_whole(title: str) -> None:
    """An embedding of 800 weights, which a linear layer uses too: 800 in the model, and 800 in each of the two."""
    rows = [
        {**row, "params": 800, "own_params": 800 if row["path"] else 0}
        for row in layer_table([("", "Net", 0, 0), ("e", "Embedding", 800, 1), ("h", "Linear", 800, 1)])
    ]
    (report,) = page_data(Report("net", "fake", "Net", {}, layers=LayerTable(rows)))["reports"]
    (table,) = [table for table in report["tables"] if table["title"] == title]
    (params,) = [column for column in table["rows"]["columns"] if column["key"] == "params"]
    assert (sorted(unpack(params["values"]))[-2:], params["whole"]) == ([800, 800], 1600)


@pytest.mark.parametrize(
    ("bounds", "reason"), [(None, "Not counted: why"), (Bounds(None, 64), "why"), (Bounds(1, 90), "why")]
)
def test_only_what_a_lower_bound_lacks_is_called_not_counted(bounds: Bounds | None, reason: str) -> None:
    partial: dict[str, Any] = {"completeness": Completeness.PARTIAL, "missing": ("why",), "bounds": bounds}
    page = render(Report("net", "fake", "Net", {"macs": status("macs", 64, "64", **partial)}), "html")
    assert f'<p class="reason">{reason}</p>' in page


@pytest.mark.parametrize(("high", "sign"), [(164, "≤ "), (999, "~ "), (None, "")])
def test_the_peak_of_the_memory_has_the_sign_of_its_metric(high: int | None, sign: str) -> None:
    """64 bytes of weights, and 100 of activations at the most."""
    state = Completeness.COMPLETE if high is None else Completeness.PARTIAL
    bounds = None if high is None else Bounds(1, high)
    peak = status("footprint", 164, "164 B", "B", base_unit="B", completeness=state, bounds=bounds)
    memory = MemoryTimeline(64, 10, (100, 20))
    (data,) = page_data(Report("net", "fake", "Net", {"footprint": peak}, memory=memory))["reports"]
    assert data["memory"] is not None
    assert data["memory"]["sign"] == sign


def test_data_that_no_form_shows_is_named_on_a_page() -> None:
    assert "Not shown here: kinds" in render(replace(small(), data={"kinds": {"Linear": 2}}), "html")
