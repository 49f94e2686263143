"""Compare ``llm`` with every configuration of transformers, and write the table of the page: takes some minutes.

``python docs/make_conformance.py`` compares all and writes the page; with names it compares these and prints the rows.
The exit code is 1 where one is wrong. A slow test compares each configuration with its row.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import textwrap
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
PAGE = DOCS / "language-model-conformance.rst"
sys.path.insert(0, str(DOCS.parent / "tests" / "support"))
#: The most characters of a reason.
_WIDEST = 200
_BEGIN, _END = ".. conformance: begin", ".. conformance: end"


class Row(NamedTuple):
    """A configuration with its verdict, its counts as text, and the reason for other verdicts than right."""

    name: str
    verdict: str
    parameters: str = ""
    cache: str = ""
    step: str = ""
    reason: str = ""


def make_row(name: str) -> Row:
    """Return the row of a configuration, by following it and by running it."""
    from followed_configurations import BY_THEIR_TEXT, judge
    from tiny_configurations import shrink_named

    if name in BY_THEIR_TEXT:
        return Row(name, "by its text", reason="the sizes of its parts depend on each other")
    outcome = judge(shrink_named(name))
    reason = shorten(outcome.reason)
    if outcome.counts is None:
        return Row(name, outcome.verdict, reason=reason)
    parameters, cache, step = outcome.counts
    return Row(name, outcome.verdict, f"{parameters:,}", f"{cache[-1]:,}", f"{step:,}", reason)


def shorten(reason: str) -> str:
    """Return the first sentence of a reason, without the class at its start and what a layer has inside."""
    sentence = reason.partition(". ")[0].partition(", in layer")[0].replace("`", "'")
    text = re.sub(r"^[A-Z]\w+ (is not a model that generates text: )?", "", sentence)
    return textwrap.shorten(text, _WIDEST, placeholder=" ...")


def read_rows() -> dict[str, Row]:
    """Return the rows of the page by their names."""
    table = PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]
    lines = [line.strip() for line in table.splitlines() if line.startswith("   ``")]
    rows = (Row(*(cell.strip("`") for cell in cells)) for cells in csv.reader(lines))
    return {row.name: row for row in rows}


def write(rows: list[Row]) -> str:
    """Return what stands in the page between the comments: how many there are of each verdict, and the table."""
    counts = Counter(row.verdict for row in rows)
    verdicts = ("right", "lower bound", "refused", "wrong", "by its text")
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in verdicts)
    titles = "configuration, verdict, parameters, bytes of the cache, MACs of a step, reason"
    lines = [f"{len(rows)} configurations: {summary}.", "", ".. csv-table::", f"   :header: {titles}", ""]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(row._replace(name=f"``{row.name}``") for row in rows)
    return "\n".join((*lines, *(f"   {line}" for line in buffer.getvalue().splitlines())))


def main(names: list[str]) -> int:
    """Compare, print or write, and return the exit code."""
    from followed_configurations import NAMES

    warnings.filterwarnings("ignore")
    rows = []
    for name in names or NAMES:
        rows.append(make_row(name))
        sys.stdout.write("; ".join(rows[-1]) + "\n")
        sys.stdout.flush()
    if not names:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
        text = f"{before}{_BEGIN}\n\n{write(rows)}\n\n{_END}{rest.partition(_END)[2]}"
        PAGE.write_text(text, encoding="utf-8")
    return int(any(row.verdict == "wrong" for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
