"""The page of a report as text: what is in it, what can not be in it, and the data that its scripts draw."""

from __future__ import annotations

import base64
import configparser
import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from page_reports import (
    HOSTILE_NAMES,
    empty,
    hostile,
    layer_table,
    many,
    odd_numbers,
    pair,
    small,
    status,
    unpack,
    with_bounds,
    with_operator_times,
)
from source_tree import ROOT

from profilerkit import Comparison, Completeness, Measurement, Report
from profilerkit.render import render
from profilerkit.trace.records import LayerTable
from profilerkit.trace.table import Table
from profilerkit_pages.html import _SCRIPTS, fragment, list_absent
from profilerkit_pages.page_data import embed, page_data
from profilerkit_pages.page_parts import pack

PAGE = ROOT / "plugins" / "profilerkit_pages" / "page"


class Elements(HTMLParser):
    """Collects every element of a page with its attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in ("script", "style") and data.strip():
            self.raw.append(data)


@pytest.mark.parametrize("result", [small(), pair(), hostile(), empty(), odd_numbers()], ids=lambda r: type(r).__name__)
def test_a_page_is_the_same_each_time_and_loads_nothing(result: Report | Comparison) -> None:
    page = render(result, "html")
    assert page == render(result, "html")
    page.encode("utf-8")
    elements = Elements(page)
    for tag, attributes in elements.found:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form", "audio", "video")
        assert not any(name.startswith("on") or name in ("src", "style", "srcset") for name in attributes)
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    assert [tag for tag, _ in elements.found].count("script") == 2
    assert re.findall(r"https?://[\w./]+", page) == ["http://www.w3.org/2000/svg"], "a name, which is never loaded"


def read_page(result: Any) -> Any:
    """Return what a page draws, as the scripts read it: plain JSON."""
    return page_data(result)


def test_the_policy_forbids_all_but_the_pages_own_script_and_style() -> None:
    elements = Elements(render(small(), "html"))
    (policy,) = (facts["content"] or "" for tag, facts in elements.found if "http-equiv" in facts)
    style, _, script = elements.raw
    assert policy.startswith("default-src 'none';")
    for kind, text in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_a_page_without_data_is_small() -> None:
    assert len(render(empty(), "html").encode()) < 120_000


def test_ten_thousand_layers_stay_small() -> None:
    """A row of ten columns, in some hundred bytes; JSON with names would take five hundred."""
    result = many()
    assert len(result.layers or ()) == 10_001
    assert len(render(result, "html")) < 1_500_000


def test_every_source_of_the_page_is_used_and_writes_no_markup() -> None:
    assert {path.stem for path in PAGE.glob("*.js")} == set(_SCRIPTS)
    for path in PAGE.iterdir():
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".js":
            assert "innerHTML" not in text, "names are text; nothing may read them as markup"
            assert "</script" not in text
            assert not re.search(r"\b(fetch|XMLHttpRequest|localStorage|sessionStorage|eval)\b", text)


def test_embedded_data_cannot_end_its_script() -> None:
    text = embed({"name": "</script><!-- & \u2028 \ud800"})
    assert not re.search(r"[<>&\u2028\ud800]", text)
    assert json.loads(text) == {"name": "</script><!-- & \u2028 \ud800"}
    page = render(hostile(), "html")
    held = page.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(held) == json.loads(json.dumps(read_page(hostile())))


def test_values_are_packed_only_where_it_pays() -> None:
    assert pack([5] * 10) == {"of": [5], "at": [0] * 10}
    assert pack(["a", "b"] * 4) == {"of": ["a", "b"], "at": [0, 1] * 4}
    assert pack(list(range(10))) == list(range(10))
    assert pack([1, 1]) == [1, 1]


def values(data: dict[str, Any], key: str) -> Any:
    return unpack(next(column for column in data["layers"]["columns"] if column["key"] == key)["values"])


def test_layers_are_a_tree_with_columns() -> None:
    data = read_page(small())["reports"][0]
    assert data["layers"]["parents"] == [-1, 0, 1, 1, 0]
    assert data["layers"]["names"] == ["", "block", "first", "act", "second"]
    assert values(data, "macs") == [4224, 128, 128, 0, 4096]
    assert values(data, "forward_seconds") == [0.002, 0.001, 0.001, 0.0, 0.001]
    assert values(data, "output_shapes") == ["[1, 4]"] * 5
    titles = {column["key"]: (column["title"], column["unit"], column["scale"]) for column in data["layers"]["columns"]}
    assert titles["own_flops"] == ("Own FLOPs", "", "si")
    assert titles["bytes_moved"] == ("Bytes moved", "B", "iec")
    assert titles["own_forward_seconds"] == ("Own forward", "s", "time")
    assert titles["own_speed"] == ("Own FLOP/s", "", "si")
    assert "backward_seconds" not in titles, "nothing is in that column"


def test_a_count_that_is_a_bound_has_its_sign() -> None:
    """A layer that only a branch runs which is not counted has no zero: its upper end."""
    columns = {column["key"]: column for column in read_page(with_bounds())["reports"][0]["layers"]["columns"]}
    assert columns["macs"]["signed"] == {0: ["≥ ", 4224], 1: ["≤ ", 128], 2: ["~ ", 128], 3: ["≤ ", 7]}
    assert [key for key, column in columns.items() if "signed" in column] == ["macs", "own_macs"]


def test_bytes_moved_are_those_that_are_read_and_written() -> None:
    """Five operators of 100 + 28 bytes, three of them in `block` and inside it."""
    data = read_page(small())["reports"][0]
    assert values(data, "bytes_moved") == [5 * 128, 3 * 128, 128, 128, 128]
    rows = [{**row, "bytes_read": 7, "bytes_written": place} for place, row in enumerate(small().layers or ())]
    told = read_page(replace(small(), layers=LayerTable(rows)))["reports"][0]
    assert values(told, "bytes_moved") == [7, 8, 9, 10, 11]


def test_a_metric_keeps_its_own_bytes_moved() -> None:
    """Without bytes of the trace they have the column alone; beside other bytes of the trace, one of their own."""
    moved = LayerTable([{"path": row["path"], "type": row["type"], "bytes_moved": 7} for row in small().layers or ()])
    statuses = {"probe": status("probe", moved, "")}
    alone = read_page(replace(small(), layers=None, statuses=statuses))["reports"][0]
    assert values(alone, "bytes_moved") == [7] * 5
    beside = read_page(replace(small(), statuses=statuses))["reports"][0]
    assert values(beside, "bytes_moved") == [5 * 128, 3 * 128, 128, 128, 128]
    assert values(beside, "bytes_moved (probe)") == [7] * 5


def test_columns_of_any_kind_are_text_or_numbers() -> None:
    rows = [
        {**row, "params_by_dtype": {"float32": 3, "int8": 1}, "weight_bytes": 4 * row["params"], "macs_share": 0.5}
        for row in small().layers or ()
    ]
    columns = read_page(replace(small(), layers=LayerTable(rows)))["reports"][0]["layers"]["columns"]
    told = {column["key"]: column for column in columns}
    assert told["params_by_dtype"]["values"] == ["float32 3, int8 1"] * 5
    assert told["weight_bytes"]["values"] == [848, 576, 576, 0, 272]
    assert "macs_share" not in told, "the page has shares of its own"


def test_a_share_of_what_the_page_does_not_have_is_a_column() -> None:
    """A plugin's, of whatever whole; and one that differs from the share of the trace, if its count does not."""
    cached = [{"path": row["path"], "type": row["type"], "cache_share": 0.25} for row in small().layers or ()]
    foreign = [{**row, "macs_share": 0.125} for row in cached]
    rows = [{**row, "macs_share": 0.5} for row in small().layers or ()]
    report = replace(small(), layers=LayerTable(rows), statuses={"probe": status("probe", LayerTable(foreign), "")})
    columns = {column["key"]: column for column in read_page(report)["reports"][0]["layers"]["columns"]}
    assert columns["cache_share"]["values"] == [0.25] * 5
    assert not columns["cache_share"]["share"], "shares do not add up"
    assert columns["macs_share (probe)"]["values"] == [0.125] * 5
    assert "macs_share" not in columns


