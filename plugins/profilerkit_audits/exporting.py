"""Rows of a store in files: Parquet, JSON lines and CSV, each of which is read back unchanged.

A line has the row (`Row` as JSON) and the saved report, and beside them, for other programs, the main fields of the row
and a column for the number of each metric (``value.macs``). ``number`` and ``of`` count the lines, and ``digest`` is
that of all that is read back: a file that was changed or cut off is an error when it is read, never a wrong number.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from profilerkit.errors import ArgumentError, ReportFileError
from profilerkit.foreign_text import on_terminal
from profilerkit.process.files import write_bytes, write_text
from profilerkit.render.csv import is_formula
from profilerkit.results.report import Report
from profilerkit.results.saving import parse, reseal

from .hiding import hide
from .rows import Row, decode
from .series import find_run
from .store import Store

__all__ = ["export", "read_export"]

#: What a line is read back from, and what its digest is of.
_READ_BACK = ("number", "of", "row", "report")
#: The columns of whole numbers.
_COUNTS = ("number", "of", "attempt", "id", "peak_bytes")


def export(store: Store, path: str | PathLike[str], run: str | None = None, private: bool = False) -> int:
    """Write the rows of a store, or of one run, to a file, in the form of its suffix; returns their number.

    A run is named by its identifier, by the beginning of it, or by its age: ``last``, ``last~1``. Without ``private``,
    secrets, names of users and hosts and absolute paths are left out of rows and reports; a report then has a new
    checksum. Raises `ArgumentError` for another suffix, a missing package or a run that the store has not, `OSError` if
    the file cannot be written.
    """
    file, suffix = Path(path), _require_suffix(path)
    rows = list(store.rows(run=None if run is None else find_run(store, run).run))
    lines = [_make_line(store, row, number, len(rows), private) for number, row in enumerate(rows, start=1)]
    write, _ = _FORMS[suffix]
    write(file, lines)
    return len(lines)


def read_export(path: str | PathLike[str]) -> Iterator[tuple[Row, Report | None]]:
    """Yield the rows of a file of `export` with their reports; raises `ReportFileError` for one that was changed."""
    file = Path(path)
    _, read = _FORMS[_require_suffix(path)]
    count = total = 0
    for count, line in enumerate(read(file), start=1):
        _require_whole(line, count, file)
        total = line["of"]
        report = _parse_report(line["report"], f"the report in line {count} of {file}")
        try:
            yield decode(line["row"]), report
        except msgspec.MsgspecError as error:
            raise ReportFileError(f"{file}: row {count} is of another version of profilerkit: {error}") from error
    if count != total:
        raise ReportFileError(f"{file} has {count} rows of {total}: it was cut off")


def _parse_report(text: str, source: str) -> Report | None:
    """Return the report of a line; None for a row without one."""
    parsed = parse(text.encode(), source) if text else None
    return parsed if isinstance(parsed, Report) else None


def _require_suffix(path: str | PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMS:
        name = Path(path).name
        raise ArgumentError(f"{name!r}: the suffix names no export format; use one of {', '.join(_FORMS)}")
    return suffix


def _make_line(store: Store, row: Row, number: int, total: int, private: bool) -> dict[str, Any]:
    """Return a line by its columns: those for other programs, then those that are read back, and their digest."""
    content, report = row.to_dict(), store.report_json(row)
    text = "" if report is None else report.decode()
    if not private:
        content = hide(content)
        if text:
            hidden = reseal(hide(json.loads(text)))
            text, content["checksum"] = json.dumps(hidden, ensure_ascii=False), hidden["checksum"]
    plain = {name: value for name, value in content.items() if not isinstance(value, (dict, list, tuple))}
    settings = json.dumps(content["settings"], ensure_ascii=False)
    values = {f"value.{name}": value["value"] for name, value in content["values"].items()}
    read_back = {"number": number, "of": total, "row": json.dumps(content, ensure_ascii=False), "report": text}
    return {**plain, "settings": settings, **values, **read_back, "digest": _compute_digest(read_back)}


def _compute_digest(line: Mapping[str, Any]) -> str:
    """Return the digest of what is read back of a line."""
    return hashlib.sha256(json.dumps([line[name] for name in _READ_BACK]).encode()).hexdigest()


def _require_whole(line: Mapping[str, Any], number: int, file: Path) -> None:
    """Raise `ReportFileError` for a line that is not the one of that number as it was written."""
    missing = [name for name in (*_READ_BACK, "digest") if name not in line]
    if missing:
        raise ReportFileError(f"{file} is no export of profilerkit: line {number} has no {', '.join(missing)}")
    if line["digest"] != _compute_digest(line):
        raise ReportFileError(f"{file}: the digest of row {number} does not fit: the file was changed")
    if line["number"] != number:
        raise ReportFileError(
            f"{file}: row {number} has the number {line['number']}: rows are missing, or in another order"
        )


def _list_columns(lines: list[dict[str, Any]]) -> list[str]:
    """Return the columns of all lines: metrics that only some models have are among them."""
    return list(dict.fromkeys(name for line in lines for name in line))


# Forms ----------------------------------------------------------------------------------------------------------------


def _write_jsonl(file: Path, lines: list[dict[str, Any]]) -> None:
    write_text(file, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))


def _read_jsonl(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as stream:
        for number, text in enumerate(stream, start=1):
            try:
                line = json.loads(text)
            except ValueError as error:
                raise ReportFileError(f"{file}: line {number} is no JSON: {error}; was it cut off?") from error
            if not isinstance(line, dict):
                raise ReportFileError(f"{file}: line {number} is no row")
            yield line


def _write_csv(file: Path, lines: list[dict[str, Any]]) -> None:
    text = StringIO()
    writer = csv.DictWriter(text, _list_columns(lines), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({name: _escape(value) for name, value in line.items()} for line in lines)
    write_text(file, text.getvalue())


def _read_csv(file: Path) -> Iterator[dict[str, Any]]:
    previous = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a report is longer than the usual limit
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            for texts in csv.DictReader(stream):
                if None in texts or None in texts.values():
                    raise ReportFileError(f"{file}: a row has another number of columns: was it cut off?")
                line: dict[str, Any] = {name: _unescape(text) for name, text in texts.items()}
                for name in ("number", "of"):  # the numbers in the digest
                    if line.get(name, "").isdecimal():
                        line[name] = int(line[name])
                yield line
    finally:
        csv.field_size_limit(previous)


def _escape(value: Any) -> Any:
    """Return the cell of a value; one that a terminal or a spreadsheet would obey is written behind an apostrophe."""
    if not isinstance(value, str) or not (is_formula(value) or value.startswith("'") or on_terminal(value) != value):
        return value
    return f"'{value.encode('unicode_escape').decode('ascii')}"


def _unescape(text: str) -> str:
    if not text.startswith("'"):
        return text
    return text[1:].encode("ascii", "replace").decode("unicode_escape", "replace")  # the digest tells


def _write_parquet(file: Path, lines: list[dict[str, Any]]) -> None:
    arrow, parquet = _import_arrow()
    arrays = {}
    for name in _list_columns(lines):
        values = [line.get(name) for line in lines]
        kind = arrow.int64() if name in _COUNTS else arrow.string()
        if name.startswith("value.") or name == "seconds":
            values, kind = [None if value is None else float(value) for value in values], arrow.float64()
        arrays[name] = arrow.array(values, type=kind)
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
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ArgumentError(f"Parquet needs pyarrow ({error}): pip install 'profilerkit[parquet]'") from error
    return pyarrow, pyarrow.parquet


#: What writes the lines of an export, and what reads them again, by the suffix of the file.
_FORMS = {
    ".parquet": (_write_parquet, _read_parquet),
    ".jsonl": (_write_jsonl, _read_jsonl),
    ".csv": (_write_csv, _read_csv),
}
