"""Rows of a store in files: Parquet and JSON lines, which are read back unchanged, and CSV for spreadsheets.

A line has the row (`Row` as JSON) and the saved report, and beside them, for other programs, the main fields of the row
and a column for the number of each metric (``value.macs``). ``number`` and ``of`` count the lines. ``digest`` covers
the columns that are read back: a file that was changed or cut off is an error when it is read, never a wrong number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

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


def export(store: Store, path: str | PathLike[str], run: str | None = None, private: bool = False) -> int:
    """Write the rows of a store, or of one run, to a file, in the form of its suffix; returns their number.

    A run is named by its identifier or the beginning of it, or by its age: ``last``, ``last~1``. Without ``private``,
    secrets, names of users and hosts and absolute paths are left out of rows and reports; a report then has a new
    checksum. Raises `ArgumentError` for another suffix, a missing package or a run that the store has not, `OSError` if
    the file cannot be written.
    """
    write = _choose(_WRITERS, Path(path), "to write")
    rows = list(store.rows(run=None if run is None else find_run(store, run).run))
    lines = [_make_line(store, row, number, len(rows), private) for number, row in enumerate(rows, start=1)]
    write(Path(path), lines)
    return len(lines)


def read_export(path: str | PathLike[str]) -> Iterator[tuple[Row, Report | None]]:
    """Yield the rows of a file of `export` with their reports; raises `ReportFileError` for a changed file."""
    file = Path(path)
    read = _choose(_READERS, file, "that is read back")
    if not file.stat().st_size:  # an export without rows has a line or a header
        raise ReportFileError(f"{file} is empty: was it cut off?")
    count = total = 0
    for count, line in enumerate(read(file), start=1):
        core = _require_whole(line, count, file)
        total = core.of
        parsed = parse(core.report.encode(), f"the report in line {count} of {file}") if core.report else None
        try:
            yield decode(core.row), parsed if isinstance(parsed, Report) else None
        except msgspec.MsgspecError as error:
            raise ReportFileError(f"{file}: row {count} is of another version of profilerkit: {error}") from error
    if count != total:
        raise ReportFileError(f"{file} has {count} rows of {total}: it was cut off")


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


#: The columns of a line that is read back.
_READ_BACK = (*_Core._fields, "digest")


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
    missing = [name for name in _READ_BACK if name not in line]
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


def _write_csv(file: Path, lines: Sequence[Line]) -> None:
    """Write the columns for other programs alone: no spreadsheet has a cell that is as long as a report."""
    columns = [column for column in _list_columns(lines) if column not in _READ_BACK]
    write_text(file, write_csv(columns, lines))


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

#: What writes lines to a file, by its suffix; raises `OSError` if it cannot be written.
_WRITERS = {".parquet": _write_parquet, ".jsonl": _write_jsonl, ".csv": _write_csv}
#: What yields the lines of a file; raises `ReportFileError` for a file that is not of this form.
_READERS = {".parquet": _read_parquet, ".jsonl": _read_jsonl}
_Function = TypeVar("_Function")


def _choose(functions: Mapping[str, _Function], file: Path, what: str) -> _Function:
    """Return the function for the suffix of a file; raises `ArgumentError` for another suffix."""
    function = functions.get(file.suffix.lower())
    if function is None:
        suffixes = ", ".join(functions)
        raise ArgumentError(f"{file.name!r}: the suffix names no export format {what}; use one of {suffixes}")
    return function
