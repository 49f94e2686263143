"""Rows of a store in files: Parquet, JSON lines and CSV, each of which is read back unchanged.

A line has the row (`Row` as JSON) and the saved report, and beside them, for other programs, the main fields of the row
and a column for the number of each metric (``value.macs``). ``number`` and ``of`` count the lines. ``digest`` covers
the columns that are read back: a file that was changed or cut off is an error when it is read, never a wrong number.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from profilerkit.errors import ArgumentError, ReportFileError
from profilerkit.foreign_text import on_terminal
from profilerkit.process.files import write_bytes, write_text
from profilerkit.render.csv import is_formula
from profilerkit.results.report import Report
from profilerkit.results.saving import parse, reseal

from .hiding import hide
from .lookup import find_run
from .rows import Row, decode
from .store import Store

__all__ = ["FORMS", "Form", "Line", "export", "read_export"]


def export(store: Store, path: str | PathLike[str], run: str | None = None, private: bool = False) -> int:
    """Write the rows of a store, or of one run, to a file, in the form of its suffix; returns their number.

    A run is named by its identifier or the beginning of it, or by its age: ``last``, ``last~1``. Without ``private``,
    secrets, names of users and hosts and absolute paths are left out of rows and reports; a report then has a new
    checksum. Raises `ArgumentError` for another suffix, a missing package or a run that the store has not, `OSError` if
    the file cannot be written.
    """
    form = _require_form(path)
    rows = list(store.rows(run=None if run is None else find_run(store, run).run))
    lines = [_make_line(store, row, number, len(rows), private) for number, row in enumerate(rows, start=1)]
    form.write(Path(path), lines)
    return len(lines)


def read_export(path: str | PathLike[str]) -> Iterator[tuple[Row, Report | None]]:
    """Yield the rows of a file of `export` with their reports; raises `ReportFileError` for a changed file."""
    file, form = Path(path), _require_form(path)
    if not file.stat().st_size:  # an export without rows has a line or a header
        raise ReportFileError(f"{file} is empty: was it cut off?")
    count = total = 0
    for count, line in enumerate(form.read(file), start=1):
        core = _require_whole(line, count, file)
        total = core.of
        parsed = parse(core.report.encode(), f"the report in line {count} of {file}") if core.report else None
        try:
            yield decode(core.row), parsed if isinstance(parsed, Report) else None
        except msgspec.MsgspecError as error:
            raise ReportFileError(f"{file}: row {count} is of another version of profilerkit: {error}") from error
    if count != total:
        raise ReportFileError(f"{file} has {count} rows of {total}: it was cut off")


def _require_form(path: str | PathLike[str]) -> Form:
    """Return the form that the suffix of a file stands for; raises `ArgumentError` for another suffix."""
    form = FORMS.get(Path(path).suffix.lower())
    if form is None:
        name = Path(path).name
        raise ArgumentError(f"{name!r}: the suffix names no export format; use one of {', '.join(FORMS)}")
    return form


# Lines ----------------------------------------------------------------------------------------------------------------


class _Core(NamedTuple):
    """The columns that a line is read back from; the others are for other programs.

    Attributes:
        number: The number of the line, from 1.
        of: How many lines the file has.
        row: The row as JSON.
        report: Its report as JSON, as it is saved; empty for a row without one.
    """

    number: int
    of: int
    row: str
    report: str

    def compute_digest(self) -> str:
        """Return the digest of these columns, which is the last column of the line."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()


def _make_line(store: Store, row: Row, number: int, total: int, private: bool) -> Line:
    """Return a line by its columns: columns for other programs, then the columns that are read back, and a digest."""
    content, report = row.to_dict(), store.report_json(row)
    report_text = "" if report is None else report.decode()
    if not private:
        content = hide(content)
        if report_text:
            hidden = reseal(hide(json.loads(report_text)))
            report_text, content["checksum"] = json.dumps(hidden, ensure_ascii=False), hidden["checksum"]
    core = _Core(number, total, json.dumps(content, ensure_ascii=False), report_text)
    return {**_list_readable(content), **core._asdict(), "digest": core.compute_digest()}


def _list_readable(content: dict[str, Any]) -> dict[str, Any]:
    """Return the columns for other programs: the plain fields of a row, its settings, and the number of each metric."""
    plain = {name: value for name, value in content.items() if not isinstance(value, (dict, list, tuple))}
    values = {f"value.{name}": value["value"] for name, value in content["values"].items()}
    return {**plain, "settings": json.dumps(content["settings"], ensure_ascii=False), **values}