def test_a_layer_inside_none_that_is_known_is_inside_the_nearest() -> None:
    table = layer_table([("", "Net", 0, 0), ("a.b.c", "Linear", 1, 1), ("x", "Linear", 1, 1)])
    data = read_page(replace(empty(), layers=table))["reports"][0]
    assert data["layers"]["parents"] == [-1, 0, 0]
    assert data["layers"]["names"] == ["", "a.b.c", "x"]


def test_the_roofline_is_of_the_forward_pass_alone() -> None:
    report = small()
    twice = [*(report.operators or ()), *({**row, "phase": "backward"} for row in report.operators or ())]
    for operators in (report.operators, type(report.operators)(twice)):  # type: ignore[misc]
        roofline = read_page(replace(report, operators=operators))["reports"][0]["roofline"]
        assert roofline == {"layers": [2, 4], "flops": [256, 8192], "bytes": [128, 128], "seconds": [0.001, 0.001]}
    assert read_page(small(timed=False))["reports"][0]["roofline"]["seconds"] == [None, None]
    rows = [{**row, "missing": "not counted: my::op" if row["macs"] == 128 else ""} for row in report.operators or ()]
    incomplete = Table(rows)
    left = read_page(replace(report, operators=incomplete))["reports"][0]["roofline"]["layers"]
    assert left == [4], "a layer with an operator that is not counted would be drawn too low"


