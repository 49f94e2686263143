"""Rows of a store in files for other programs: Parquet and JSON lines with the reports, and CSV for spreadsheets.

A line has the main fields of a row, and a column for the number of each metric (``value.macs``). Behind them are the
whole row (`Row` as JSON) and its report as it is saved, which CSV leaves out: no spreadsheet has a cell of that length.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from profilerkit.errors import ArgumentError
from profilerkit.process.files import write_bytes, write_text
from profilerkit.render.csv import write_csv
from profilerkit.results.saving import reseal

from .hiding import hide
from .lookup import find_run
from .rows import Row
from .store import Store

#: The columns that CSV leaves out.
_LONG = ("row", "report")
#: The columns of whole numbers; metrics (``value.macs``) and ``seconds`` are numbers, and all others are texts.
_COUNTS = ("attempt", "id", "peak_bytes")


def export(store: Store, path: str | PathLike[str], run: str | None = None, private: bool = False) -> int:
    """Write the rows of a store, or of one run, to a file, in the form of its suffix; returns their number.

    A run is named by its identifier or the beginning of it, or by its age: ``last``, ``last~1``. Without ``private``,
    secrets, names of users and hosts and absolute paths are left out of rows and reports; a report then has a new
    checksum. Raises `ArgumentError` for another suffix, a missing package or a run that the store has not, `OSError` if
    the file cannot be written.
    """
    file = Path(path)
    write = _WRITERS.get(file.suffix.lower())
    if write is None:
        suffixes = ", ".join(_WRITERS)
        raise ArgumentError(f"{file.name!r}: the suffix names no export format to write; use one of {suffixes}")
    rows = store.rows(run=None if run is None else find_run(store, run).run)
    lines = [_make_line(store, row, private) for row in rows]
    columns = list(dict.fromkeys(column for line in lines for column in line))  # a metric may be of some models alone
    write(file, columns, lines)
    return len(lines)


def _make_line(store: Store, row: Row, private: bool) -> dict[str, Any]:
    """Return a line by its columns."""
    content, report = row.to_dict(), store.report_json(row)
    report_text = "" if report is None else report.decode()
    if not private:
        content = hide(content)
        if report_text:
            hidden = reseal(hide(json.loads(report_text)))
            report_text, content["checksum"] = json.dumps(hidden, ensure_ascii=False), hidden["checksum"]
    plain = {name: value for name, value in content.items() if not isinstance(value, (dict, list, tuple))}
    settings = json.dumps(content["settings"], ensure_ascii=False)
    values = {f"value.{name}": value["value"] for name, value in content["values"].items()}
    text = json.dumps(content, ensure_ascii=False)
    return {**plain, "settings": settings, **values, "row": text, "report": report_text}


def _write_jsonl(file: Path, columns: Sequence[str], lines: Sequence[dict[str, Any]]) -> None:
    write_text(file, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))


def _write_csv(file: Path, columns: Sequence[str], lines: Sequence[dict[str, Any]]) -> None:
    write_text(file, write_csv([column for column in columns if column not in _LONG], lines))


def _write_parquet(file: Path, columns: Sequence[str], lines: Sequence[dict[str, Any]]) -> None:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise ArgumentError(f"Parquet needs pyarrow ({error}): pip install 'profilerkit[parquet]'") from error
    arrays = {}
    for column in columns:
        values = [line.get(column) for line in lines]
        kind = arrow.int64() if column in _COUNTS else arrow.string()
        if column.startswith("value.") or column == "seconds":  # a count of one model may be beyond 64 bits
            kind, values = arrow.float64(), [None if value is None else float(value) for value in values]
        arrays[column] = arrow.array(values, kind)
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(arrays), sink)
    write_bytes(file, sink.getvalue().to_pybytes())


_WRITERS = {".parquet": _write_parquet, ".jsonl": _write_jsonl, ".csv": _write_csv}
