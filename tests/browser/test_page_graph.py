"""The graph of a model on its page: what reads what, boxes that open, and blocks that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from browsing import Open, browser, visit
from page_reports import SMALL, layer_table, small
from playwright.sync_api import Page

from profilerkit import Comparison, Report
from profilerkit.trace.records import LayerTable
from profilerkit.trace.table import Table

pytestmark = pytest.mark.slow

__all__ = ["browser", "visit"]

#: A layer by its path, and the operators before it that it reads.
Step = tuple[str, tuple[int, ...]]


def with_steps(report: Report, steps: Sequence[Step]) -> Report:
    """Return a report whose operators, one for each step, run in these layers and read these others."""
    row = next(iter(report.operators or ()))
    rows = [{**row, "operator": "aten.add.Tensor", "layer": path, "reads": reads, "macs": 0} for path, reads in steps]
    assert report.memory is not None
    live = tuple(range(1, len(rows) + 1))
    return replace(report, operators=Table(rows), memory=replace(report.memory, live_bytes=live))


def residual() -> Report:
    """Return a block of a product and an activation, and a sum with what comes in, which `second` reads."""
    steps = [("block.first", (-1,)), ("block.act", (0,)), ("block", (-1, 1)), ("second", (2,))]
    return with_steps(small(layers=SMALL), steps)


def boxes(page: Page) -> list[str]:
    texts: list[str] = page.locator("#graph .box").evaluate_all(
        "(all) => all.map((box) => [...box.querySelectorAll('tspan')].map((one) => one.textContent).join(' '))"
    )
    return texts


def test_a_click_opens_a_layer_and_closes_it(visit: Open) -> None:
    page = visit(residual())
    assert boxes(page) == ["inputs ", "block Sequential", "first Linear", "act ReLU", "add", "second Conv2d"]
    page.get_by_role("button", name="Close all").click()
    assert boxes(page) == ["inputs ", "block Sequential", "second Conv2d"]
    assert page.locator("#graph .edge").count() == 2
    page.locator("#graph .box", has_text="block").click()
    # The input of the block is read by `first` and by the sum; `act` and `add` follow, and the sum is what comes out.
    assert page.locator("#graph .edge").count() == 2 + 5
    assert page.locator("#layers tr[aria-selected=true] .name").inner_text() == "block"
    page.locator("#graph .box", has_text="block").press("Enter")
    assert page.locator("#graph .edge").count() == 2


def test_a_layer_that_is_called_again_after_others_is_a_box_again(visit: Open) -> None:
    """`act` runs after each of two layers: one box for both calls would read what reads it."""
    steps = [("block.first", (-1,)), ("block.act", (0,)), ("second", (1,)), ("block.act", (2,))]
    page = visit(with_steps(small(), steps))
    page.get_by_role("button", name="Close all").click()
    assert boxes(page) == ["inputs ", "block Sequential", "second Conv2d", "block Sequential"]


def test_blocks_that_are_alike_are_one_box(visit: Open) -> None:
    layers = [("", "Net", 0, 0)]
    for block in range(3):
        layers += [(f"b{block}", "Block", 0, 0), (f"b{block}.fc", "Linear", 4, 16)]
    steps = [(f"b{block}.fc", (block - 1,)) for block in range(3)]
    page = visit(with_steps(small(layers=layers), steps))
    assert boxes(page) == ["inputs ", "b0 … b2 3 x Block"]
    page.locator("#graph .box", has_text="3 x Block").click()
    assert boxes(page) == ["inputs ", "b0 Block", "b1 Block", "b2 Block"]


def test_a_list_that_nobody_calls_is_no_box(visit: Open) -> None:
    """The layers of a list run one by one: each is a box where the list would be one that is met twice."""
    report = with_steps(small(), [("block.first", (-1,)), ("second", (0,)), ("block.act", (1,))])
    rows = [{**row, "calls": 0 if row["path"] == "block" else 2} for row in report.layers or ()]
    page = visit(replace(report, layers=LayerTable(rows)))
    assert boxes(page) == ["inputs ", "block.first Linear", "second Conv2d", "block.act ReLU"]
    assert "in 2 calls" in (page.locator("#graph .box", has_text="second").text_content() or "")


def test_the_box_of_a_chosen_layer_is_marked(visit: Open) -> None:
    page = visit(residual())
    page.locator("#layers tr", has_text="ReLU").locator(".name").click()
    assert page.locator("#graph .box.picked").text_content() == "actReLU[1, 4]"
    page.get_by_role("button", name="Close all").click()
    assert "block" in (page.locator("#graph .box.picked").text_content() or "")


def test_a_thousand_layers_open_at_once(visit: Open) -> None:
    """Each of 1000 layers reads the one before it, and every tenth the one ten before: nothing is left out."""
    layers = [("", "Net", 0, 0), *((f"l{index}", "Linear", index, index) for index in range(1000))]
    steps = [
        (f"l{index}", (index - 10, index - 1) if index % 10 == 0 and index else (index - 1,)) for index in range(1000)
    ]
    report = with_steps(replace(small(), layers=layer_table(layers), statuses={}), steps)
    page = visit(report)
    page.get_by_role("button", name="Open all").click()
    assert page.locator("#graph svg").get_attribute("data-boxes") == "1001"
    assert page.locator("#graph .edge").count() == 1000 + 99


def test_of_a_wide_graph_the_inputs_are_in_view(visit: Open) -> None:
    """Twenty branches read the inputs, and a sum reads them all: the inputs stand above the middle of them."""
    branches = [(f"a_branch_with_quite_a_long_name_{number}", "Conv2d", 4, 8) for number in range(20)]
    layers = (("", "Net", 0, 0), *branches)
    steps = [*((path, (-1,)) for path, *_ in branches), ("", tuple(range(20)))]
    page = visit(with_steps(small(layers=layers), steps), viewport={"width": 1280, "height": 900})
    scroller, inputs = page.locator("#graph .scroll"), page.locator("#graph .box").first
    assert scroller.evaluate("(node) => node.scrollWidth > 2 * node.clientWidth")
    room, box = scroller.bounding_box(), inputs.bounding_box()
    assert room is not None
    assert box is not None
    assert room["x"] < box["x"] < box["x"] + box["width"] < room["x"] + room["width"]


def test_a_graph_fits_the_screen_and_its_arrows_end_at_what_reads(visit: Open) -> None:
    """Of 60 layers one after the other nothing is scrolled to, once the graph fits; each has one arrow into it."""
    layers = [("", "Net", 0, 0), *((f"part{index}", "Linear", index + 1, 8) for index in range(60))]
    steps = [(f"part{index}", (index - 1,)) for index in range(60)]
    page = visit(with_steps(small(layers=layers), steps))
    heights = "node => [node.scrollHeight, node.clientHeight]"
    whole, seen = page.locator("#graph .scroll").evaluate(heights)
    assert whole > 2 * seen
    page.locator("#graph").get_by_label("Fit").check()
    whole, seen = page.locator("#graph .scroll").evaluate(heights)
    assert whole == seen
    assert page.locator("#graph .edge[marker-end]").count() == page.locator("#graph .edge").count() == 60
    widths = page.locator("#graph .box").evaluate_all(
        "(all) => all.map((box) => box.querySelector('rect').getBBox().width - box.getBBox().width)"
    )
    assert max(map(abs, widths)) < 1, "no text is wider than its box"


def test_a_comparison_has_equal_facts_once(visit: Open) -> None:
    page = visit(Comparison(small(), (small("Other"),)))
    assert page.locator(".identity dt", has_text="Backend").count() == 1
    assert page.locator(".about h2").all_inner_texts() == ["Teacher reference", "Other"]


def test_the_roofline_says_what_its_colors_mean(visit: Open) -> None:
    page = visit(small())
    dots = page.locator("#roofline .dot").evaluate_all("(all) => new Set(all.map((dot) => dot.classList[1])).size")
    assert page.locator("#roofline .legend li").count() == dots