def test_the_table_has_the_numbers_of_the_roofline() -> None:
    """256 FLOPs over 128 bytes are 2, and in 1 ms 256 kFLOP/s."""
    data = read_page(small())["reports"][0]
    assert values(data, "own_intensity") == [None, None, 2.0, None, 64.0]
    assert values(data, "own_speed") == [None, None, pytest.approx(256e3), None, pytest.approx(8192e3)]
    untimed = read_page(small(timed=False))["reports"][0]
    assert "own_speed" not in [column["key"] for column in untimed["layers"]["columns"]]


def test_models_of_one_name_are_told_apart() -> None:
    page = render(Comparison(small("Net"), (small("Net"),)), "html")
    assert "Net (1)" in page
    assert "Net (2)" in page


def test_the_bytes_at_a_peak_stand_among_the_layers() -> None:
    """What they are for is there to be chosen; of each layer itself behind its work."""
    report = small(timed=False)
    sizes = {"peak_bytes": 3, "own_peak_bytes": 1, "weights_bytes": 3, "own_weights_bytes": 1}
    peaks = LayerTable([{"path": row["path"], "type": row["type"], **sizes} for row in report.layers or ()])
    data = read_page(replace(report, statuses={"peaks": status("peaks", peaks, "")}))["reports"][0]
    shown = {column["key"]: column["shown"] for column in data["layers"]["columns"]}
    assert (shown["peak_bytes"], shown["weights_bytes"]) == (True, False)
    columns = data["tables"][0]["rows"]["columns"]
    assert [(column["key"], column["shown"]) for column in columns[-2:]] == [
        ("peak_bytes", True),
        ("weights_bytes", False),
    ]


def test_tables_that_are_not_by_layer_are_left_alone() -> None:
    """A row for each type has no path; a row for each call has some twice."""
    by_type = LayerTable([{"type": "Linear", "layers": 2, "forward_seconds": 9.0}])
    calls = LayerTable([{"path": "", "type": "N", "forward_seconds": float(call)} for call in range(2)])
    statuses = {key: status(key, table, "") for key, table in (("by_type", by_type), ("calls", calls))}
    data = read_page(replace(small(timed=False), statuses=statuses))["reports"][0]
    assert "forward_seconds" not in [column["key"] for column in data["layers"]["columns"]]
    alone = read_page(replace(small(), layers=None))["reports"][0]
    assert values(alone, "forward_seconds") == [0.002, 0.001, 0.001, 0.0, 0.001], "the times have layers of their own"


