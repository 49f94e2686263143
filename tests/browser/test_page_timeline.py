"""The timeline of a pass: where its boxes lie on the axis of time, what they say, and how one zooms."""

from __future__ import annotations

import pytest
from browsing import Open, browser, visit
from page_reports import small, with_operator_times
from playwright.sync_api import Page

pytestmark = pytest.mark.slow

__all__ = ["browser", "visit"]


def boxes(page: Page) -> dict[str, tuple[float, float, int]]:
    """Return by label the start and the width of each box in percent of the picture, and its level."""
    script = """(pieces) => pieces.map((piece) => {
        piece.dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
        const [left, width, top] = ["left", "width", "top"].map((name) => parseFloat(piece.style[name]));
        const rounded = [left, width].map((percent) => Math.round(10 * percent) / 10);
        return [document.querySelector("#tip div").textContent, ...rounded, top / 26];
    })"""
    pieces = page.locator("#timeline .piece").evaluate_all(script)
    page.mouse.move(0, 0)
    return {label: (start, width, level) for label, start, width, level in pieces}


def point_at(page: Page, percent: float, level: int, click: bool = False) -> None:
    """Move to, or click on, what lies at a time, in percent of the picture."""
    place = page.locator("#timeline .icicle").bounding_box()
    assert place is not None
    x, y = place["width"] * percent / 100, 26 * level + 12
    if click:
        page.locator("#timeline .icicle").click(position={"x": x, "y": y})
    else:
        page.locator("#timeline .icicle").hover(position={"x": x, "y": y})


def ticks(page: Page) -> list[str]:
    return page.locator("#timeline .clock span").all_text_contents()


def test_operators_stand_one_after_the_other_in_their_layers(visit: Open) -> None:
    """10 ms: block has 3 + 1 + 0.5, second 3.5, and the model itself 2."""
    page = visit(with_operator_times(backward=False))
    assert boxes(page) == {
        "(model)": (0, 100, 0),
        "block": (0, 45, 1),
        "block.first": (0, 30, 2),
        "2 x mm in block.first": (0, 30, 3),
        "block.act": (30, 10, 2),
        "relu in block.act": (30, 10, 3),
        "odd in block": (40, 5, 2),
        "second": (45, 35, 1),
        "conv in second": (45, 35, 2),
        "cat in (model)": (80, 20, 1),
    }
    assert ticks(page) == ["0 s", "2 ms", "4 ms", "6 ms", "8 ms", "10 ms"]
    point_at(page, 50, 2)
    assert page.locator("#tip div").all_inner_texts() == [
        "conv in second",
        "Conv2d",
        "Time 3.5 ms, 35.0\u00a0%",
        "MACs 4.096 k",
    ]
    point_at(page, 42, 2)
    lines = ["odd in block", "Sequential", "Time 500 µs, 5.0\u00a0%", "MACs not known", "no formula"]
    assert page.locator("#tip div").all_inner_texts() == lines
    point_at(page, 35, 3)
    assert "MACs 0" in page.locator("#tip div").all_inner_texts()


def test_a_click_zooms_in_on_the_same_clock(visit: Open) -> None:
    """Backward begins at 10 ms: second takes 6 ms of it, and block behind it 4."""
    page = visit(with_operator_times())
    point_at(page, 75, 1, click=True)
    found = boxes(page)
    assert found["conv_back in second"] == (0, 60, 2)
    assert found["block"] == (60, 40, 1)
    assert (ticks(page)[0], ticks(page)[-1]) == ("10 ms", "20 ms")
    point_at(page, 80, 1, click=True)
    assert boxes(page)["mm_back in block.first"] == (0, 100, 2)
    assert (ticks(page)[0], ticks(page)[-1]) == ("16 ms", "20 ms")
    assert page.locator("#layers tr[aria-selected=true] .name").inner_text() == "block"
    page.locator("#timeline .trail button").first.click()
    assert boxes(page)["2 x mm in block.first"] == (0, 15, 4)


def test_a_layer_that_is_chosen_elsewhere_is_marked(visit: Open) -> None:
    page = visit(with_operator_times())
    marked = page.locator("#timeline .piece.picked")
    assert marked.count() == 0
    point_at(page, 75, 1, click=True)
    page.locator("#tables tbody tr", has_text="second").click()
    assert [text.split("  ")[0] for text in marked.all_text_contents()] == ["second"], (
        "backward; forward is not in view"
    )
    assert "conv in second" not in boxes(page), "it is in the picture already"
    page.locator("#layers tbody tr", has_text="act").click()
    assert "relu in block.act" in boxes(page), "zoomed out as far as it takes: it has no time backward"


def test_the_colors_are_those_of_the_map(visit: Open) -> None:
    """Operators of a layer that has others inside share the color of other types: those of block and the model."""
    page = visit(with_operator_times(backward=False))
    colors = """(items) => Object.fromEntries(items.map((item) => [item.textContent, item.firstChild.className]))"""
    of_map, of_timeline = (page.locator(f"#{key} .legend li").evaluate_all(colors) for key in ("map", "timeline"))
    assert of_timeline == {**of_map, "2 other types": "swatch c9"}


def test_without_times_of_operators_there_is_no_section(visit: Open) -> None:
    page = visit(small())
    assert page.locator("#timeline").is_hidden()
    assert "Timeline" not in page.locator(".sections").inner_text()


def test_a_phone_shows_the_timeline(visit: Open) -> None:
    page = visit(with_operator_times(), viewport={"width": 360, "height": 740})
    assert boxes(page)["backward in (model)"] == (50, 50, 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
