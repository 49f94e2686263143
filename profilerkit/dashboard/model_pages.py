"""The page of each model: the report of its row in the form ``html``, in a folder beside the page of the store.

A file is named by what is in it (the report's checksum and the page's own style and script), so a page that is there
already is not written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from ..audits.hiding import hidden
from ..audits.rows import Row
from ..audits.store import Store
from ..process.files import write_text
from ..render.html import assets, render
from ..results.report import Report
from ..results.saving import parse, resealed

__all__ = ["folder_of", "write_pages"]


def folder_of(output: Path) -> Path:
    """Return the folder of the models' pages: ``audit.html`` has ``audit-models`` beside it."""
    return output.with_name(f"{output.stem}-models")


def write_pages(store: Store, rows: Mapping[int, Row], output: Path, private: bool) -> dict[int, str]:
    """Write the pages of rows that have a report; returns the relative address of each, by the key of its row.

    Raises `OSError` if a file cannot be written.
    """
    folder = folder_of(output)
    addresses = {}
    for key, row in rows.items():
        if not row.checksum:
            continue
        name = _name(row, private)
        addresses[key] = f"{folder.name}/{name}"
        if (folder / name).is_file():
            continue
        folder.mkdir(exist_ok=True)
        report = _report(store, row, private)
        if report is not None:
            write_text(folder / name, render(report))
    return addresses


def _name(row: Row, private: bool) -> str:
    content = f"{row.checksum}{private}{assets()}"
    return f"{hashlib.sha256(content.encode()).hexdigest()[:20]}.html"


def _report(store: Store, row: Row, private: bool) -> Report | None:
    content = store.report_json(row)
    if content is None:
        return None
    if not private:
        content = json.dumps(resealed(hidden(json.loads(content)))).encode()
    report = parse(content, f"the report of row {row.id}")
    return report if isinstance(report, Report) else None
