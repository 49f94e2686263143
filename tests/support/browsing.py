"""A headless browser for pages, and what each page is held to: no word on its console, and no request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from profilerkit import Comparison, Report
from profilerkit.render import render

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, sync_playwright

_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: Opens the page of a result, or of a path; further arguments are those of a new page of playwright's.
Open = Callable[..., Page]


def executable() -> str | None:
    """Return the path of a Chromium, or None if there is none."""
    asked = os.environ.get("PROFILERKIT_BROWSER")
    names = ("chromium", "chromium-browser", "google-chrome")
    return asked or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = executable()
    if path is None:
        pytest.skip("no Chromium here; PROFILERKIT_BROWSER can name one")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(_QUIET))
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open pages; at the end none of them may have said anything on its console or asked for anything."""
    said: list[str] = []
    opened: list[Page] = []

    def is_own(url: str, own: str) -> bool:
        return url.partition("#")[0] == own or url.startswith("blob:")  # a file that the page itself saves

    def listen(page: Page, own: str) -> None:
        page.on("console", lambda message: said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: None if is_own(request.url, own) else said.append(f"request: {request.url}"))

    def open_page(result: Report | Comparison | Path, **options: Any) -> Page:
        path = result if isinstance(result, Path) else tmp_path / f"page-{len(opened)}.html"
        if not isinstance(result, Path):
            path.write_text(render(result, "html"), encoding="utf-8")
        page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
        opened.append(page)
        listen(page, path.as_uri())
        page.goto(path.as_uri())
        return page

    yield open_page
    for page in opened:
        page.evaluate("new Promise(requestAnimationFrame)")
        page.close()
    assert said == []


def column(page: Page, key: str, table: str = "#layers") -> list[str]:
    """Return the text of the rows in view in a column, by its key."""
    script = """([table, key]) => {
        const heads = [...document.querySelectorAll(`${table} thead button`)].map((button) => button.dataset.key);
        const cells = (row) => row.children[heads.indexOf(key)].querySelector('span:not(.twist)');
        return [...document.querySelectorAll(`${table} tbody tr[data-at]`)].map(
            (row) => (cells(row) ?? row.children[heads.indexOf(key)]).textContent);
    }"""
    found: list[str] = page.evaluate(script, [table, key])
    return found


def list_cut_numbers(page: Page) -> list[str]:
    """Show every column of every table, and return the numbers that are wider than their cells."""
    script = """() => {
        for (const box of document.querySelectorAll('.menu input:not(:checked)')) box.click();
        return [...document.querySelectorAll('td.number')].filter((cell) => cell.scrollWidth > cell.clientWidth).map(
            (cell) => `${cell.closest('section').id}: ${cell.textContent} ${cell.scrollWidth} > ${cell.clientWidth}`);
    }"""
    cut: list[str] = page.evaluate(script)
    return cut


def wait_until(page: Page, condition: str) -> None:
    """Wait until a condition holds on a page; its policy forbids the waiting of playwright's, which is an ``eval``."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"five seconds and still not: {condition}")