def test_layers_side_by_side_are_one_tree() -> None:
    (sides,) = read_page(pair())["sides"]
    assert sides["names"] == ["", "block", "first", "act", "second", "third"]
    assert sides["parents"] == [-1, 0, 1, 1, 0, 0]
    assert sides["changes"] == ["changed", "same", "same", "removed", "changed", "added"]
    columns = {column["key"]: column["values"] for column in sides["columns"]}
    assert columns["macs"] == [4224, 128, 128, 0, 4096, None]
    assert columns["macs_other"] == [2176, 128, 128, None, 2048, 0]
    assert columns["macs_difference"] == [-2048, 0, 0, None, -2048, None]
    assert columns["forward_seconds_difference"][2] == pytest.approx(-0.0005)
    assert read_page(Comparison(small(), (empty(),)))["sides"] == [None]


def test_a_matched_layer_with_another_name_has_both() -> None:
    first = replace(empty(), layers=layer_table([("", "Net", 0, 0), ("conv", "Conv2d", 1, 1)]))
    other = replace(empty(), layers=layer_table([("", "Net", 0, 0), ("stem", "Conv2d", 1, 1)]))
    (sides,) = read_page(Comparison(first, (other,)))["sides"]
    assert sides["names"] == ["", "conv / stem"]


def test_types_and_operators_are_added_up() -> None:
    """Of SMALL two types have MACs; 1 ms is all that each of two layers takes by itself."""
    by_layer, by_type, by_operator = read_page(small())["reports"][0]["tables"]
    assert (by_layer["title"], by_layer["rows"]["names"]) == ("By layer", ["second", "block.first"])
    rows = by_type["rows"]
    assert (by_type["title"], by_type["heading"], rows["names"][:2]) == ("By type", "Type", ["Conv2d", "Linear"])
    columns = {column["key"]: column["values"] for column in rows["columns"]}
    assert columns["layers"] == [1, 1, 1, 1, 1]
    assert columns["macs"] == [4096, 128, 0, 0, 0]
    assert columns["forward_seconds"] == [0.001, 0.001, 0.0, 0.0, 0.0]
    assert by_operator["rows"]["names"][0] == "op.conv2d"
    rows = [{**row, "own_macs": None} if row["type"] == "Linear" else row for row in small().layers or ()]
    told = read_page(replace(small(), layers=LayerTable(rows)))["reports"][0]["tables"][1]["rows"]
    macs = next(column["values"] for column in told["columns"] if column["key"] == "macs")
    assert dict(zip(told["names"], macs, strict=True))["Linear"] is None, "a sum with an unknown part is unknown"


def test_operators_with_a_call_that_is_not_counted_have_no_sum() -> None:
    rows = [{**row, "missing": "x" if row["layer"] == "block.first" else ""} for row in small().operators or ()]
    table = read_page(replace(small(), operators=Table(rows)))["reports"][0]["tables"][2]["rows"]
    macs = next(unpack(column["values"]) for column in table["columns"] if column["key"] == "macs")
    counted = dict(zip(unpack(table["names"]), macs, strict=True))
    assert (counted["op.linear"], counted["op.conv2d"]) == (None, 4096)


def test_a_notebook_shows_where_it_goes() -> None:
    """As the terminal does: of 2 ms half are in `block`, and half in `second`."""
    drawn = re.sub(r"<[^>]+>", "|", fragment(small()))
    assert "Where it goes, by forward time" in drawn
    for name in ("block", "second"):
        assert re.search(rf"\|{name}\|.*?\|1 ms[\s|]+50.0 %\|", drawn, re.DOTALL)
    assert "Where it goes" not in fragment(empty())


