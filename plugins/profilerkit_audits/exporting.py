"""Rows of a store in files: Parquet, JSON lines and CSV, each of which is read back unchanged.

A line has the row (`Row` as JSON) and the saved report, and beside them, for other programs, the main fields of the row
and a column for the number of each metric (``value.macs``). ``number`` and ``of`` count the lines, and ``digest`` is
that of all that is read back: a file that was changed or cut off is an error when it is read, never a wrong number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from profilerkit.errors import ArgumentError, ReportFileError
from profilerkit.results.report import Report
from profilerkit.results.saving import parse, reseal

from .export_forms import FORMS, Form, Line
from .hiding import hide
from .rows import Row, decode
from .series import find_run
from .store import Store

__all__ = ["export", "read_export"]


def export(store: Store, path: str | PathLike[str], run: str | None = None, private: bool = False) -> int:
    """Write the rows of a store, or of one run, to a file, in the form of its suffix; returns their number.

    A run is named by its identifier, by the beginning of it, or by its age: ``last``, ``last~1``. Without ``private``,
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
    """Yield the rows of a file of `export` with their reports; raises `ReportFileError` for one that was changed."""
    file, form = Path(path), _require_form(path)
    count = total = 0
    for count, line in enumerate(form.read(file), start=1):
        core = _require_whole(line, count, file)
        total = core.of
        report = _parse_report(core.report, f"the report in line {count} of {file}")
        try:
            yield decode(core.row), report
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
    """Return a line by its columns: those for other programs, then those that are read back, and their digest."""
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
    """Return what a line is read back from; raises `ReportFileError` unless it is the line of that number, unchanged.

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


def _parse_report(text: str, source: str) -> Report | None:
    """Return the report of a line; None for a row without one."""
    parsed = parse(text.encode(), source) if text else None
    return parsed if isinstance(parsed, Report) else None
