"""The page of a report in a real browser: nothing on the console, no request, and every view answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from browsing import Open, browser, column, visit
from page_reports import HOSTILE_NAMES, empty, hostile, many, odd_numbers, pair, small

from profilerkit import Comparison, Report
from profilerkit.foreign_text import visible
from profilerkit.render import render
from profilerkit.times.conditions import Conditions

pytestmark = pytest.mark.slow

__all__ = ["browser", "visit"]

PAGES: dict[str, Callable[[], Any]] = {
    "small": small,
    "untimed": lambda: small(timed=False),
    "pair": pair,
    "three": lambda: Comparison(small(), (small("Same"), small("Faster", 0.0005))),
    "hostile": hostile,
    "hostile pair": lambda: Comparison(hostile(), (small(),)),
    "odd numbers": odd_numbers,
    "empty": empty,
    "empty pair": lambda: Comparison(empty(), (small(),)),
    "many": many,
}


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_quiet_and_fit_a_phone(visit: Open, kind: str, scheme: str) -> None:
    """What `visit` holds pages to; and nothing makes a page of 360 pixels scroll sideways."""
    page = visit(PAGES[kind](), color_scheme=scheme, viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for button in page.get_by_role("button", name="Open all", exact=True).all():
        button.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_cards_say_value_completeness_and_why(visit: Open) -> None:
    page = visit(small())
    cards = {card.locator("h3").inner_text(): card.inner_text() for card in page.locator(".card").all()}
    assert "4224" in cards["Macs"]
    assert "MACs" in cards["Macs"]
    assert "lower bound" in cards["Flops"]
    assert "aten.odd (2 calls)" in cards["Flops"]
    without = page.locator("#summary .without").inner_text()
    assert "no counter here" in without
    assert "ValueError: it broke" in without
    assert "95 % interval" in cards["Execution Time"]
    assert "Counted in a real run" in page.locator("#summary .notes").inner_text()


def test_names_are_text(visit: Open) -> None:
    page = visit(hostile())
    assert page.locator("img, iframe, object").count() == 0
    assert page.locator("script").count() == 2
    assert page.title() == visible(HOSTILE_NAMES[1])
    shown = column(page, "type")
    assert shown[1:] == [visible(name) for name in HOSTILE_NAMES]
    page.locator("#layers").get_by_role("searchbox").fill("onerror")
    assert column(page, "path")[1:] == [visible(HOSTILE_NAMES[1])]


def test_numbers_that_are_none_are_shown_as_such(visit: Open) -> None:
    page = visit(odd_numbers())
    assert [text.inner_text() for text in page.locator(".card .figure").all()][:2] == ["nan", "inf"]
    assert column(page, "forward_seconds") == ["nan s", "inf s", "-inf s"]
    assert column(page, "macs")[1] == "1,000,000,000,000 E"
    page.locator("#layers [data-key=forward_seconds]").click()
    assert column(page, "forward_seconds") == ["nan s", "inf s", "-inf s"]
    assert "3 samples not finite" in page.locator("#latency").inner_text()


def test_numbers_are_scaled_as_everywhere(visit: Open) -> None:
    """The page has a scaling of its own, in its own language; it agrees with that of the library."""
    from profilerkit.piping.quantity import Scale, scale_value
    from profilerkit.trace.records import LayerTable

    counts = [1, 999, 1000, 9999, 10_000, 12_345, 999_949, 999_950, 999_999, 1_000_000, 4_089_184_256, 10**21, 2**53]
    counts += [3648, 7850]  # in the middle of two texts: 3.5625 Ki
    seconds = [0.0, 3e-12, 1e-9, 5.4321e-7, 0.00099995, 0.0009999, 0.00265, 1 / 3, 0.99996, 12.5, 86_400.0, 1e20]
    seconds += [1410.5, 24_691.5]
    rows = [{"path": "", "type": "Net", "depth": 0, "is_leaf": False, "macs": 7, "weight_bytes": 7, "a_seconds": 1.0}]
    rows += [
        {**rows[0], "path": str(place), "macs": number, "weight_bytes": number, "a_seconds": second}
        for place, (number, second) in enumerate(zip(counts, [*seconds, 2.0], strict=True))
    ]
    page = visit(replace(empty(), layers=LayerTable(rows)))
    page.locator("#layers summary").click()
    for box in page.locator("#layers .menu input").all():
        box.check()
    assert column(page, "macs")[1:] == [str(scale_value(number, "", Scale.SI)) for number in counts]
    assert column(page, "weight_bytes")[1:] == [str(scale_value(number, "B", Scale.IEC)) for number in counts]
    assert column(page, "a_seconds")[1:] == [str(scale_value(number, "s", Scale.TIME)) for number in [*seconds, 2.0]]


def test_the_theme_is_the_systems_until_it_is_changed(visit: Open) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page = visit(small(), color_scheme="dark")
    dark = page.evaluate(ground)
    page.locator("#theme").click()
    light = page.evaluate(ground)
    assert light != dark
    assert page.locator("#theme").inner_text() == "Dark"
    page.locator("#theme").click()
    assert page.evaluate(ground) == dark
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    assert visit(small(), color_scheme="light").evaluate(ground) == light


CONTRAST = """() => {
    const luminance = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((c) => c / 255).map(
            (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (node) => {
        for (let at = node; at; at = at.parentElement) {
            const found = getComputedStyle(at).backgroundColor;
            if (found !== 'rgba(0, 0, 0, 0)') return found;
        }
        return 'rgb(255, 255, 255)';
    };
    const low = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        const text = walker.currentNode.data.trim();
        if (!text || !node.checkVisibility() || node.closest('svg, script, option, style, noscript')) continue;
        const [one, two] = [getComputedStyle(node).color, behind(node)].map(luminance);
        const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
        if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${node.className} ${text.slice(0, 30)}`);
    }
    return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(visit: Open, scheme: str) -> None:
    """Every text stands out from its ground by 4.5 to 1, which WCAG 2 asks for at level AA."""
    page = visit(pair(), color_scheme=scheme)
    page.locator("#layers tbody tr").nth(3).click()
    assert page.evaluate(CONTRAST) == []


def test_a_page_says_what_it_has_not(visit: Open) -> None:
    page = visit(empty())
    text = page.locator("main").inner_text()
    assert "No metrics were computed" in text
    assert page.locator("#summary .absent").inner_text() == (
        "Not in this report: layers and memory (the model was not traced); samples (nothing was measured)."
    )
    assert page.locator("main > section:visible").count() == 1, "nothing that is empty is there"
    untimed = visit(small(timed=False))
    assert untimed.locator("#roofline").is_hidden()
    assert (
        "roofline (no layer has a time of its own: layer_times measures it)"
        in untimed.locator("#summary .absent").inner_text()
    )
    assert visit(small()).locator("#summary .absent").inner_text() == (
        "Not in this report: graph (what operators read is not known); timeline (operator_table was not measured)."
    )


def test_memory_has_its_peak(visit: Open) -> None:
    """848 bytes of weights, and 128 alive after the third operator, of the layer block.first."""
    page = visit(small())
    lead = page.locator("#memory .lead").inner_text()
    assert lead == (
        "Most is alive after operator 3 of 5: op.linear in block.first. It is 976 B: weights 848 B, inputs 32 B, "
        "activations 96 B."
    )
    assert page.locator("#memory .peak-name").text_content() == "peak 128 B", "weights of 87 % would hide the rest"
    assert "leaves out the weights, 848 B" in page.locator("#memory").inner_text()
    page.get_by_label("With the weights").check()
    assert page.locator("#memory .peak-name").text_content() == "peak 976 B"
    assert "leaves out the weights" not in page.locator("#memory").inner_text()
    plot = page.locator("#memory .plot")
    plot.press("ArrowRight")
    assert "operator 4 of 5" in page.locator("#memory .said").inner_text()
    plot.press("Home")
    assert "976 B alive, 128 B without weights" in page.locator("#memory .said").inner_text()
    report = small()
    assert report.memory is not None
    untold = visit(replace(report, memory=replace(report.memory, parts={}))).locator("#memory .lead").inner_text()
    assert untold.endswith("It is 976 B: weights 848 B, inputs and activations 128 B.")


def test_the_backward_pass_of_a_training_step_is_marked(visit: Open) -> None:
    from profilerkit.trace.table import Table

    report = small()
    rows = [
        {**row, "phase": "backward" if place > 2 else "forward"} for place, row in enumerate(report.operators or ())
    ]
    page = visit(replace(report, operators=Table(rows)))
    assert page.locator("#memory .phase-name").text_content() == "backward"
    assert visit(report).locator("#memory .phase").count() == 0


def test_a_page_inside_a_notebook(visit: Open) -> None:
    page = visit(empty())
    srcdoc = render(hostile(), "html")
    page.evaluate(
        "(page) => { document.body.append(Object.assign(document.createElement('iframe'), { srcdoc: page })); }", srcdoc
    )
    page.frames[-1].wait_for_selector("#layers tbody tr[data-at]")


def test_the_roofline_has_a_dot_for_each_layer_that_works(visit: Open) -> None:
    """block.first: 256 FLOPs and 128 bytes are 2 FLOPs/B, in 1 ms 256 kFLOP/s."""
    page = visit(small())
    dots = page.locator("#roofline .dot")
    assert dots.count() == 2
    texts = []
    for place in range(2):
        dots.nth(place).hover()
        texts.append(page.locator("#tip").inner_text())
    (first,) = (text for text in texts if "block.first" in text)
    assert "2 FLOPs/B, 256 kFLOP/s" in first
    dots.first.click()
    assert page.locator("#layers tr[aria-selected=true]").count() == 1
    assert page.locator("#roofline .dot.picked").count() == 1


def test_samples_have_percentiles(visit: Open) -> None:
    """Forty samples of 2 ms and up to 6 % more: six of each of the first five values, five of the last two."""
    page = visit(small())
    cells = page.locator("#latency tbody td, #latency tbody th").all_inner_texts()
    assert cells[:4] == ["Teacher", "40", "1", "2.06 ms"]
    assert page.locator("#latency .sample").count() == 40


def test_the_state_of_the_machine_stands_below_the_samples(visit: Open) -> None:
    """Two reports of one model are told apart by it; what is unknown is left out, and what is hostile is text."""

    def measured(name: str, conditions: Conditions | None) -> Report:
        report: Report = small(name)
        record = report.statuses["execution_time"]
        value = replace(record.value, conditions=conditions)
        changed: Report = replace(report, statuses={**report.statuses, "execution_time": replace(record, value=value)})
        return changed

    quiet = Conditions(2.0, 1.5, 8, 0.4, 0.5, 2, 3, "performance")
    script = "[...document.querySelectorAll('#latency .left-out p')].map((each) => each.textContent)"
    page = visit(
        Comparison(measured("Quiet", quiet), (measured("Unknown", None), measured("Busy", Conditions(2.0, 4.0))))
    )
    first, second = page.evaluate(script)
    assert first == (
        "Quiet. The machine during the samples: Processor time 1.5 s in 2 s; Interruptions 8; "
        "Threads of the process 3; Frequency governor performance; "
        "Load of the machine 0.4 before, 0.5 after on 2 cores."
    )
    assert second == "Busy. The machine during the samples: Processor time 4 s in 2 s."
    assert visit(measured("Unknown", None)).evaluate(script) == []
    hostile_governor = replace(quiet, governor="<img src=x onerror=alert(1)>")
    assert "Frequency governor <img src=x" in visit(measured("Hostile", hostile_governor)).evaluate(script)[0]


def test_printed_pages_have_all_rows_of_a_small_model(visit: Open) -> None:
    page = visit(many(45))
    assert page.locator("#layers tbody tr[data-at]").count() < 60
    page.locator("#layers").get_by_label("Depth").select_option("all")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#layers tbody tr[data-at]").count() == 451
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("#layers tbody tr[data-at]").count() < 60


def test_layers_of_one_intensity_have_numbers_below_them(visit: Open) -> None:
    """32 FLOPs, and 128 bytes that are read or written, are 0.25 FLOPs a byte."""
    texts = (
        visit(small(layers=[("", "Net", 0, 0), ("only", "Linear", 20, 16)]))
        .locator("#roofline .axis text")
        .all_text_contents()
    )
    assert {"0.2 FLOPs/B", "0.5 FLOPs/B"} <= set(texts)
