"""The top of a page: cards, what is better and worse, and the layers that take the most."""

from __future__ import annotations

from dataclasses import replace

import pytest
from browsing import Open, browser, column, visit
from page_reports import empty, pair, small, status

from profilerkit import Comparison

pytestmark = pytest.mark.slow

__all__ = ["browser", "visit"]


def test_definitions_are_behind_a_mark(visit: Open) -> None:
    page = visit(small())
    card = page.locator(".card", has_text="Macs")
    assert "What macs is." not in card.inner_text()
    mark = card.get_by_label("What is Macs?")
    mark.focus()
    page.keyboard.press("Enter")
    assert "What macs is." in card.inner_text()


def test_cards_are_values_and_the_rest_is_in_lines(visit: Open) -> None:
    """A table is no value, and neither is what failed or is not there."""
    page = visit(small())
    titles = page.locator(".card h3").all_inner_texts()
    assert titles == ["Total Params", "Macs", "Execution Time", "Flops"]
    assert page.locator("#summary .tables:not(.absent)").count() == 0, "a table is below, and needs no line here"
    without = page.locator("#summary .without div").all_inner_texts()
    assert [" ".join(line.split()) for line in without] == [
        "Energy unavailable no counter here",
        "Crashed failed ValueError: it broke",
    ]


def test_many_cards_are_behind_one_line(visit: Open) -> None:
    """Twelve values: eight in view, and four behind the line. Of ten all are in view."""
    records = {f"m{index}": status(f"m{index}", index + 1, str(index + 1)) for index in range(12)}
    page = visit(replace(empty(), statuses=records))
    assert page.locator(".card:visible").count() == 8
    page.get_by_text("4 more values").click()
    assert page.locator(".card:visible").count() == 12
    ten = visit(replace(empty(), statuses=dict(list(records.items())[:10])))
    assert ten.locator(".card:visible").count() == 10


def test_better_and_worse_have_words_and_colors(visit: Open) -> None:
    """Of 4224 MACs to 2176 it is 1.941 times less; the other way round as much more, and worse."""
    ground = "(node) => getComputedStyle(node).color"
    better = visit(pair()).locator(".card", has_text="Macs").locator(".better")
    assert better.inner_text() == "1.941x less, better"
    both = pair()
    worse = visit(Comparison(both.others[0], (both.reference,))).locator(".card", has_text="Macs").locator(".better")
    assert worse.inner_text() == "1.941x more, worse"
    assert better.evaluate(ground) != worse.evaluate(ground)


def test_the_layers_that_take_most_are_below_the_map(visit: Open) -> None:
    """Two layers of 1 ms of their own each, whose shares are halves; of MACs 4096 and 128, of 4224."""
    page = visit(small())
    assert column(page, "name", "#tables") == ["second", "block.first"], "of one time, the one with more MACs"
    assert column(page, "forward_seconds", "#tables") == ["1 ms", "1 ms"]
    shares = page.locator("#tables td.bar-cell").evaluate_all(
        "(cells) => cells.map((cell) => cell.style.getPropertyValue('--part'))"
    )
    assert shares[:3] == ["50.00%", "96.97%", "96.97%"], "forward, MACs, FLOPs"
    assert page.locator("#map").bounding_box()["y"] < page.locator("#tables").bounding_box()["y"]  # type: ignore[index]
    page.locator("#tables tbody tr", has_text="block.first").click()
    assert page.locator("#layers tr[aria-selected=true] .name").inner_text() == "first"
    assert page.locator("#tables tr[aria-selected=true] .name").inner_text() == "block.first"


def test_layers_that_were_not_timed_are_ranked_by_their_work(visit: Open) -> None:
    page = visit(small(timed=False))
    assert column(page, "name", "#tables") == ["second", "block.first"]
    assert page.locator("#tables td[data-key=forward_seconds]").count() == 0
    assert visit(empty()).locator("#tables").is_hidden()
