"""What the page of a store costs with ten thousand rows: to build, to open, to sort and to filter, in a browser.

Run it as ``python benchmarks/dashboard.py`` where playwright and a Chromium are installed; ``--rows 300`` for another
number, ``--store runs.db`` for a store that is there. Rows are planted, each with two runs, in a store of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from audit_rows import fill
from browsing import executable
from playwright.sync_api import Page, sync_playwright

from profilerkit_audits import Store
from profilerkit_audits.dashboard import write

#: Returns the milliseconds from what is done to the second frame after it, when it is on the screen.
TIMED = """async () => {
    const start = performance.now();
    (ACT)();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - start;
}"""
#: How often everything is done, one after the other, so that each act changes what is seen.
ROUNDS = 5
ACTS = {
    "sort by a number": "document.querySelector('#models [data-key=macs]').click()",
    "sort by name": "document.querySelector('#models [data-key=spec]').click()",
    "filter by a word": (
        "const box = document.querySelector('#models input[type=search]'); box.value = 'model_00';"
        "box.dispatchEvent(new Event('input'))"
    ),
    "filter by a condition": (
        "const box = document.querySelector('#models input[type=search]'); box.value = 'macs>1M backend=torch';"
        "box.dispatchEvent(new Event('input'))"
    ),
    "all rows again": (
        "const box = document.querySelector('#models input[type=search]'); box.value = '';"
        "box.dispatchEvent(new Event('input'))"
    ),
    "scroll": "const box = document.querySelector('#models .scroll'); box.scrollTop = box.scrollTop ? 0 : 9e4",
    "choose a row": "document.querySelector('#models tr[data-at] .name').click()",
}
PAINT = "performance.getEntriesByType('paint').find((entry) => entry.name === 'first-contentful-paint')?.startTime"


def build_page(store: Path, page: Path) -> dict[str, float]:
    """Write the page, and return the milliseconds that took: of the clock, and of the processor."""
    with Store.open(store, create=False) as opened:
        start, busy = time.perf_counter(), time.process_time()
        write(opened, page, pages=False)
        return {
            "build": 1e3 * (time.perf_counter() - start),
            "build, of the processor": 1e3 * (time.process_time() - busy),
        }


def look_at(page: Page, file: Path) -> dict[str, float]:
    """Open the page, and return the milliseconds of what people do with it, by the clock: medians, but of opening."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        """Return the milliseconds that the page's thread has taken of a processor; another program's are not in it."""
        metrics = session.send("Performance.getMetrics")["metrics"]
        return 1000.0 * sum(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")

    page.goto(file.as_uri(), timeout=120_000)
    page.wait_for_selector("#models tr[data-at]")
    paint: Any = page.evaluate(PAINT)
    results = {"open: first paint": float(paint or "nan"), "open, of the processor": busy()}
    times: dict[str, list[float]] = {name: [] for name in ACTS}
    for name, act in [*ACTS.items()] * ROUNDS:
        times[name].append(page.evaluate(TIMED.replace("(ACT)", f"(() => {{{act}}})")))
    return {**results, **{name: median(shown) for name, shown in times.items()}}


def measure_page(folder: Path, rows: int, store: Path | None = None) -> dict[str, float]:
    """Build the page of a store, look at it in a browser, and return the milliseconds of each act.

    Without a store, rows are planted into one in the folder, each with two runs.
    """
    file = folder / "audit.html"
    if store is None:
        store = folder / "runs.db"
        with Store.open(store) as opened:
            fill(opened, rows, times=2)
    times = build_page(store, file)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox", "--disable-gpu"])
        times.update(look_at(browser.new_page(viewport={"width": 1280, "height": 900}), file))
        browser.close()
    return times


def main() -> None:
    """Build the page and look at it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--store", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, spent in measure_page(Path(folder), options.rows, options.store).items():
            print(f"{name}: {spent:.0f} ms")


if __name__ == "__main__":
    main()
