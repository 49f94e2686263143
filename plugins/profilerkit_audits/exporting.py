"""Rows of a store in files: Parquet and JSON lines, which are read back unchanged, and CSV for spreadsheets.

A line has the main fields of a row, and a column for the number of each metric (``value.macs``), for other programs.
Columns that are read back have the whole row (`Row` as JSON), its report as it is saved, and the number of the line; a
``digest`` of them tells a file that was changed. CSV leaves them out: no spreadsheet has a cell of that length.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from profilerkit.errors import ArgumentError, ReportFileError
from profilerkit.process.files import write_bytes, write_text
from profilerkit.render.csv import write_csv
from profilerkit.results.report import Report
from profilerkit.results.saving import parse, reseal

from .hiding import hide
from .lookup import find_run
from .rows import Row, decode
from .store import Store

#: The columns that are read back: the number of the line, of how many lines, and what they hold.
_READ_BACK = ("number", "of", "row", "report", "digest")
#: The columns of whole numbers; metrics (``value.macs``) and ``seconds`` are numbers, and all others are texts.
_COUNTS = ("number", "of", "attempt", "id", "peak_bytes")


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
    rows = list(store.rows(run=None if run is None else find_run(store, run).run))
    lines = [_make_line(store, row, number, len(rows), private) for number, row in enumerate(rows, start=1)]
    columns = list(dict.fromkeys(column for line in lines for column in line))  # a metric may be of some models alone
    write(file, columns, lines)
    return len(lines)


def read_export(path: str | PathLike[str]) -> Iterator[tuple[Row, Report | None]]:
    """Yield the rows of a file of `export` with their reports; raises `ReportFileError` for a changed file."""
    file = Path(path)
    read = {".parquet": _read_parquet, ".jsonl": _read_jsonl}.get(file.suffix.lower())
    if read is None:
        raise ArgumentError(f"{file.name!r}: only exports to .parquet and .jsonl are read back")
    if not file.stat().st_size:  # an export without rows has a line or a header
        raise ReportFileError(f"{file} is empty: was it cut off?")
    count = total = 0
    for count, line in enumerate(read(file), start=1):
        missing = [name for name in _READ_BACK if name not in line]
        if missing:
            raise ReportFileError(f"{file} is no export of profilerkit: line {count} has no {', '.join(missing)}")
        if line["digest"] != _digest(line):
            raise ReportFileError(f"{file}: the digest of row {count} does not fit: the file was changed")
        total = line["of"]
        if line["number"] != count:
            number = line["number"]
            raise ReportFileError(f"{file}: row {count} has the number {number}: rows are missing, or in another order")
        report = parse(line["report"].encode(), f"the report in line {count} of {file}") if line["report"] else None
        try:
            yield decode(line["row"]), report if isinstance(report, Report) else None
        except msgspec.MsgspecError as error:
            raise ReportFileError(f"{file}: row {count} is of another version of profilerkit: {error}") from error
    if count != total:
        raise ReportFileError(f"{file} has {count} rows of {total}: it was cut off")


# Lines ----------------------------------------------------------------------------------------------------------------


def _make_line(store: Store, row: Row, number: int, total: int, private: bool) -> dict[str, Any]:
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
    read_back = {"number": number, "of": total, "row": text, "report": report_text}
    return {**plain, "settings": settings, **values, **read_back, "digest": _digest(read_back)}


def _digest(line: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([line[name] for name in _READ_BACK[:-1]]).encode()).hexdigest()


# Forms of files -------------------------------------------------------------------------------------------------------


def _write_jsonl(file: Path, columns: Sequence[str], lines: Sequence[dict[str, Any]]) -> None:
    write_text(file, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))


def _read_jsonl(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as stream:
        for number, text in enumerate(stream, start=1):
            if text.isspace():  # an export without rows has an empty line alone
                continue
            try:
                line = json.loads(text.decode())
            except ValueError as error:  # no JSON, or no UTF-8
                raise ReportFileError(f"{file}: line {number} is no JSON: {error}; was it cut off?") from error
            if not isinstance(line, dict):
                raise ReportFileError(f"{file}: line {number} is no row")
            yield line


def _write_csv(file: Path, columns: Sequence[str], lines: Sequence[dict[str, Any]]) -> None:
    write_text(file, write_csv([column for column in columns if column not in _READ_BACK], lines))


def _write_parquet(file: Path, columns: Sequence[str], lines: Sequence[dict[str, Any]]) -> None:
    arrow, parquet = _import_arrow()
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


def _read_parquet(file: Path) -> Iterator[dict[str, Any]]:
    arrow, parquet = _import_arrow()
    try:
        for batch in parquet.ParquetFile(file).iter_batches(batch_size=100):
            yield from batch.to_pylist()
    except (arrow.ArrowInvalid, OSError) as error:
        raise ReportFileError(f"{file} is no Parquet file: {error}") from error


def _import_arrow() -> tuple[Any, Any]:
    """Return the modules ``pyarrow`` and ``pyarrow.parquet``; raises `ArgumentError` if they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ArgumentError(f"Parquet needs pyarrow ({error}): pip install 'profilerkit[parquet]'") from error
    return pyarrow, pyarrow.parquet


_WRITERS = {".parquet": _write_parquet, ".jsonl": _write_jsonl, ".csv": _write_csv}