def test_a_notebook_says_what_the_terminal_says() -> None:
    """The inputs, and once that all is complete; a column says it of each where one value is not."""
    whole = small()
    complete = replace(whole, statuses={"macs": whole.statuses["macs"]}, inputs="ModelInputs(Tensor(1, 3))")
    drawn = fragment(complete)
    assert "<li>Input: Tensor(1, 3)" in drawn
    assert "<li>All values are complete" in drawn
    assert "Completeness" not in drawn
    assert "Completeness" in fragment(whole)


def test_a_metric_that_is_a_table_is_one_of_the_page() -> None:
    table = Table([{"operator": "mm", "calls": 3, "seconds": 0.5}])
    data = read_page(replace(empty(), statuses={"timed": status("timed", table, "1 operator")}))["reports"][0]
    (shown,) = data["tables"]
    assert (shown["title"], shown["heading"], shown["rows"]["names"]) == ("Timed", "Operator", ["mm"])
    assert [column["key"] for column in shown["rows"]["columns"]] == ["calls", "seconds"]


def test_a_timeline_has_operators_in_the_order_of_time() -> None:
    """The table is sorted by time; the pass begins with mm. Of block the MACs of one operator are not known."""
    timeline = read_page(with_operator_times(backward=False))["reports"][0]["timeline"]
    names, owners, operators = (unpack(timeline[key]) for key in ("names", "layers", "operators"))
    columns = {column["key"]: unpack(column["values"]) for column in timeline["columns"]}
    assert list(zip(names, timeline["parents"], owners, columns["macs"], strict=True)) == [
        ("", -1, 0, None),
        ("block", 0, 1, None),
        ("first", 1, 2, 128),
        ("2 x mm", 2, 2, 128),
        ("act", 1, 3, 0),
        ("relu", 4, 3, 0),
        ("odd", 1, 1, None),
        ("second", 0, 4, 4096),
        ("conv", 7, 4, 4096),
        ("cat", 0, 0, 0),
    ]
    assert operators == ["", "", "", "mm", "", "relu", "odd", "", "conv", "cat"]
    milliseconds = [10, 4.5, 3, 3, 1, 1, 0.5, 3.5, 3.5, 2]
    assert columns["seconds"] == pytest.approx([1e-3 * each for each in milliseconds])
    assert columns["missing"] == [""] * 6 + ["no formula"] + [""] * 3


def test_a_timeline_of_a_training_step_has_both_phases() -> None:
    timeline = read_page(with_operator_times())["reports"][0]["timeline"]
    names, parents = unpack(timeline["names"]), timeline["parents"]
    assert [name for name, parent in zip(names, parents, strict=True) if parent == 0] == ["forward", "backward"]
    first = names.index("backward")
    assert names[first:] == ["backward", "second", "conv_back", "block", "first", "mm_back"]
    assert [names[place] for place in parents[first:]] == ["", "backward", "second", "backward", "block", "first"]


def test_no_times_of_operators_no_timeline() -> None:
    assert read_page(small())["reports"][0]["timeline"] is None
    assert "timeline (operator_table was not measured)" in list_absent(read_page(small()))
    assert not any("timeline" in line for line in list_absent(read_page(with_operator_times())))


def test_operators_say_what_they_read() -> None:
    """The input of the model is 0, what stands right before an operator 1."""
    reads = [(-1,), (0,), (1,), (0, 2), (3,)]
    rows = [{**row, "reads": read} for row, read in zip(small().operators or (), reads, strict=True)]
    operators = read_page(replace(small(), operators=Table(rows)))["reports"][0]["operators"]
    assert operators["reads"] == [(0,), (1,), (1,), (3, 1), (1,)]
    assert operators["layers"] == [0, 1, 2, 3, 4]
    assert read_page(small())["reports"][0]["operators"]["reads"] is None


