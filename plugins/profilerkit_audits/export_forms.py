"""The forms of an exported file: Parquet, JSON lines and CSV, each with what writes it and what reads it again."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from profilerkit.errors import ArgumentError, ReportFileError
from profilerkit.foreign_text import on_terminal
from profilerkit.process.files import write_bytes, write_text
from profilerkit.render.csv import is_formula

__all__ = ["FORMS", "Form", "Line"]

#: One line of a file by its columns: texts, numbers and None. Lines of one file may have different columns, as a metric
#: that only some models have is a column of theirs alone.
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
#: The most digits of a number of 64 bits; Python refuses to read one of many thousands.
_MOST_DIGITS = 19


def _write_csv(file: Path, lines: Sequence[Line]) -> None:
    text = StringIO()
    writer = csv.DictWriter(text, _list_columns(lines), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({column: _escape(value) for column, value in line.items()} for line in lines)
    write_text(file, text.getvalue())


def _read_csv(file: Path) -> Iterator[Line]:
    """Yield the lines of a file, which is read whole: the limit of a cell's length is one for the whole process."""
    previous = csv.field_size_limit(_LONGEST_CELL)
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ReportFileError(f"{file} is no CSV in UTF-8: {error}; was it cut off?") from error
    finally:
        csv.field_size_limit(previous)
    for cells in rows:
        if None in cells or None in cells.values():  # what `csv` makes of too many and of too few cells
            raise ReportFileError(f"{file}: a row has another number of columns: was it cut off?")
        yield {column: _parse_cell(column, text) for column, text in cells.items()}


def _parse_cell(column: str, text: str) -> Any:
    """Return the value of a cell: CSV has texts alone, and whole numbers are part of the digest of a line."""
    plain = _unescape(text)
    is_number = plain.isdecimal() and len(plain) <= _MOST_DIGITS
    return int(plain) if is_number and column in _COUNTS else plain


def _escape(value: Any) -> Any:
    """Return the cell of a value; one that a terminal or a spreadsheet would obey is written behind an apostrophe."""
    if not isinstance(value, str) or not (is_formula(value) or value.startswith("'") or on_terminal(value) != value):
        return value
    return f"'{value.encode('unicode_escape').decode('ascii')}"


def _unescape(text: str) -> str:
    """Return the text of a cell as it was before `_escape`.

    A cell that `_escape` did not write gives some other text instead of an error here: its line then has another
    digest, which is the error that is reported.
    """
    if not text.startswith("'"):
        return text
    return text[1:].encode("ascii", "replace").decode("unicode_escape", "replace")


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
    """Return the modules ``pyarrow`` and ``pyarrow.parquet``; raises `ArgumentError` where they are not installed."""
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
