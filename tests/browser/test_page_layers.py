"""The layers on a page: the table by mouse and keyboard, the map, and two models side by side."""

from __future__ import annotations

import pytest
from browsing import Open, browser, column, visit
from page_reports import SMALL, many, pair, small, with_bounds
from playwright.sync_api import Page

from profilerkit import Comparison

pytestmark = pytest.mark.slow

__all__ = ["browser", "visit"]

PATHS = ["(model)", "block", "first", "act", "second"]


def chosen(page: Page) -> str:
    """Return the name of the row that the keyboard is at."""
    script = """() => {
        const grid = document.querySelector('#layers [role=treegrid]');
        return document.getElementById(grid.getAttribute('aria-activedescendant')).querySelector('.name').textContent;
    }"""
    found: str = page.evaluate(script)
    return found


def test_sorting_changes_the_order_and_says_so(visit: Open) -> None:
    page = visit(small())
    assert column(page, "path") == PATHS
    head = page.locator("#layers th", has=page.locator("[data-key=params]"))
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, "path") == ["(model)", "block", "first", "act", "second"], "layers stay inside their own"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, "path") == ["(model)", "second", "block", "act", "first"]
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert column(page, "path") == PATHS
    page.locator("#layers [data-key=macs]").click()
    page.locator("#layers").get_by_label("Rows").select_option("flat")
    assert column(page, "macs") == ["4.224 k", "4.096 k", "128", "128", "-"]
    page.locator("#layers [data-key=path]").click()
    assert column(page, "path") == ["(model)", "block", "block.act", "block.first", "second"]


def test_a_count_that_is_a_bound_has_its_sign(visit: Open) -> None:
    page = visit(with_bounds())
    assert column(page, "macs") == ["≥ 4.224 k", "≤ 128", "~ 128", "≤ 7", "4.096 k"]
    page.locator("#layers tr", has_text="second").click()
    facts = page.locator(".chosen-facts").inner_text()
    assert "4.096 k" in facts
    assert "4.096 k (97.0" not in facts, "of bounds there is no share"
    page.locator("#map").get_by_label("Sized by").select_option("macs")
    assert page.locator("#map .trail").inner_text().endswith("MACs ≥ 4.224 k")


def test_the_filter_keeps_what_is_around_a_match(visit: Open) -> None:
    page = visit(small())
    page.locator("#layers").get_by_role("searchbox").fill("RELU")
    assert column(page, "path") == ["(model)", "block", "act"]
    assert "1 of 5 layers" in page.locator("#layers .count").inner_text()
    page.locator("#layers").get_by_role("searchbox").fill("nothing like it")
    assert column(page, "path") == []
    assert "No layer matches" in page.locator("#layers").inner_text()
    page.locator("#layers").get_by_role("searchbox").fill("")
    assert column(page, "path") == PATHS


def test_layers_open_and_close(visit: Open) -> None:
    page = visit(small())
    page.locator("#layers tr", has_text="Sequential").locator(".twist").click()
    assert column(page, "path") == ["(model)", "block", "second"]
    assert page.locator("#layers tr", has_text="Sequential").get_attribute("aria-expanded") == "false"
    page.locator("#layers").get_by_label("Depth").select_option("0")
    assert column(page, "path") == ["(model)"]
    page.get_by_label("Depth").select_option("1")
    assert column(page, "path") == ["(model)", "block", "second"]
    page.locator("#layers").get_by_label("Depth").select_option("all")
    assert column(page, "path") == PATHS


def test_columns_are_chosen(visit: Open) -> None:
    page = visit(small())
    heads = page.locator("#layers thead th")
    assert "Own MACs" not in heads.all_inner_texts()
    page.locator("#layers summary").click()
    page.get_by_label("Own MACs").check()
    assert column(page, "own_macs") == ["-", "-", "128", "-", "4.096 k"]
    page.get_by_label("Calls").uncheck()
    assert "Calls" not in heads.all_inner_texts()
    page.get_by_label("Bytes moved").check()
    assert column(page, "bytes_moved") == ["640 B", "384 B", "128 B", "128 B", "128 B"]


