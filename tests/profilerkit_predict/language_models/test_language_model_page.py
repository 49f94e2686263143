"""The page of language models: it has the tables and notes of the text, both figures, and loads nothing."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_language_model import DEVICE, EXPERTS, toy_facts

from profilerkit_predict.language_models import LanguageModelComparison, LanguageModelReport, StepCost
from profilerkit_predict.language_models.engine.fitting import DeviceMemory
from profilerkit_predict.language_models.engine.serving import predict_serving
from profilerkit_predict.language_models.report.notes import ASSUMPTIONS
from profilerkit_predict.language_models.report.tables import list_answers, tabulate_terms

pytest.importorskip("jinja2")


def report(name: str = "Toy", device: Any = DEVICE, **changes: Any) -> LanguageModelReport:
    cost = StepCost(toy_facts(name=name, **changes), device)
    fits = (DeviceMemory(cost, 64, 0.1).fit(8, 20),) if device else ()
    return LanguageModelReport(cost, 16, 4, (predict_serving(cost, 8, 16, 4),), fits)


def test_the_page_has_every_table_and_note() -> None:
    page = report().to_html()
    captions = re.findall(r"<caption>(.*?)</caption>", page)
    assert captions == [
        "Answer",
        "Engine, 16 tokens of prompt and 4 new: 1 x toy (data sheet)",
        "Memory of one device",
        "What fits",
        "Where a step goes, batch 8, on each device",
        "Prompts that arrive at once, run in order: seconds until the first token",
        "Model",
        "Passes as written",
    ]
    assert all(f"<li>{note}</li>" in page for note in ASSUMPTIONS)
    assert f"<td>{16 * 1000 + 100 + 6 * 256:,}</td>" in page


def test_the_first_table_answers() -> None:
    """By hand: 2,600 bytes of weights, 8 * 32 * 8 of cache, 6,400 of activations, a tenth of a million of reserve.

    Of batch b, 32 tokens of 8 bytes and 100 bytes of activations for each sequence: (900,000 - 2,600) / 356. A prefill
    moves 2,000 bytes of matrices, 200 of the head, 400 of the table and 8 * 16 * 8 of the cache; a step after c tokens
    64 of the table and 8 * (c + 1) * 8 of the cache: 3,416 in the middle of three, 3,480 at the end.
    """
    answers = dict(list_answers(report(), DEVICE))
    assert answers == {
        "fits": "yes: batch 8 takes 108.4 KiB of 976.6 KiB, with reserve",
        "users": "2,520 users with 20 tokens each at the same time",
        "formats": "weights bfloat16, activations and cache bfloat16",
        "first token": "at least 3.624 µs, batch 8",
        "later tokens": f"at most {1e9 / 3416:,.0f} tokens/s a user, batch 8",
        "limited by": "first token: memory (matrices 55 %); later: memory (matrices 57 %)",
    }
    assert "Answer" not in report(device=None).to_text()


def test_memory_that_is_not_known_is_no_refusal() -> None:
    """A device without the size of its memory: nothing is said of users, and not that it needs other devices."""
    bare = replace(DEVICE, figures={"memory_bandwidth": DEVICE.figures["memory_bandwidth"]})
    answers = dict(list_answers(replace(report(device=bare), fits=()), bare))
    assert answers["fits"] == "not known: the memory of toy is not known"
    assert "users" not in answers


def test_one_can_jump_to_each_table_and_to_each_report() -> None:
    for page in (report().to_html(), LanguageModelComparison((report("First"), report("Second"))).to_html()):
        places = re.findall(r'<a href="#(.*?)"', page)
        assert len(places) >= 4
        assert all(page.count(f' id="{place}"') == 1 for place in places)
    titles = re.findall(r'<a href="#s0t\d+">(.*?)</a>', report().to_html())
    assert titles[:3] == ["Answer", "Engine", "Memory of one device"], "a link is short: the title without its detail"


def test_a_step_is_shown_term_by_term() -> None:
    rows = {row[0]: row[1:] for row in tabulate_terms(report()).rows}
    assert rows["matrices"] == ("1.953 KiB", "2 µs", "1.953 KiB", "2 µs")
    assert rows["cache, read"] == ("-", "-", "1.125 KiB", "1.152 µs")
    assert rows["products"][0] == "135.3 k MACs"


def test_a_comparison_has_a_column_for_routing_where_a_model_has_experts() -> None:
    """Eight tokens use 8 * (1 - 0.75 ** 8) experts at random; 8 * 18 * 8 bytes of the cache are read and written."""
    both = LanguageModelComparison((report("Dense"), report("Routed", weights=(EXPERTS,))))
    titles, _, dense, routed = (re.split(" {2,}", line) for line in str(both).splitlines()[1:5])
    column = titles.index("uniform routing")
    assert dense[column] == "-"
    assert routed[column] == f"{(16000 * (1 - 0.75**8) + 8 * 18 * 8) / 1000:.2f} µs"
    assert "uniform routing" not in str(LanguageModelComparison((report("First"), report("Second"))))


def test_no_note_stands_twice_on_a_page() -> None:
    both = LanguageModelComparison((report("First"), report("Second"))).to_html()
    assert all(both.count(f"<li>{note}</li>") == 1 for note in ASSUMPTIONS)


def test_the_page_has_its_figures_and_loads_nothing() -> None:
    pytest.importorskip("matplotlib")
    page = report().to_html()
    assert page.count('<img src="data:image/png;base64,') == 3
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)", page)
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_names_are_text_and_no_markup() -> None:
    assert "<b>" not in report("<b>Toy</b>").to_html()


def test_a_figure_that_cannot_be_drawn_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "profilerkit_pages.figures.shown", raising=False)
    page = report().to_html()
    assert page.count("figures need matplotlib; install profilerkit[plot]") == 3
    assert "<img" not in page


def test_a_comparison_has_its_table_first_and_each_report(tmp_path: Path) -> None:
    both = LanguageModelComparison((report("First"), report("Second")))
    path = tmp_path / "page.html"
    both.save(path)
    page = path.read_text(encoding="utf-8")
    assert page.index("Language models, engine") < page.index("<h2>First, bfloat16, toy</h2>")
    assert "<h2>Second, bfloat16, toy</h2>" in page
    report().save(tmp_path / "one.html")
    assert (tmp_path / "one.html").read_text(encoding="utf-8") == report().to_html() + "\n"
