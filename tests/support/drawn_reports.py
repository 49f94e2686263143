"""Reports with round numbers for what draws them, and names that are hostile."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from page_reports import layer_table

from profilerkit import Comparative, Completeness, Measurement, Report, Scale
from profilerkit.results.report import StatusRecord
from profilerkit.trace.records import LayerTable


def record(key: str, value: Any, shown: str, unit: str = "", **facts: Any) -> StatusRecord:
    facts = {"comparative": Comparative.RECIPROCAL, "completeness": Completeness.COMPLETE, "base_unit": "", **facts}
    return StatusRecord(key, key.title(), f"What {key} is.", value, shown, unit, **facts)


def layers(*given: tuple[str, str, int, int]) -> LayerTable:
    """Return a layer table of (path, type, own parameters, own MACs), the root first."""
    return layer_table(given)


def three_layers(name: str, width: int, seconds: float, **facts: Any) -> Report:
    """Return a report of Linear, ReLU, Linear with 8 inputs, ``width`` in between, and 4 outputs."""
    macs, params = 8 * width + width * 4, 8 * width + width + width * 4 + 4
    times = Measurement(tuple(seconds * (1 + place / 1000) for place in range(7)), session=1)
    records = (
        record("total_params", params, str(params), scale=Scale.SI),
        record("macs", macs, f"{macs} MACs", "MACs", base_unit="MACs", scale=Scale.SI),
        record("execution_time", times, f"{1e3 * times.median:.4g} ms", "ms", base_unit="s", scale=Scale.TIME),
        record("accuracy", 90.0 + width / 8, f"{90.0 + width / 8} %", "%", comparative=Comparative.DIFF, base_unit="%"),
        record("energy", None, "", completeness=Completeness.UNAVAILABLE, missing=("no counter here",)),
    )
    table = layers(
        ("", "Net", 0, 0),
        ("first", "Linear", 9 * width, 8 * width),
        ("act", "ReLU", 0, 0),
        ("second", "Linear", 4 * width + 4, 4 * width),
    )
    given = {"layers": table, "batch_size": 1, "notes": ("counted in a real run",), **facts}
    return Report(name, "fake", "module.Net", {r.key: r for r in records}, **given)


TEACHER, STUDENT = three_layers("Teacher", 16, 0.002), three_layers("Student", 4, 0.001)


HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    "a|b & c",
    "line\nbreak\r\ttab\x1b[31m",
    "\\input{/etc/passwd} $x^2$ {brace} #1 ~ %",
    "=cmd|' /C calc'!A1",
    "[link](javascript:x) `code` *bold* _em_ # head",
    '"quoted", with; commas',
    "каша 網 ",
)


class Tags(HTMLParser):
    """Collects the tags of a text that is taken for HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.add(tag)