def test_the_table_by_keyboard(visit: Open) -> None:
    page = visit(small())
    grid = page.locator("#layers [role=treegrid]")
    grid.focus()
    assert page.evaluate("document.activeElement.matches(':focus-visible')")
    steps = [
        ("ArrowDown", "block"),
        ("ArrowRight", "first"),
        ("ArrowLeft", "block"),
        ("ArrowLeft", "block"),
        ("ArrowDown", "second"),
        ("ArrowUp", "block"),
        ("ArrowRight", "block"),
        ("ArrowDown", "first"),
        ("End", "second"),
        ("Home", "(model)"),
        ("PageDown", "second"),
        ("PageUp", "(model)"),
        ("ArrowUp", "(model)"),
    ]
    for key, at in steps:
        page.keyboard.press(key)
        assert chosen(page) == at, key
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert page.locator("#layers tr[aria-selected=true] .name").inner_text() == "second"
    assert page.locator("#layers tr[aria-level='2']").count() == 2
    page.set_viewport_size({"width": 500, "height": 800})
    page.keyboard.press("Shift+ArrowRight")
    assert page.locator("#layers .scroll").evaluate("(node) => node.scrollLeft") > 0


def test_the_map_by_keyboard(visit: Open) -> None:
    page = visit(small(timed=False))
    said, here = page.locator("#map .said"), page.locator("#map .trail [aria-current]")
    assert page.locator("#map .piece").count() == 4, "ReLU has no MACs"
    page.locator("#map .icicle").focus()
    for key, at in [
        ("ArrowDown", "block"),
        ("ArrowRight", "second"),
        ("ArrowLeft", "block"),
        ("ArrowDown", "block.first"),
    ]:
        page.keyboard.press(key)
        assert said.inner_text().partition(",")[0] == at
    assert "MACs 128, 3.0\u00a0%" in said.inner_text()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert here.inner_text() == "block"
    assert page.locator("#layers tr[aria-selected=true] .name").inner_text() == "block"
    page.keyboard.press("Escape")
    assert here.inner_text() == "(model)"
    page.get_by_label("Sized by").select_option("params")
    assert "Params 212" in page.locator("#map .trail").inner_text()
    sizes = page.locator("#map option").all_inner_texts()
    assert sizes == ["Params", "MACs", "FLOPs", "Bytes read", "Bytes written", "Bytes moved"]
    timed = visit(small())
    assert timed.get_by_label("Sized by").input_value() == "forward_seconds"
    assert "Forward 2 ms, 100.0\u00a0%" in timed.locator("#map .trail").inner_text()


def test_the_map_by_mouse(visit: Open) -> None:
    """The second row of the icicle is `block`, of 3 % of the MACs, and then `second`."""
    page = visit(small(timed=False))
    icicle, here = page.locator("#map .icicle"), page.locator("#map .trail [aria-current]")
    icicle.hover(position={"x": 600, "y": 40})
    assert "second" in page.locator("#tip").inner_text()
    assert "97.0\u00a0%" in page.locator("#tip").inner_text()
    icicle.click(position={"x": 10, "y": 40})
    assert here.inner_text() == "block"
    assert page.locator("#layers tr[aria-selected=true] .name").inner_text() == "block"
    page.locator("#map .trail button").click()
    assert here.inner_text() == "(model)"


def test_a_layer_that_is_chosen_in_the_table_is_marked_everywhere(visit: Open) -> None:
    page = visit(small())
    assert page.locator("#map .piece.picked").count() == 0
    page.locator("#layers tr", has_text="Conv2d").locator(".name").click()
    assert page.locator("#map .piece.picked").text_content() == "second  Forward 1 ms, 50.0\u00a0%"
    assert page.locator("#memory svg .area-chosen").count() == 1
    assert page.locator("#roofline .dot.picked").count() == 1
    page.locator("#layers").get_by_label("Depth").select_option("0")
    page.locator("#roofline .dot").nth(1).click()
    assert page.locator("#layers tr[aria-selected=true] .name").inner_text() == "first", "it opens what is around it"


