"""The page of language models: it has the tables and notes of the text, both figures, and loads nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from toy_language_model import DEVICE, toy_facts

from profilerkit_predict.language_models import LanguageModelComparison, LanguageModelReport, StepCost
from profilerkit_predict.language_models.fitting import fit
from profilerkit_predict.language_models.serving import ASSUMPTIONS, predict_serving

pytest.importorskip("jinja2")


def report(name: str = "Toy", device: Any = DEVICE, **changes: Any) -> LanguageModelReport:
    cost = StepCost(toy_facts(**changes), device)
    fits = (fit(cost, 8, 20, 64, 0.1),) if device else ()
    return LanguageModelReport(name, cost.facts, cost, 16, 4, "bfloat16", (predict_serving(cost, 8, 16, 4),), fits)


def test_the_page_has_every_table_and_note() -> None:
    page = report().to_html()
    captions = re.findall(r"<caption>(.*?)</caption>", page)
    assert captions == [
        "Model",
        "Passes as written",
        "Engine, 16 tokens of prompt and 4 new: 1 x toy (data sheet)",
        "Memory of one device",
    ]
    assert all(f"<li>{note}</li>" in page for note in ASSUMPTIONS)
    assert f"<td>{16 * 1000 + 100 + 6 * 256:,}</td>" in page


def test_the_page_has_both_figures_and_loads_nothing() -> None:
    pytest.importorskip("matplotlib")
    page = report().to_html()
    assert page.count('<img src="data:image/png;base64,') == 2
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_names_are_text_and_no_markup() -> None:
    assert "<b>" not in report("<b>Toy</b>").to_html()


def test_a_figure_that_cannot_be_drawn_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "profilerkit_pages.figures.shown", raising=False)
    page = report().to_html()
    assert page.count("figures need matplotlib; install profilerkit[plot]") == 2
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