def test_samples_that_are_no_numbers_are_written_as_such() -> None:
    (measured,) = read_page(odd_numbers())["reports"][0]["measurements"]
    assert measured["samples"] == ["inf", "inf", "-inf", 1.0, 2.0, 3.0, 4.0, 5.0]
    even = replace(odd_numbers(), statuses={"t": status("t", Measurement((math.inf,) * 8), "inf")})
    assert read_page(even)["reports"][0]["measurements"][0]["interval"] == ["inf", "inf"]


def test_percentiles_of_too_few_samples_are_left_out() -> None:
    """Of eight samples a quarter lies below the 25th percentile, but no whole one below the 5th."""
    (measured,) = read_page(odd_numbers())["reports"][0]["measurements"]
    assert [key for key, value in measured["percentiles"].items() if value is None] == ["5", "95"]
    (many_samples,) = read_page(small())["reports"][0]["measurements"]
    assert None not in many_samples["percentiles"].values()


def test_metrics_are_in_base_units() -> None:
    """The median of forty samples of 2 ms and up to 6 % more, of seven values in turn: 2.06 ms."""
    metrics = read_page(small())["reports"][0]["metrics"]
    assert metrics["execution_time"] == {"value": pytest.approx(0.00206), "unit": "s", "completeness": "complete"}
    assert metrics["flops"] == {"value": 9, "unit": "", "completeness": "partial", "missing": ["aten.odd (2 calls)"]}
    assert metrics["layer_times"] == {"value": "5 layers", "unit": "", "completeness": "complete"}


def test_a_notebook_gets_the_metrics_and_notes() -> None:
    for result in (small(), pair()):
        drawn = result._repr_html_()
        assert drawn == fragment(result)
        tags = {tag for tag, _ in Elements(drawn).found}
        assert tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "br", "ul", "li"}
        assert "4224 MACs" in drawn or ">4224</td>" in drawn
        assert "ounted in a real run" in drawn
        assert not re.search(r"color: *(#|black|white)|background", drawn), "the colours are those around it"


def test_a_notebook_takes_no_name_for_markup() -> None:
    for result in (hostile(), Comparison(hostile(), (small(),))):
        html = result._repr_html_()
        assert html is not None
        elements = Elements(html)
        assert {tag for tag, _ in elements.found} <= {
            "table",
            "caption",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "br",
            "ul",
            "li",
        }
        html.encode("utf-8")
        assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("inputs", "shown"),
    [
        ("ModelInputs(Tensor(1, 3), mask=Tensor(1,))", "Tensor(1, 3), mask=Tensor(1,)"),
        ("TensorSpec(1, 3)", "TensorSpec(1, 3)"),
    ],
)
def test_inputs_and_the_time_of_a_report_are_written_for_readers(inputs: str, shown: str) -> None:
    page = render(replace(small(), inputs=inputs, created="2026-11-24T06:39:30+00:00"), "html")
    assert f">{shown}</" in page
    assert ">2026-11-24 06:39:30 UTC</" in page


def test_a_reason_stands_on_its_card() -> None:
    for state, value, said in (
        (Completeness.PARTIAL, 3, '<p class="reason">Not counted: one; two</p>'),
        (Completeness.FAILED, None, '<dd><span class="badge failed">failed</span> one; two</dd>'),
    ):
        told = status("a", value, "3", completeness=state, missing=("one", "two"))
        assert said in render(replace(empty(), statuses={"a": told}), "html")
    assert HOSTILE_NAMES[0] not in render(hostile(), "html")


def test_the_sources_of_the_page_are_in_the_wheel() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    assert settings["options.package_data"]["profilerkit_pages"] == f"{PAGE.name}/*"


def test_one_error_is_written_once() -> None:
    """Three metrics failed of one reason, which is neither written three times nor as a note again."""
    why = "the model raised RuntimeError: shapes do not fit"
    records = {
        key: status(key, None, "", completeness=Completeness.FAILED, missing=(why,))
        for key in ("macs", "flops", "time")
    }
    page = render(replace(empty(), statuses=records), "html")
    shown = page.partition("<script")[0]
    assert shown.count(why) == 1
    assert "<dt>Macs, Flops, Time</dt>" in shown
