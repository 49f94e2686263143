"""Pages on screens of every width, and on paper: nothing is cut off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from browsing import Open, browser, column, list_cut_numbers, visit, wait_until
from page_reports import layer_table, many, odd_numbers, pair, small, status, with_bounds, with_operator_times
from playwright.sync_api import Page

from profilerkit import Comparison, Report

pytestmark = pytest.mark.slow

__all__ = ["browser", "visit"]

#: Millimetres to the pixels of a style sheet: 96 for each inch.
PIXELS = 96 / 25.4
A4, MARGIN = (210 * PIXELS, 297 * PIXELS), 12 * PIXELS


def wide(name: str = "Wide", kind: str = "QuantizedConvolution2dWithBias") -> Report:
    """Return a report with long names and every column that a page shows at first."""
    layers = [("", "Net", 0, 0), *((f"block{index}", kind, 10**9 * index, 10**12) for index in range(1, 30))]
    table = layer_table(layers)
    times = [
        {**row, "forward_seconds": 0.123456, "backward_seconds": 0.234567, "own_forward_seconds": 0.1, "missing": ""}
        for row in table
    ]
    shaped = [{**row, "output_shapes": ((1, 1024, 112, 112), (1, 1024, 112, 112))} for row in times]
    return replace(small(name), layers=type(table)(shaped), operators=None, memory=None)


def overflow(page: Page) -> list[int]:
    """Return by how many pixels each table, and then the page, is wider than its room."""
    script = """() => [...document.querySelectorAll('.scroll'), document.documentElement].map(
        (node) => node.scrollWidth - node.clientWidth)"""
    found: list[int] = page.evaluate(script)
    return found


@pytest.mark.parametrize("width", [1280, 1440, 1920])
def test_columns_fit(visit: Open, width: int) -> None:
    size = {"viewport": {"width": width, "height": 900}}
    assert not any(overflow(visit(wide(), **size)))
    both = Comparison(wide("A teacher with a long name"), (wide("A student with a long name"),))
    page = visit(both, **size)
    assert page.locator("#sides [role=treegrid]").count() == 1
    assert not any(overflow(page))


@pytest.mark.parametrize("width", [1280, 800, 390])
@pytest.mark.parametrize("kind", ["wide", "bounds", "odd", "operators", "pair"])
def test_no_number_is_cut(visit: Open, kind: str, width: int) -> None:
    """Half of a number would be another one: a column is as wide as its longest, on a screen and on paper."""
    results: dict[str, Any] = {"wide": wide(), "bounds": with_bounds(), "odd": odd_numbers(), "pair": pair()}
    page = visit(results.get(kind) or with_operator_times(), viewport={"width": width, "height": 900})
    assert page.locator("td.number").count() > 0
    assert list_cut_numbers(page) == []
    print_page(page)
    assert list_cut_numbers(page) == []


def test_columns_fit_again_when_a_window_gets_narrower(visit: Open) -> None:
    page = visit(wide(), viewport={"width": 1920, "height": 900})
    assert page.locator("#layers td .share").count() > 0
    page.set_viewport_size({"width": 1300, "height": 900})
    wait_until(page, "document.querySelector('#layers .scroll').scrollWidth <= 1300")
    assert not any(overflow(page))


def test_a_phone_has_all_of_a_layer(visit: Open) -> None:
    """Names stay in view while the rest scrolls, times stand before shapes, and a tap shows every value."""
    page = visit(small(), viewport={"width": 390, "height": 800}, has_touch=True)
    heads = page.locator("#layers thead button").evaluate_all("(heads) => heads.map((head) => head.dataset.key)")
    assert heads == ["path", "params", "macs", "flops", "forward_seconds", "calls", "type", "output_shapes"]
    page.locator("#layers .scroll").evaluate("(node) => { node.scrollLeft = 300; }")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    name = page.locator("#layers tr", has_text="Conv2d").locator(".name")
    assert name.bounding_box()["x"] >= 0  # type: ignore[index]
    name.tap()
    facts = page.locator(".chosen-facts")
    for text in ("second", "Conv2d", "4.096 k (97.0\u00a0%)", "[1, 4]", "Own forward", "1 ms"):
        assert text in facts.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def print_page(page: Page) -> None:
    """Lay a page out as on A4, between the margins of its style sheet."""
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": int(A4[0] - 2 * MARGIN), "height": int(A4[1] - 2 * MARGIN)})


CUT_OFF = """() => [...document.querySelectorAll('main *')].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width && getComputedStyle(node).visibility !== 'hidden' && box.right > innerWidth + 1;
}).map((node) => `${node.tagName} ${node.className} ${node.textContent.slice(0, 30)}`)"""


@pytest.mark.parametrize("kind", ["small", "wide", "pair", "maps"])
def test_paper_has_all_of_a_page(visit: Open, kind: str) -> None:
    """Opened on a wide screen: nothing lies right of the paper, and no table has more than what is in view."""
    results: dict[str, Any] = {"small": small(), "wide": wide(), "pair": pair(), "maps": unlike()}
    page = visit(results[kind], viewport={"width": 1920, "height": 900})
    print_page(page)
    assert page.evaluate(CUT_OFF) == []
    hidden = page.locator("main .scroll").evaluate_all(
        "(all) => all.map((node) => [node.scrollWidth - node.clientWidth, node.scrollHeight - node.clientHeight])"
    )
    assert all(across <= 1 and down <= 1 for across, down in hidden)
    assert page.locator(".top").is_hidden()


def test_paper_has_every_row_and_the_definitions(visit: Open) -> None:
    page = visit(many(100))
    page.locator("#layers").get_by_label("Depth").select_option("all")
    print_page(page)
    assert page.locator("#layers tbody tr[data-at]").count() == 1001
    page = visit(small())
    print_page(page)
    assert page.get_by_text("What macs is.").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.get_by_text("What macs is.").is_hidden()


def test_paper_has_what_is_behind_a_line(visit: Open) -> None:
    """Four of twelve values, and the environment."""
    records = {f"m{index}": status(f"m{index}", index + 1, str(index + 1)) for index in range(12)}
    page = visit(replace(small(), statuses=records))
    assert page.get_by_text("somewhere").is_hidden()
    print_page(page)
    assert page.locator(".card:visible").count() == 12
    assert page.get_by_text("somewhere").is_visible()


def test_a_printed_file_is_a4_wide(visit: Open) -> None:
    """Two pages hold a small report; the format is the one that was asked for."""
    text = visit(small()).pdf(format="A4").decode("latin-1")
    assert text.count("/Type /Page\n") in (1, 2, 3)
    assert "/MediaBox [0 0 594.95996 841.91998]" in text or "/MediaBox [0 0 595.91998 842.88]" in text


def unlike() -> Comparison:
    """Return two models that share their root alone."""
    layers = [("", "Net", 0, 0), *((f"stage{index}", "MaxPool", 0, 7) for index in range(6))]
    return Comparison(small(), (small("Other", layers=layers),))


def test_unlike_models_open_with_their_maps(visit: Open) -> None:
    """One of eleven layers is in both: no table of removals and additions, but two maps on one row."""
    page = visit(unlike())
    assert page.locator("#sides [role=treegrid]").count() == 0
    maps = page.locator("#sides .icicle")
    boxes = [one.bounding_box() for one in maps.all()]
    assert len(boxes) == 2
    assert boxes[0]["y"] == boxes[1]["y"]  # type: ignore[index]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]  # type: ignore[index]
    assert "1 changed, 4 removed, 6 added of 11 layers" in page.locator("#sides .lead").inner_text()
    page.locator("#sides").get_by_label("Sized by").select_option("flops")
    assert "FLOPs 84" in page.locator("#sides").inner_text(), "six layers of 2 * 7"
    maps.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#sides .trail").first.locator("[aria-current]").inner_text() == "block"
    assert page.locator("#layers tr[aria-selected=true]").count() == 0, "these maps choose no layer of one model"
    page.locator("#sides").get_by_label("As").select_option("table")
    assert len(column(page, "change", "#sides")) == 11


def test_removed_and_added_rows_are_not_painted(visit: Open) -> None:
    """A layer that is gone is neither better nor worse: the word has the color. Fewer MACs are better."""
    page = visit(pair())
    grounds = page.locator("#sides tbody tr[data-at] td.type").evaluate_all(
        "(cells) => [...new Set(cells.map((cell) => getComputedStyle(cell).backgroundColor))]"
    )
    assert len(grounds) == 1
    assert page.locator("#sides td.less").count() > 0
    assert page.locator("#sides td.more").count() == 0
