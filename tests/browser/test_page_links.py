"""Links to what is looked at, and the rows as files."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browsing import Open, browser, column, visit, wait_until
from page_reports import empty, hostile, layer_table, many, pair, small, status
from playwright.sync_api import Page

from profilerkit import Comparison, Scale

pytestmark = pytest.mark.slow

__all__ = ["browser", "visit"]


def fragment(page: Page) -> str:
    text: str = page.evaluate("location.hash")
    return text


def test_a_link_has_the_filter_the_order_the_zoom_and_the_layer(visit: Open) -> None:
    page = visit(small())
    assert fragment(page) == ""
    page.locator("#layers").get_by_role("searchbox").fill("block")
    page.locator("#layers [data-key=macs]").click()
    page.locator("#map .icicle").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("#map").get_by_label("Sized by").select_option("params")
    assert fragment(page) == "#q=block&sort=-macs&layer=block&zoom=block&size=params"
    page.reload()
    assert page.locator("#layers").get_by_role("searchbox").input_value() == "block"
    assert column(page, "path") == ["(model)", "block", "first", "act"]
    assert page.locator("#layers th[aria-sort=descending]").count() == 1
    assert page.locator("#layers tr[aria-selected=true] .name").inner_text() == "block"
    assert page.locator("#map .trail [aria-current]").inner_text() == "block"
    assert "Params 144" in page.locator("#map .trail").inner_text()
    assert page.locator(".chosen-facts h3").inner_text() == "block"


def test_a_link_to_a_section_keeps_the_rest(visit: Open) -> None:
    page = visit(many(45))
    page.locator("#layers").get_by_label("Rows").select_option("leaves")
    page.get_by_role("link", name="Layers", exact=True).click()
    wait_until(page, "location.hash === '#layers&rows=leaves'")
    page.reload()
    assert page.locator("#layers").get_by_label("Rows").input_value() == "leaves"
    wait_until(page, "Math.abs(document.getElementById('layers').getBoundingClientRect().top) < 100")


def test_an_address_that_is_changed_by_hand_is_followed(visit: Open) -> None:
    page = visit(small())
    page.evaluate("location.hash = '#q=second&weights=true&table=By+type'")
    wait_until(page, "document.querySelector('#layers input[type=search]').value === 'second'")
    assert column(page, "path") == ["(model)", "second"]
    assert page.get_by_label("With the weights").is_checked()
    assert column(page, "name", "#tables") == ["Conv2d", "Linear", "Net", "Sequential", "ReLU"]


@pytest.mark.parametrize(
    "text", ["#%E0%A4%A", "#sort=__proto__&zoom=no&layer=<b>&size=x&rows=y&model=9", "#=&&=1", "#tip"]
)
def test_an_address_of_nothing_is_harmless(visit: Open, text: str) -> None:
    page = visit(pair())
    page.evaluate("(text) => { location.hash = text; }", text)
    page.reload()
    assert column(page, "path") == ["(model)", "block", "first", "act", "second"]


def test_a_link_has_the_model_and_the_form_of_a_comparison(visit: Open) -> None:
    page = visit(pair())
    page.get_by_label("Model", exact=True).select_option("1")
    page.get_by_label("Differences only").check()
    page.locator("#sides [data-key=params]").click()
    page.reload()
    assert column(page, "path") == ["(model)", "block", "first", "second", "third"]
    assert "4 of 6 layers" in page.locator("#sides .count").inner_text()
    assert page.locator("#sides th[aria-sort=descending]").count() == 1
    page.locator("#sides").get_by_label("As").select_option("maps")
    page.reload()
    assert page.locator("#sides .icicle").count() == 2


def test_a_choice_that_is_drawn_again_keeps_the_focus(visit: Open) -> None:
    """Keys go on where the choice makes the tools around it anew."""
    page = visit(Comparison(pair().reference, (*pair().others, small("Twin"))))
    for name, value in (
        ("As", "maps"),
        ("As", "table"),
        ("Beside the reference", "1"),
        ("Model", "1"),
        ("Table", "By type"),
    ):
        page.get_by_label(name, exact=True).focus()
        page.get_by_label(name, exact=True).select_option(value)
        focus = page.evaluate("[document.activeElement.labels[0].textContent, document.activeElement.value]")
        assert focus == [name, value]


def download(page: Page, name: str, where: str = "#layers") -> tuple[str, str]:
    """Return the name and the text of a file that a button saves."""
    with page.expect_download() as waiting:
        page.locator(where).get_by_role("button", name=name, exact=True).click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_text(encoding="utf-8")


def test_the_rows_in_view_are_saved_as_csv(visit: Open) -> None:
    page = visit(small())
    page.locator("#layers").get_by_label("Rows").select_option("leaves")
    page.locator("#layers [data-key=macs]").click()
    name, text = download(page, "CSV")
    assert name == "Layers-Teacher.csv"
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["path"], row["type"], row["macs"]) for row in rows] == [
        ("second", "Conv2d", "4096"),
        ("block.first", "Linear", "128"),
        ("block.act", "ReLU", "0"),
    ]
    assert float(rows[0]["own_forward_seconds"]) == 0.001


def test_rows_and_metrics_are_saved_as_json(visit: Open) -> None:
    name, text = download(visit(small()), "JSON")
    assert name == "Layers-Teacher.json"
    saved: dict[str, Any] = json.loads(text)
    assert saved["metrics"]["macs"] == {"value": 4224, "unit": "MACs", "completeness": "complete"}
    assert saved["metrics"]["energy"]["value"] is None
    assert saved["metrics"]["energy"]["missing"] == ["no counter here"]
    assert [row["macs"] for row in saved["layers"]] == [4224, 128, 128, 0, 4096]
    sides = json.loads(download(visit(pair()), "JSON", "#sides")[1])
    assert (sides["reference"], sides["other"]) == ("Teacher", "Student")
    assert [row["change"] for row in sides["layers"]] == ["changed", "same", "same", "removed", "changed", "added"]


def test_numbers_that_a_browser_would_round_are_saved_exactly(visit: Open) -> None:
    """2**53 + 1 is the first integer that a double lacks; a spreadsheet computes no infinite time."""
    large = 2**53 + 1
    layers = layer_table([("", "Net", large, 1)], forward_seconds={"": -math.inf})
    record = status("total_params", large, "9.007 P", scale=Scale.SI)
    page = visit(replace(empty(), layers=layers, statuses={"total_params": record}))
    assert column(page, "params") == ["9.007 P"]
    (row,) = csv.DictReader(io.StringIO(download(page, "CSV")[1]))
    assert (row["params"], row["forward_seconds"]) == ("9007199254740993", "-inf")
    saved = json.loads(download(page, "JSON")[1])
    assert (saved["layers"][0]["params"], saved["metrics"]["total_params"]["value"]) == (str(large), str(large))


def test_saved_text_is_no_formula(visit: Open) -> None:
    """A type that a spreadsheet would compute has an apostrophe; commas and quotes stay in their cell."""
    layers = layer_table([("", "=1+1", 0, 1), ("a,b", 'Say "x"', 0, 1), ("c", " \uff1d1+1", 0, 1)])
    _, text = download(visit(replace(empty(), layers=layers)), "CSV")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["path"], row["type"]) for row in rows] == [("", "'=1+1"), ("a,b", 'Say "x"'), ("c", "' \uff1d1+1")]
    name, _ = download(visit(hostile()), "CSV")
    assert "/" not in name
    assert len(name) <= 84


def test_the_second_of_three_models_is_looked_at_by_a_link(visit: Open) -> None:
    page = visit(Comparison(small(), (*pair().others, small("Twin"))))
    page.evaluate("location.hash = '#model=1&beside=1'")
    page.reload()
    assert column(page, "path") == ["(model)", "block", "first", "second", "third"]
    assert column(page, "change", "#sides") == ["same"] * 5
