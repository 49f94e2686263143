"""The page of language models in a real browser: it fits a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import Open, browser, visit
from toy_language_model import DEVICE, toy_facts

from profilerkit_predict.language_models import LanguageModelReport, StepCost
from profilerkit_predict.language_models.engine.fitting import DeviceMemory
from profilerkit_predict.language_models.engine.serving import predict_serving

pytestmark = pytest.mark.slow

__all__ = ["browser", "visit"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The page of a toy model with three batches, whose caches have bytes and KiB."""
    cost = StepCost(toy_facts(), DEVICE)
    batches = (1, 8, 32)
    fits = tuple(DeviceMemory(cost, 64, 0.1).fit(batch, 20) for batch in batches)
    serving = tuple(predict_serving(cost, batch, 16, 4) for batch in batches)
    report = LanguageModelReport(cost, 16, 4, serving, fits)
    page = tmp_path / "toy.html"
    page.write_text(report.to_html(), encoding="utf-8")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_a_desk(visit: Open, path: Path, scheme: str) -> None:
    for width in (360, 390, 1280):
        page = visit(path, color_scheme=scheme, viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for link in page.locator(".sections a").all():
            link.click()
    answer = page.locator(".answer").first.bounding_box()
    assert answer is not None
    assert answer["y"] < 300, "the answer is on the first screen"
