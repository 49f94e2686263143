"""The top of a page: cards, what is better and worse, and the layers that take the most."""

from __future__ import annotations

from dataclasses import replace

import pytest
from browsing import Open, browser, visit
from page_reports import empty, pair, small, status

from profilerkit import Comparison, Completeness, Scale

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


def test_metrics_of_one_value_share_a_card(visit: Open) -> None:
    """Unless one of them is not complete, in another unit, or another number."""
    given = [
        status("all", 7, "7"),
        status("trainable", 7, "7"),
        status("other", 8, "8"),
        status("partial", 7, "7", completeness=Completeness.PARTIAL, missing=("one",)),
        status("bytes", 7, "7", base_unit="B", scale=Scale.IEC),
    ]
    page = visit(replace(empty(), statuses={record.key: record for record in given}))
    assert page.locator(".card h3").all_inner_texts() == ["All, Trainable", "Other", "Partial", "Bytes"]


def test_better_and_worse_have_words_and_colors(visit: Open) -> None:
    """Of 4224 MACs to 2176 it is 1.941 times less; the other way round as much more, and worse."""
    ground = "(node) => getComputedStyle(node).color"
    better = visit(pair()).locator(".card", has_text="Macs").locator(".better")
    assert better.inner_text() == "1.941x less, better"
    both = pair()
    worse = visit(Comparison(both.others[0], (both.reference,))).locator(".card", has_text="Macs").locator(".better")
    assert worse.inner_text() == "1.941x more, worse"
    assert better.evaluate(ground) != worse.evaluate(ground)


def test_the_slowest_layers_are_on_top(visit: Open) -> None:
    """Two layers of 1 ms of their own each; of MACs 4096 and 128."""
    page = visit(small())
    bars = page.locator("#slowest .ranking button")
    assert [" ".join(text.split()) for text in bars.all_inner_texts()] == [
        "block.first Linear 1 ms 50.0 %",
        "second Conv2d 1 ms 50.0 %",
    ]
    assert page.locator("#slowest").bounding_box()["y"] < page.locator("#map").bounding_box()["y"]  # type: ignore[index]
    page.locator("#slowest").get_by_label("By").select_option("macs")
    assert page.locator("#slowest h2").inner_text() == "Layers with the most MACs of their own"
    assert [" ".join(text.split()) for text in bars.all_inner_texts()] == [
        "second Conv2d 4.096 k 97.0 %",
        "block.first Linear 128 3.0 %",
    ]
    widths = page.locator("#slowest .track i").evaluate_all("(parts) => parts.map((part) => part.style.width)")
    assert widths == ["100%", "3.13%"], "128 of 4096"
    bars.first.press("Enter")
    assert page.locator("#layers tr[aria-selected=true] .name").inner_text() == "second"
    assert bars.first.get_attribute("aria-pressed") == "true"


def test_layers_that_were_not_timed_are_ranked_by_their_work(visit: Open) -> None:
    page = visit(small(timed=False))
    assert page.locator("#slowest h2").inner_text() == "Layers with the most MACs of their own"
    assert page.locator("#slowest .ranking li").count() == 2
    assert visit(empty()).locator("#slowest").is_hidden()


def test_forward_and_backward_are_parts_of_a_bar(visit: Open) -> None:
    report = small()
    table = report["layer_times"]
    rows = [{**row, "own_backward_seconds": 3 * row["own_forward_seconds"]} for row in table]
    both = replace(report.statuses["layer_times"], value=type(table)(rows))
    page = visit(replace(report, statuses={**report.statuses, "layer_times": both}))
    assert "1 ms" in page.locator("#slowest .ranking li").first.inner_text(), "forward alone at first"
    page.locator("#slowest").get_by_label("By").select_option("time")
    first = page.locator("#slowest .ranking li").first
    assert "4 ms" in first.inner_text()
    assert first.locator("i").evaluate_all("(parts) => parts.map((part) => part.style.width)") == ["25%", "75%"]


def test_shares_are_of_the_model_as_in_the_notes(visit: Open) -> None:
    """1 ms of its own in each of two layers, and 4 ms of the model: medians need not add up."""
    report = small()
    table = report["layer_times"]
    rows = [{**row, "forward_seconds": 4e-3} if not row["path"] else row for row in table]
    longer = replace(report.statuses["layer_times"], value=type(table)(rows))
    page = visit(replace(report, statuses={**report.statuses, "layer_times": longer}))
    bars = page.locator("#slowest .ranking button").all_inner_texts()
    assert [text.split()[-2:] for text in bars] == [["25.0", "%"], ["25.0", "%"]]
    assert "with 50.0 % of the model" in page.locator("#slowest .lead").inner_text()
