"""The page of each model: the report of its row in the form ``html``, in a folder beside the page of the store.

A file is named by what is in it (the report's checksum and the page's own style and script), so a page that is there
already is not written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from profilerkit.process.files import write_text
from profilerkit.results.saving import parse, reseal
from profilerkit_pages.html import assets, render

from ..hiding import hide
from ..rows import Row
from ..store import Store

__all__ = ["write_pages"]


def write_pages(store: Store, rows: Iterable[Row], output: Path, private: bool) -> list[str]:
    """Write the pages of rows that have a report: those of ``audit.html`` into the folder ``audit-models``.

    Returns the relative address for each row, empty for one without a report. Raises `OSError` if a file cannot be
    written.
    """
    folder = output.with_name(f"{output.stem}-models")
    addresses = []
    for row in rows:
        name = _name_file(row, private)
        if row.checksum and not (folder / name).is_file():
            content = store.report_json(row) or b"null"
            if not private:
                content = json.dumps(reseal(hide(json.loads(content)))).encode()
            folder.mkdir(exist_ok=True)
            write_text(folder / name, render(parse(content, f"the report of row {row.id}")))
        addresses.append(f"{folder.name}/{name}" if row.checksum else "")
    return addresses


def _name_file(row: Row, private: bool) -> str:
    content = f"{row.checksum}{private}{assets()}"
    return f"{hashlib.sha256(content.encode()).hexdigest()[:20]}.html"