def test_ten_thousand_layers_keep_the_document_small(visit: Open) -> None:
    page = visit(many())
    assert "10,001 layers" in page.locator("#layers .count").inner_text()
    page.locator("#layers").get_by_label("Depth").select_option("all")
    scroller = page.locator("#layers .scroll")
    seen = set()
    for part in range(11):
        scroller.evaluate("(node, part) => { node.scrollTop = (node.scrollHeight * part) / 10; }", part)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        rows = page.locator("#layers tbody tr[data-at]").count()
        assert 10 < rows <= 60
        seen.update(
            page.locator("#layers tbody tr[data-at]").evaluate_all("(rows) => rows.map((row) => row.dataset.at)")
        )
        assert page.evaluate("document.querySelectorAll('*').length") < 2500
    assert {"0", "10000"} <= seen
    page.locator("#layers [role=treegrid]").press("End")
    assert chosen(page) == "8"
    page.locator("#layers").get_by_label("Rows").select_option("flat")
    page.locator("#layers [data-key=macs]").click()
    scroller.evaluate("(node) => { node.scrollTop = 0; }")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert column(page, "path")[:2] == ["(model)", "block999"], "999 * 900 + 36 MACs are the most of a block"
    page.locator("#layers").get_by_role("searchbox").fill("block77.3")
    assert column(page, "path") == ["block77.3"]


def test_layers_side_by_side(visit: Open) -> None:
    page = visit(pair())
    assert column(page, "path", "#sides") == ["(model)", "block", "first", "act", "second", "third"]
    assert column(page, "change", "#sides") == ["changed", "same", "same", "removed", "changed", "added"]
    assert column(page, "params_difference", "#sides") == ["-26", "0", "0", "-", "-34", "-"]
    assert column(page, "macs", "#sides")[4] == "4.096 k"
    assert column(page, "macs_other", "#sides")[4] == "2.048 k"
    assert column(page, "forward_seconds_difference", "#sides")[2] == "-500 µs"
    page.get_by_label("Differences only").check()
    assert column(page, "path", "#sides") == ["(model)", "block", "act", "second", "third"]
    assert "4 of 6 layers" in page.locator("#sides .count").inner_text()
    cards = page.locator(".card", has_text="Macs").inner_text()
    assert "Teacher" in cards
    assert "Student" in cards


def test_each_model_of_a_comparison_is_looked_at(visit: Open) -> None:
    page = visit(Comparison(small(), (*pair().others, small("Twin"))))
    assert column(page, "path") == PATHS
    page.get_by_label("Model", exact=True).select_option("1")
    assert page.locator("#which h2").inner_text() == "One model: Student"
    assert column(page, "path") == ["(model)", "block", "first", "second", "third"]
    page.get_by_label("Beside the reference").select_option("1")
    assert column(page, "change", "#sides") == ["same"] * 5
    assert page.locator("#latency tbody tr").count() == 3


@pytest.mark.slow
def test_a_vision_transformer(visit: Open) -> None:
    torch = pytest.importorskip("torch")
    from models import vit_b_16
    from profilerkit import profile

    page = visit(profile(vit_b_16(), torch.zeros(1, 3, 224, 224), metrics=["macs", "total_params", "memory_footprint"]))
    assert "17.56" in page.locator(".card", has_text="MACs").first.inner_text()
    assert page.locator("#memory .peak-name").count() == 1
    page.locator("#layers").get_by_role("searchbox").fill("encoder.11")
    assert len(column(page, "path")) > 5


def test_a_difference_to_a_bound_has_no_colour(visit: Open) -> None:
    """`block.first` has 100 to 200 MACs, of which 128 are counted, and 64 in the other model."""
    slim = [(path, kind, params, macs // 2 if path == "block.first" else macs) for path, kind, params, macs in SMALL]
    page = visit(Comparison(with_bounds(), (small("Student", layers=slim),)))
    assert "~ -64" in page.locator("#sides").inner_text()
    assert page.locator("#sides td.less").count() == 0
