"""The page of a store in a real browser: nothing on the console, no request, and every view answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audit_rows import fill
from browsing import Open, browser, column, list_cut_numbers, visit
from msgspec.structs import replace
from playwright.sync_api import Page

from profilerkit import Completeness
from profilerkit.trace.bounds import Sign
from profilerkit_audits import Row, RowStatus, Run, Store, Value
from profilerkit_audits.dashboard import write

pytestmark = pytest.mark.slow

__all__ = ["browser", "visit"]

#: How many rows the page of these tests has; every tenth has failed, every seventh of the others is partial.
COUNT = 700
#: Every fourth is torch's, of which none ends with 9; 175, less the 25 that are 6 more than a multiple of 7.
TORCH_AND_COMPLETE = 150


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("audit")
    with Store.open(folder / "runs.db") as store:
        fill(store, COUNT, times=2)
        write(store, folder / "audit.html")
    yield folder / "audit.html"


def count(page: Page) -> str:
    return page.locator("#models .count").inner_text()


def at(page: Page) -> str:
    """Return the part of the address that says what is looked at, once it is written."""
    page.wait_for_timeout(250)
    return page.url.partition("#")[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_quiet_and_fits_a_phone(visit: Open, audit: Path, scheme: str) -> None:
    page = visit(audit, color_scheme=scheme, viewport={"width": 360, "height": 740})
    page.locator("#models tr[data-at] .name").first.click()
    assert page.locator("#one").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_no_number_of_an_audit_is_cut(visit: Open, audit: Path, width: int) -> None:
    page = visit(audit, viewport={"width": width, "height": 900})
    page.locator("#models tr[data-at] .name").first.click()
    assert page.locator("#models td.number").count() > page.locator("#one td.number").count() > 0
    assert list_cut_numbers(page) == []


def test_letters_are_as_wide_as_they_are(visit: Open, tmp_path: Path) -> None:
    """Ten characters of which three are capitals are wider than ten digits."""
    with Store.open(tmp_path / "runs.db") as store:
        run = store.begin_run(Run("", "2026-01-01", machine="m"), {"cpu": "A"}).run
        values = {"macs": Value(148_600_000, "MACs"), "memory_footprint": Value(888.8 * 2**20, "B")}
        values |= {f"metric_{index}": Value(888_800_000_000, "GMMWMACs") for index in range(8)}
        store.add(Row("n:f", "0" * 64, RowStatus.COMPLETE, values=values, run=run, machine="m"))
        write(store, tmp_path / "audit.html", pages=False)
    page = visit(tmp_path / "audit.html", viewport={"width": 1000, "height": 900})
    assert "148.6 MMACs" in column(page, "macs", "#models")
    assert list_cut_numbers(page) == []


def test_only_rows_in_view_are_in_the_document(visit: Open, audit: Path) -> None:
    page = visit(audit)
    assert count(page) == f"{COUNT} models"
    assert page.locator("#models tr[data-at]").count() < 60
    page.locator("#models .scroll").evaluate("node => { node.scrollTop = node.scrollHeight; }")
    page.locator(f"#models tr[data-at='{COUNT - 1}']").wait_for()
    assert page.locator("#models tr[data-at]").count() < 60


def test_failed_and_partial_rows_are_seen_with_their_reasons(visit: Open, audit: Path) -> None:
    page = visit(audit)
    page.locator("button.card[data-status=failed]").click()
    assert count(page) == f"{COUNT // 10} of {COUNT} models"
    assert set(column(page, "status", "#models")) == {"failed"}
    assert set(column(page, "reason", "#models")) == {"the process was ended by the signal SIGSEGV"}
    assert set(column(page, "macs", "#models")) == {"failed"}
    page.locator("button.card[data-status=partial]").click()
    # Numbers 6, 13, 20 ... below 700 are 100; of them 69, 139, 209 ... 699 end with 9: these 10 have failed.
    assert count(page) == f"90 of {COUNT} models"
    assert all(text.startswith("≥ ") for text in column(page, "macs", "#models"))
    assert at(page) == "status=partial"


def test_sorting_puts_what_has_no_value_last(visit: Open, audit: Path) -> None:
    page = visit(audit)
    head = page.locator("#models [data-key=macs]")
    head.click()
    # The largest: number 5k with (7919 * 5k mod 700 + 1) * 2000, at most (695 + 1) * 2000.
    assert column(page, "macs", "#models")[0] == "1.392 MMACs"
    assert at(page) == "sort=-macs"
    head.click()
    assert column(page, "macs", "#models")[0] == "2 kMACs"
    page.locator("#models .scroll").evaluate("node => { node.scrollTop = node.scrollHeight; }")
    page.locator(f"#models tr[data-at='{COUNT - 1}']").wait_for()
    assert column(page, "macs", "#models")[-1] == "failed"
    head.click()
    assert at(page) == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("model_00042", 1),
        ("sigsegv", 70),
        ("backend=torch status=complete", TORCH_AND_COMPLETE),
        ("macs>1.39M", 1),
        # Of 40 to 49 those with n mod 3 = 1 have the batch size 2: 40, 43, 46, 49; 42 has a 2 in its name,
        # and the partial ones, 41 and 48, have "2 calls" in their reason.
        ("model_0004 batch_size 2", 7),
        ("nothing=such", 0),
    ],
)
def test_filters(visit: Open, audit: Path, words: str, expected: int) -> None:
    page = visit(audit)
    page.get_by_role("searchbox").fill(words)
    assert count(page) == f"{expected} of {COUNT} models"


def test_an_address_brings_the_same_view(visit: Open, audit: Path) -> None:
    page = visit(audit)
    page.get_by_role("searchbox").fill("backend=torch")
    page.locator("#models [data-key=total_params]").click()
    page.get_by_label("Up", exact=True).select_option("total_params")
    page.locator("#models tr[data-at='2'] .name").click()
    address = at(page)
    name = page.locator("#one .fullname").inner_text()
    other = visit(audit)
    other.goto(f"{audit.as_uri()}#{address}")
    other.reload()
    assert other.get_by_role("searchbox").input_value() == "backend=torch"
    assert column(other, "spec", "#models") == column(page, "spec", "#models")
    assert other.get_by_label("Up", exact=True).input_value() == "total_params"
    assert other.locator("#one .fullname").inner_text() == name
    assert other.locator("tr[aria-selected=true]").count() == 1


def test_the_front_is_what_nothing_beats(visit: Open, audit: Path) -> None:
    page = visit(audit)
    page.get_by_role("searchbox").fill("model_0000")
    page.get_by_label("Across", exact=True).select_option("macs")
    page.get_by_label("Up", exact=True).select_option("total_params")
    page.wait_for_timeout(100)
    points = {n: ((n * 7919 % COUNT + 1) * (2 if n % 5 == 0 else 1), n * 104729 % COUNT) for n in range(9)}
    front = {
        f"model_{n:05d} (batch_size {1 + n % 3})"
        for n, (x, y) in points.items()
        if not any(a <= x and b <= y and (a, b) != (x, y) for a, b in points.values())
    }
    assert set(page.locator("#scatter .front li").all_inner_texts()) == front
    # Of those that end with 0 to 8, number 6 is partial: at least so many MACs, of which "≥" stands in the table alone.
    lead = page.locator("#scatter .lead").inner_text()
    assert "9 models with both metrics" in lead
    assert "1 model with a bound (≥, ≤ or ~) of one of them is drawn as if it were exact." in lead


def test_a_history_names_what_moved_and_what_else_changed(visit: Open, audit: Path) -> None:
    page = visit(audit)
    history = page.locator("#history")
    # Every fifth number that has not failed: those that end with 0 or 5.
    assert "MACs moved in 140 of 700 models" in history.locator(".lead").inner_text()
    page.get_by_role("searchbox").fill("model_00005")
    assert "+100 %" in history.inner_text()
    assert "torch 2.12 to 2.13" in history.inner_text()
    history.get_by_role("button", name="zoo:model_00005").click()
    assert "measured 2 times" in history.locator(".lead").inner_text()
    assert history.locator("circle").count() == 2
    page.get_by_label("Metric", exact=True).select_option("total_params")
    assert "%" not in history.locator("table").inner_text()


def test_the_table_answers_to_the_keyboard(visit: Open, audit: Path) -> None:
    page = visit(audit)
    page.locator("#models [role=grid]").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert "zoo:model_00002" in page.locator("#one .fullname").inner_text()
    page.keyboard.press("End")
    page.locator(f"#models tr[data-at='{COUNT - 1}'].active").wait_for()
    page.keyboard.press("Escape")
    assert not page.locator("#one").is_visible()


def test_all_metrics_of_a_static_audit_fit_a_laptop(visit: Open, audit: Path) -> None:
    """Nothing is scrolled to at 1440 pixels: the reason gives way, and takes the room where failures are looked at."""
    page = visit(audit, viewport={"width": 1440, "height": 900})
    room = "node => [node.scrollWidth, node.clientWidth]"
    whole, shown = page.locator("#models .scroll").evaluate(room)
    assert whole <= shown
    width = "node => node.getBoundingClientRect().width"
    narrow = page.locator("#models [data-key=reason]").evaluate(width)
    page.locator("button.card[data-status=failed]").click()
    assert page.locator("#models [data-key=reason]").evaluate(width) >= max(400, narrow)


def test_long_ticks_leave_their_unit_to_the_name_of_the_axis(visit: Open, tmp_path: Path) -> None:
    """200,000 samples/s would be cut at the left margin of 84 pixels."""
    with Store.open(tmp_path / "runs.db") as store:
        run = store.begin_run(Run("", "", machine="m"), {"cpu": "A"}).run
        for number in range(1, 4):
            values = {"macs": Value(number, "MACs"), "throughput": Value(100_000.0 * number, "samples/s")}
            store.add(Row(f"n:{number}", str(number) * 64, RowStatus.COMPLETE, values=values, run=run, machine="m"))
        write(store, tmp_path / "audit.html", pages=False)
    page = visit(tmp_path / "audit.html")
    assert "Throughput in samples/s" in page.locator("#scatter .axis-name").all_text_contents()
    boxes = page.locator("#scatter .axis text").evaluate_all("nodes => nodes.map((node) => node.getBBox().x)")
    assert len(boxes) > 4
    assert min(boxes) >= 0


def test_a_count_of_which_a_browser_does_not_know_all_digits_has_none(visit: Open, tmp_path: Path) -> None:
    """The numbers of JavaScript hold 2**53 - 1, and 2**53 + 1 as the one below it."""
    with Store.open(tmp_path / "runs.db") as store:
        run = store.begin_run(Run("", "", machine="m"), {"cpu": "A"}).run
        values = {"macs": Value(2**53 + 1, "MACs"), "flops": Value(2**53 - 1, "FLOPs")}
        store.add(Row("net", "1" * 64, RowStatus.COMPLETE, values=values, run=run))
        write(store, tmp_path / "audit.html", pages=False)
    page = visit(tmp_path / "audit.html")
    page.locator("#models tr[data-at] .name").click()
    assert page.locator("#one tbody td:nth-child(3)").all_inner_texts() == ["", "9,007,199,254,740,991"]


def test_the_history_names_bounds_and_what_changed_with_a_value(visit: Open, tmp_path: Path) -> None:
    """The third value is a lower bound; in the fourth night, with another version, there is no value."""
    with Store.open(tmp_path / "runs.db") as store:
        for night, code in enumerate(("one", "two", "two", "two")):
            run = store.begin_run(Run("", f"2026-01-0{night + 1}", machine="m"), {"cpu": "A"}).run
            gap: dict[str, Any] = {"completeness": Completeness.PARTIAL, "sign": Sign.LOWER} if night == 2 else {}
            values = {"macs": Value(10 + (code == "two"), "MACs", **gap)} if night < 3 else {}
            versions = {"torch": "2.13" if night < 3 else "2.14"}
            at = f"2026-01-0{night + 1}T00:00:00.000000+00:00"
            row = Row("n:f", f"{night}" * 64, RowStatus.COMPLETE, values=values, run=run, machine="m", code=code)
            store.add(replace(row, created=at, versions=versions))
        write(store, tmp_path / "audit.html", pages=False)
    page = visit(tmp_path / "audit.html")
    cells = page.locator("#history tbody td").all_inner_texts()
    assert cells[1:] == ["10 MACs", "≥ 11 MACs", "", "the model's own code"], "of a bound no change is known"
    page.locator("#models tr[data-at] .name").click()
    assert page.locator("#history tbody td:nth-child(3)").all_inner_texts() == [
        "10 MACs",
        "11 MACs",
        "≥ 11 MACs",
        "none",
    ]
    changes = page.locator("#history tbody tr td:last-child").all_inner_texts()
    assert changes == ["", "the model's own code", "", "torch 2.13 to 2.14"]
    # The last moment is named too, inside of the drawing.
    moments = [text for text in page.locator("#history .axis text").all_text_contents() if text.startswith("2026")]
    assert moments == [f"2026-01-0{day} 00:00" for day in range(1, 5)]


def test_values_that_differ_a_little_are_written_differently(visit: Open, tmp_path: Path) -> None:
    """A thousandth of a per cent, of counts and of times: neither two ticks nor two rows have one text."""
    with Store.open(tmp_path / "runs.db") as store:
        for night, macs in enumerate((7_114_800, 7_114_871, 7_114_840)):
            run = store.begin_run(Run("", f"2026-01-0{night + 1}", machine="m"), {"cpu": "A"}).run
            values = {"macs": Value(macs, "MACs"), "execution_time": Value(1.5e-3 + night * 1e-8, "s")}
            row = Row("n:f", f"{night}" * 64, RowStatus.COMPLETE, values=values, run=run, machine="m")
            store.add(replace(row, created=f"2026-01-0{night + 1}T00:00:00.000000+00:00"))
        write(store, tmp_path / "audit.html", pages=False)
    page = visit(tmp_path / "audit.html")
    assert page.locator("#history tbody td.number").all_inner_texts()[:2] == ["7.11480 MMACs", "7.11484 MMACs"]
    page.locator("#models tr[data-at] .name").click()
    cells = page.locator("#history tbody td:nth-child(3)")
    assert cells.all_inner_texts() == ["7.11480 MMACs", "7.11487 MMACs", "7.11484 MMACs"]
    for metric in ("macs", "execution_time"):
        page.get_by_label("Metric", exact=True).select_option(metric)
        ticks = page.locator("#history .axis text[text-anchor=end]").all_text_contents()
        assert len(set(ticks)) == len(ticks) > 2
        assert {len(tick) for tick in ticks} == {len(ticks[0])}, "they are aligned"


def test_paper_has_every_column_and_every_point(visit: Open, audit: Path) -> None:
    """On a sheet of A4 across, less its margins, at 96 pixels an inch: (297 - 24) mm are 1031 pixels."""
    page = visit(audit, viewport={"width": 1440, "height": 900})
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 1031, "height": 703})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    ends = "nodes => Math.max(...nodes.map((node) => node.getBoundingClientRect().right))"
    assert page.locator("#models thead th").evaluate_all(ends) <= 1031
    shown = "node => getComputedStyle(node).display"
    assert page.locator("#models thead button").first.evaluate(shown) == "contents", "else no sheet repeats the heads"
    assert page.locator("#scatter svg.chart").evaluate_all(ends) <= 1031
    assert page.locator("#models tr[data-at]").count() == 500
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("#models tr[data-at]").count() < 60


def test_the_axes_of_counts_alone_are_two_metrics(visit: Open, tmp_path: Path) -> None:
    """Neither a time nor a memory was asked for: MACs across, and up the other metric, although MACs come second."""
    with Store.open(tmp_path / "runs.db") as store:
        run = store.begin_run(Run("", "", machine="m"), {"cpu": "A"}).run
        values = {"total_params": Value(3), "macs": Value(2, "MACs")}
        store.add(Row("net", "1" * 64, RowStatus.COMPLETE, values=values, run=run))
        write(store, tmp_path / "audit.html", pages=False)
    page = visit(tmp_path / "audit.html")
    axes = [page.get_by_label(label, exact=True).input_value() for label in ("Across", "Up")]
    assert axes == ["macs", "total_params"]


def test_what_cannot_be_right_is_not_on_the_front_and_names_are_short(visit: Open, tmp_path: Path) -> None:
    """Of three models the fastest is not plausible: the front has the two others, time is up, and names lack "zoo:"."""
    with Store.open(tmp_path / "runs.db") as store:
        run = store.begin_run(Run("", "", machine="m"), {"cpu": "A"}).run
        for number, (macs, seconds) in enumerate(((1, 3.0), (2, 2.0), (3, 0.001))):
            values = {"macs": Value(macs, "MACs"), "execution_time": Value(seconds, "s")}
            flags = ("more FLOP/s than the device has",) if number == 2 else ()
            row = Row(f"zoo:net{number}", str(number) * 64, RowStatus.COMPLETE, values=values, run=run, flags=flags)
            store.add(row)
        write(store, tmp_path / "audit.html", pages=False)
    page = visit(tmp_path / "audit.html", viewport={"width": 390, "height": 800})
    assert page.get_by_label("Up", exact=True).input_value() == "execution_time"
    assert page.locator("#scatter .front li").all_inner_texts() == ["net0", "net1"]
    assert "1 hollow point: values that cannot be right" in page.locator("#scatter .lead").inner_text()
    assert column(page, "spec", "#models") == ["net0", "net1", "net2"]
    page.set_viewport_size({"width": 1000, "height": 800})
    page.locator("#models [data-key=spec]").click()
    assert column(page, "spec", "#models")[0] == "zoo:net0"
