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


def built(store: Path, page: Path) -> None:
    """Write the page, and print what that took."""
    with Store.open(store, create=False) as opened:
        start, busy = time.perf_counter(), time.process_time()
        written = write(opened, page, pages=False)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    size = page.stat().st_size
    print(f"build: {written.rows} rows, {seconds:.1f} s ({busy:.1f} s of CPU), {size / 2**20:.2f} MiB", flush=True)


def look_at(page: Page, file: Path) -> None:
    """Open the page, and print the times of what people do with it."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        """Return the milliseconds of CPU that the page's thread has taken; another program's are not among them."""
        metrics = session.send("Performance.getMetrics")["metrics"]
        return 1000.0 * sum(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")

    page.goto(file.as_uri(), timeout=120_000)
    page.wait_for_selector("#models tr[data-at]")
    rows = page.locator("#models tr[data-at]").count()
    paint: Any = page.evaluate(PAINT)
    print(f"open: first paint {paint or float('nan'):.0f} ms, {busy():.0f} ms of CPU, {rows} rows in the document")
    costs: dict[str, list[float]] = {name: [] for name in ACTS}
    times: dict[str, list[float]] = {name: [] for name in ACTS}
    for name, act in [*ACTS.items()] * ROUNDS:
        before = busy()
        times[name].append(page.evaluate(TIMED.replace("(ACT)", f"(() => {{{act}}})")))
        costs[name].append(busy() - before)
    for name in ACTS:
        cost, shown = median(costs[name]), median(times[name])
        print(f"{name}: {cost:.0f} ms of CPU, {shown:.0f} ms to the screen (median of {ROUNDS})", flush=True)


def main() -> None:
    """Build the page and look at it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or Path(folder, "runs.db")
        file = options.page or Path(folder, "audit.html")
        if options.store is None:
            with Store.open(store) as opened:
                fill(opened, options.rows, times=2)
        built(store, file)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox", "--disable-gpu"])
            look_at(browser.new_page(viewport={"width": 1280, "height": 900}), file)
            browser.close()


if __name__ == "__main__":
    main()
