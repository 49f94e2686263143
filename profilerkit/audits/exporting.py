"""Rows of a store in files: Parquet, JSON lines and CSV, each of which is read back unchanged.

A line has the fields of a row, a column for the number of each metric (``value.macs``), all about the metrics as JSON,
and the saved report. ``checksum_of_row`` is over all other columns, ``number`` and ``of`` count the lines: a file that
was changed or cut off is an error when it is read, never a wrong number.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, ReportFileError
from ..foreign_text import on_terminal
from ..process.files import write_bytes, write_text
from ..render.csv import is_formula
from ..results.report import Report
from ..results.saving import parse, resealed
from .hiding import hidden
from .rows import Row, row_of_values
from .store import Store

__all__ = ["FORMS", "export", "form_of", "read_export"]

#: The forms by the suffixes of files.
FORMS = {".parquet": "parquet", ".jsonl": "jsonl", ".csv": "csv"}
#: Fields that are no text and no number: they are JSON in a column.
_JSON = ("settings", "metrics", "flags", "conditions", "versions", "tries")
_NUMBERS: dict[str, Callable[[str], Any]] = {"seconds": float, "peak_bytes": int, "attempt": int, "id": int}
_COUNTING = ("number", "of")
_VALUE = "value."


def form_of(path: Path) -> str:
    """Return the form of a file by its suffix; raises `ArgumentError` for another one."""
    if path.suffix.lower() not in FORMS:
        raise ArgumentError(f"{path.name!r}: the suffix names no export format; use one of {', '.join(FORMS)}")
    return FORMS[path.suffix.lower()]


def export(store: Store, path: str | PathLike[str], run: str | None = None, private: bool = False) -> int:
    """Write the rows of a store, or of one run, to a file, in the form of its suffix; returns their number.

    Without ``private``, secrets, names of users and hosts and absolute paths are left out of rows and reports; a report
    then has a new checksum. Raises `ArgumentError` for another suffix or a missing package, `OSError` if the file
    cannot be written.
    """
    file = Path(path)
    form = form_of(file)
    rows = list(store.rows(run=run))
    lines = [_line(store, row, number, len(rows), private) for number, row in enumerate(rows, start=1)]
    {"parquet": _write_parquet, "jsonl": _write_jsonl, "csv": _write_csv}[form](file, lines)
    return len(lines)


def read_export(path: str | PathLike[str]) -> Iterator[tuple[Row, Report | None]]:
    """Yield the rows of a file of `export` with their reports; raises `ReportFileError` for one that was changed."""
    file = Path(path)
    read = {"parquet": _read_parquet, "jsonl": _read_jsonl, "csv": _read_csv}[form_of(file)]
    count = total = 0
    for line in read(file):
        count += 1
        _require_whole(line, count, file)
        total = line["of"]
        report = None
        if line["report"]:
            parsed = parse(line["report"].encode(), f"the report in line {count} of {file}")
            report = parsed if isinstance(parsed, Report) else None
        content = {name: json.loads(line[name]) if name in _JSON else line[name] for name in _row_columns(line)}
        yield row_of_values(content), report
    if count != total:
        raise ReportFileError(f"{file} has {count} rows of {total}: it was cut off")


def _row_columns(line: Mapping[str, Any]) -> list[str]:
    others = (*_COUNTING, "report", "checksum_of_row")
    return [name for name in line if name not in others and not name.startswith(_VALUE)]


def _line(store: Store, row: Row, number: int, total: int, private: bool) -> dict[str, Any]:
    content, report = row.to_dict(), store.report_json(row)
    text = "" if report is None else report.decode()
    if not private:
        content = hidden(content)
        if text:
            text = json.dumps(resealed(hidden(json.loads(text))), ensure_ascii=False)
            content["checksum"] = json.loads(text)["checksum"]
    values = content.pop("values")
    line = {name: json.dumps(value, ensure_ascii=False) if name in _JSON else value for name, value in content.items()}
    line |= {"report": text, "number": number, "of": total}
    return {**line, "checksum_of_row": _checksum(line), **{f"{_VALUE}{name}": value for name, value in values.items()}}


def _checksum(line: Mapping[str, Any]) -> str:
    """Return the digest of a line; the columns of single values follow from its metrics and are not part of it."""
    content = {name: value for name, value in line.items() if name != "checksum_of_row" and _VALUE not in name[:6]}
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _require_whole(line: Mapping[str, Any], number: int, file: Path) -> None:
    missing = [name for name in (*_COUNTING, "report", "checksum_of_row", *_JSON) if name not in line]
    if missing:
        raise ReportFileError(f"{file} is no export of profilerkit: line {number} has no {', '.join(missing)}")
    if line["checksum_of_row"] != _checksum(line):
        raise ReportFileError(f"{file}: the checksum of row {number} does not fit: the file was changed")
    if line["number"] != number:
        raise ReportFileError(
            f"{file}: row {number} has the number {line['number']}: rows are missing, or in another order"
        )


def _columns(lines: Iterable[Mapping[str, Any]]) -> list[str]:
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
    from io import StringIO

    text = StringIO()
    writer = csv.DictWriter(text, _columns(lines), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({name: _to_text(value) for name, value in line.items()} for line in lines)
    write_text(file, text.getvalue())


def _read_csv(file: Path) -> Iterator[dict[str, Any]]:
    previous = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            for texts in csv.DictReader(stream):
                if None in texts or None in texts.values():
                    raise ReportFileError(f"{file}: a row has another number of columns: was it cut off?")
                yield {name: _from_text(name, text) for name, text in texts.items()}
    finally:
        csv.field_size_limit(previous)


def _to_text(value: Any) -> Any:
    """Return the cell of a value; one that a terminal or a spreadsheet would obey is written behind an apostrophe."""
    if not isinstance(value, str) or not (is_formula(value) or value.startswith("'") or on_terminal(value) != value):
        return value
    return f"'{value.encode('unicode_escape').decode('ascii')}"


def _from_text(name: str, text: str) -> Any:
    kind = int if name in _COUNTING else _NUMBERS.get(name)
    if text.startswith("'"):
        text = text[1:].encode("ascii", "replace").decode("unicode_escape", "replace")  # the checksum tells
    if kind is None:
        return text
    return kind(text) if text else None


def _write_parquet(file: Path, lines: list[dict[str, Any]]) -> None:
    arrow, parquet = _pyarrow()
    columns = _columns(lines)
    arrays = {name: [line.get(name) for line in lines] for name in columns}
    types = {name: arrow.float64() if name.startswith(_VALUE) or name == "seconds" else None for name in columns}
    types |= {name: arrow.int64() for name in ("peak_bytes", "attempt", "id", *_COUNTING)}
    table = arrow.table(
        {
            name: arrow.array(
                _floats(values) if name.startswith(_VALUE) else values, type=types.get(name) or arrow.string()
            )
            for name, values in arrays.items()
        }
    )
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    write_bytes(file, sink.getvalue().to_pybytes())


def _floats(values: list[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


def _read_parquet(file: Path) -> Iterator[dict[str, Any]]:
    arrow, parquet = _pyarrow()
    try:
        content = parquet.ParquetFile(file)
        for batch in content.iter_batches(batch_size=100):
            yield from batch.to_pylist()
    except (arrow.ArrowInvalid, OSError) as error:
        raise ReportFileError(f"{file} is no Parquet file: {error}") from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ArgumentError(f"Parquet needs pyarrow ({error}): pip install 'profilerkit[parquet]'") from error
    return pyarrow, pyarrow.parquet