def _require_whole(line: Line, number: int, file: Path) -> _Core:
    """Return the columns of a line that are read back; raises `ReportFileError` if the line is changed or misplaced.

    ``number`` counts the lines of the file from 1.
    """
    missing = [name for name in (*_Core._fields, "digest") if name not in line]
    if missing:
        raise ReportFileError(f"{file} is no export of profilerkit: line {number} has no {', '.join(missing)}")
    core = _Core(*(line[name] for name in _Core._fields))
    if line["digest"] != core.compute_digest():
        raise ReportFileError(f"{file}: the digest of row {number} does not fit: the file was changed")
    if core.number != number:
        raise ReportFileError(
            f"{file}: row {number} has the number {core.number}: rows are missing, or in another order"
        )
    return core


# Forms of files -------------------------------------------------------------------------------------------------------

#: One line of a file by its columns: texts, numbers and None. Lines of one file may have different columns: a metric of
#: some models is a column only in their lines.
Line: TypeAlias = Mapping[str, Any]

#: The columns of whole numbers; metrics (``value.macs``) and ``seconds`` are numbers, and all others are texts.
_COUNTS = ("number", "of", "attempt", "id", "peak_bytes")


def _list_columns(lines: Iterable[Line]) -> list[str]:
    """Return the columns of all lines, in the order in which they first occur."""
    return list(dict.fromkeys(column for line in lines for column in line))


# JSON lines -----------------------------------------------------------------------------------------------------------


def _write_jsonl(file: Path, lines: Sequence[Line]) -> None:
    write_text(file, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))


def _read_jsonl(file: Path) -> Iterator[Line]:
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


# CSV ------------------------------------------------------------------------------------------------------------------

#: The longest cell that is read. A report is longer than the usual limit; a C long may have 32 bits.
_LONGEST_CELL = min(sys.maxsize, 2**31 - 1)
#: The most digits of a number of 64 bits; Python refuses to read a number of many thousands of digits.
_MOST_DIGITS = 19


def _write_csv(file: Path, lines: Sequence[Line]) -> None:
    text = StringIO()
    writer = csv.DictWriter(text, _list_columns(lines), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({column: _escape(value) for column, value in line.items()} for line in lines)
    write_text(file, text.getvalue())


def _read_csv(file: Path) -> Iterator[Line]:
    """Yield the lines of a file, which is read whole, because the limit of a cell's length is set for the process."""
    previous = csv.field_size_limit(_LONGEST_CELL)
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ReportFileError(f"{file} is no CSV in UTF-8: {error}; was it cut off?") from error
    finally:
        csv.field_size_limit(previous)
    for cells in rows:
        if None in cells or None in cells.values():  # a key of None: too many cells; a value of None: too few
            raise ReportFileError(f"{file}: a row has another number of columns: was it cut off?")
        yield {column: _parse_cell(column, text) for column, text in cells.items()}


def _parse_cell(column: str, text: str) -> Any:
    """Return the value of a cell as it was before `_escape`; whole numbers are part of the digest of a line.

    A cell that `_escape` did not write gives some other text instead of an error here: its line then has another
    digest, which is the error that is reported.
    """
    if text.startswith("'"):
        text = text[1:].encode("ascii", "replace").decode("unicode_escape", "replace")
    is_number = text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number and column in _COUNTS else text


def _escape(value: Any) -> Any:
    """Return the cell of a value; a text that a terminal or a spreadsheet would execute gets an apostrophe in front."""
    if not isinstance(value, str) or not (is_formula(value) or value.startswith("'") or on_terminal(value) != value):
        return value
    return f"'{value.encode('unicode_escape').decode('ascii')}"


# Parquet --------------------------------------------------------------------------------------------------------------


def _write_parquet(file: Path, lines: Sequence[Line]) -> None:
    arrow, parquet = _import_arrow()
    arrays = {}
    for column in _list_columns(lines):
        values = [line.get(column) for line in lines]
        if column in _COUNTS:
            arrays[column] = arrow.array(values, arrow.int64())
        elif column.startswith("value.") or column == "seconds":  # a count of one model may be beyond 64 bits
            arrays[column] = arrow.array([None if value is None else float(value) for value in values], arrow.float64())
        else:
            arrays[column] = arrow.array(values, arrow.string())
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(arrays), sink)
    write_bytes(file, sink.getvalue().to_pybytes())


def _read_parquet(file: Path) -> Iterator[Line]:
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


# By suffix ------------------------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """A form of file.

    Attributes:
        write: Writes lines to a file; raises `OSError` if it cannot be written.
        read: Yields the lines of a file; raises `ReportFileError` for a file that is not of this form.
    """

    write: Callable[[Path, Sequence[Line]], None]
    read: Callable[[Path], Iterator[Line]]


#: The forms by the suffixes of files.
FORMS = {
    ".parquet": Form(_write_parquet, _read_parquet),
    ".jsonl": Form(_write_jsonl, _read_jsonl),
    ".csv": Form(_write_csv, _read_csv),
}
