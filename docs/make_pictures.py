"""Draws the pictures of pages again: profiles models of examples/, and photographs their reports in a browser.

Run it as ``python docs/make_pictures.py`` where PyTorch, playwright and a Chromium are installed.
PROFILERKIT_BROWSER names the browser where it is not found by itself.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
import tempfile
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from profilerkit import Comparison, Report, compare, profile
from profilerkit.render import render

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "examples"))

KEYS = ("total_params", "model_size", "macs", "flops", "memory_footprint", "execution_time")
#: How times are measured: on one thread and for long, so that other work of the machine hardly shows.
STEADY: dict[str, Any] = {"num_threads": 1, "max_seconds": 60}


def make_timed_report() -> Report:
    """Return a report with the times of the layers."""
    import torch

    from models import resnet18

    metrics = (*KEYS, "layer_times")
    return profile(resnet18().eval(), torch.zeros(1, 3, 224, 224), metrics=metrics, name="ResNet-18", **STEADY)


def compare_models() -> Comparison:
    """Return two models of one family side by side."""
    import torch

    from models import resnet18, resnet50

    inputs = torch.zeros(1, 3, 224, 224)
    names = ("ResNet-50", "ResNet-18")
    return compare(resnet50().eval(), resnet18().eval(), inputs=inputs, metrics=KEYS, names=names, **STEADY)


def open_page(browser: Browser, path: Path, scheme: str, width: int = 1200, height: int = 900) -> Page:
    """Open a page; what moves stands still."""
    size = {"width": width, "height": height}
    page = browser.new_page(color_scheme=scheme, viewport=size, reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(path.as_uri())
    return page


def photograph(browser: Browser, report: Path, comparison: Path) -> None:
    """Save the pictures: a report in light, its graph in dark, a comparison, and a report on a phone."""
    page = open_page(browser, report, "light", height=1480)
    page.screenshot(path=HERE / "pictures" / "page-light.png")
    page.locator("#roofline").screenshot(path=HERE / "pictures" / "page-roofline.png")
    page = open_page(browser, report, "dark", height=1400)
    page.locator("#graph .box", has_text="layer2").click()
    page.locator("#graph .box", has_text="BasicBlock").first.click()
    page.locator("#graph .box", has_text="BasicBlock").first.scroll_into_view_if_needed()
    page.locator("#graph").screenshot(path=HERE / "pictures" / "page-graph-dark.png")
    page = open_page(browser, comparison, "light", height=1180)
    page.locator("#sides").get_by_label("As").select_option("table")
    page.get_by_label("Differences only").check()
    page.screenshot(path=HERE / "pictures" / "page-comparison.png")
    page = open_page(browser, report, "light", width=360, height=740)
    page.screenshot(path=HERE / "pictures" / "page-phone.png")


#: How wide and high the picture of the README is, in pixels.
README = {"x": 0, "y": 40, "width": 1200, "height": 900}

_THEMED = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>The page of a report</title>
<style>.dark {{ display: none }} @media (prefers-color-scheme: dark) {{
.dark {{ display: inline }} .light {{ display: none }} }}</style>
<image class="light" width="{width}" height="{height}" href="data:image/png;base64,{light}"/>
<image class="dark" width="{width}" height="{height}" href="data:image/png;base64,{dark}"/>
</svg>
"""


def photograph_for_readme(browser: Browser, report: Path) -> None:
    """Save the picture of the README: the page of a report, light or dark as the reader has it."""
    pictures = {}
    for scheme in ("light", "dark"):
        page = open_page(browser, report, scheme, height=README["y"] + README["height"])
        taken = Image.open(BytesIO(page.screenshot(clip=README)))  # type: ignore[arg-type]
        small = BytesIO()
        taken.convert("RGB").quantize(128).save(small, "PNG", optimize=True)
        pictures[scheme] = base64.b64encode(small.getvalue()).decode()
    size = {name: README[name] for name in ("width", "height")}
    (HERE / "pictures" / "page.svg").write_text(_THEMED.format(**size, **pictures), encoding="utf-8")


#: Cards that the picture of the formats leaves out: what not all of them have, and times, which a busy machine spoils.
LEFT_OUT = ["Trainable Parameters", "Inference Time", "Execution Time", "Throughput"]


def photograph_formats(browser: Browser, comparison: Path) -> None:
    """Save the picture of docs/formats.rst: the cards, and the layers beside those of a graph as it is run."""
    page = open_page(browser, comparison, "light", width=1200, height=1400)
    page.get_by_label("Beside the reference").select_option(label="Dynamo as run")
    page.evaluate("document.querySelectorAll('.identity, .notes').forEach((each) => each.remove())")
    page.locator(".card").evaluate_all(
        "(cards, names) => cards.filter((each) => names.some((name) => each.textContent.trim()"
        ".startsWith(name))).forEach((each) => each.remove())",
        LEFT_OUT,
    )
    page.screenshot(path=HERE / "pictures" / "page-formats.png")


def main() -> None:
    """Profile, write the pages to a folder of their own, and photograph them."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("PROFILERKIT_BROWSER") or next(filter(None, map(shutil.which, names)), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report, comparison, formats = (Path(folder, f"{name}.html") for name in ("report", "comparison", "formats"))
        import_module("formats").main(["--page", str(formats)])
        report.write_text(render(make_timed_report(), "html"), encoding="utf-8")
        comparison.write_text(render(compare_models(), "html"), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        photograph(browser, report, comparison)
        photograph_for_readme(browser, report)
        photograph_formats(browser, formats)
        browser.close()


if __name__ == "__main__":
    main()
