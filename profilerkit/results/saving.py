"""Reports and comparisons in files: JSON with a seal of format, schema and checksum before it.

Reading checks the seal and the type of each field: a file that was cut off, changed or written by another program is an
error that names the field, never a wrong number.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..arguments.checks import PATH
from ..errors import ReportFileError
from ..process.collector import collector_paused
from ..process.files import write_text
from .comparison import Comparison
from .plain_reports import read_report, write_report
from .report import Report
from .result import Result

__all__ = [
    "compute_checksum",
    "load",
    "load_as",
    "parse",
    "require_sealed",
    "reseal",
    "save",
    "to_dict",
    "to_json",
]

#: The formats of files, and the schema that is written.
_REPORT, _COMPARISON = "profilerkit.report", "profilerkit.comparison"
_SCHEMA = 1
#: The fields before the checksum of a file: its format, its schema, and the version that wrote it.
_HEAD = ("format", "schema", "profilerkit")
R = TypeVar("R", bound=Result)


def to_dict(result: Report | Comparison) -> dict[str, Any]:
    """Return a report, or the reports of a comparison with the reference first, as values that JSON can hold.

    Format, schema and checksum are among them.
    """
    if isinstance(result, Comparison):
        return _seal(_COMPARISON, {"reports": [write_report(report) for report in result.reports]})
    return _seal(_REPORT, write_report(result))


def to_json(result: Report | Comparison) -> str:
    """Return the text of the file that `save` writes."""
    return msgspec.json.format(msgspec.json.encode(to_dict(result)), indent=1).decode()


def save(result: Report | Comparison, path: str | PathLike[str]) -> None:
    """Write a report or comparison to a file: the whole of it, or nothing."""
    write_text(PATH("path", path), to_json(result))


def load(path: str | PathLike[str]) -> Report | Comparison:
    """Read a report or comparison from a file that `save` wrote.

    Raises `ReportFileError` for anything else: it names the wrong field and the expected content.
    """
    try:
        content = Path(PATH("path", path)).read_bytes()
    except OSError as error:
        raise ReportFileError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error
    return parse(content, os.fspath(path))


def load_as(kind: type[R], path: str | PathLike[str]) -> R:
    """Read a file that must hold a report, or a comparison."""
    loaded = load(path)
    if not isinstance(loaded, kind):
        actual, expected = type(loaded).__name__, kind.__name__
        raise ReportFileError(f"{os.fspath(path)} holds a {actual}, not a {expected}; read it with {actual}.load")
    return loaded


def parse(content: bytes, source: str) -> Report | Comparison:
    """Read the bytes of a file; ``source`` is its name in errors."""
    with _name_file(source):
        return _read_result(*_open(content, source))


def require_sealed(content: bytes, source: str) -> None:
    """Raise `ReportFileError` for bytes that are no file of `save`, or changed; `parse` checks the rest of it."""
    with _name_file(source):
        _open(content, source)


@contextmanager
def _name_file(source: str) -> Iterator[None]:
    """Name the file in every error of its content."""
    with collector_paused():  # a large report has a million values, and none of them is garbage
        try:
            yield
        except ReportFileError:
            raise
        except (ValueError, RecursionError) as error:
            raise ReportFileError(f"{source} is not a report of profilerkit, or damaged: {_shorten(error)}") from error


def _shorten(error: Exception) -> str:
    """Return the text of an error, cut if the file holds very long names."""
    message = str(error)
    return message if len(message) <= 500 else f"{message[:497]}..."


def _read_result(kind: str, body: dict[str, Any]) -> Report | Comparison:
    if kind == _REPORT:
        return read_report(body)
    reports = body.get("reports")
    if set(body) != {"reports"} or not isinstance(reports, list) or len(reports) < 2:
        raise ValueError("reports: a comparison holds two reports or more, and nothing else")
    first, *rest = (read_report(one, f"reports[{index}].") for index, one in enumerate(reports))
    return Comparison(first, tuple(rest))


# The seal -------------------------------------------------------------------------------------------------------------


def _seal(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a file of a format: the body, with the seal before it."""
    try:
        msgspec.json.encode(body)
    except UnicodeEncodeError:  # half of a surrogate pair, which a name may hold and a file may not
        body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    head = dict(zip(_HEAD, (kind, _SCHEMA, version("profilerkit")), strict=True))
    return {**head, "checksum": compute_checksum({**head, **body}), **body}


def reseal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file, of which texts were changed on purpose, with the checksum that fits."""
    body = {key: value for key, value in content.items() if key != "checksum"}
    return {**content, "checksum": compute_checksum(body)}


def compute_checksum(content: Mapping[str, Any]) -> str:
    """Return the checksum of a content without one; the order of its keys makes no difference."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _open(content: bytes, source: str) -> tuple[str, dict[str, Any]]:
    """Return the format of a file whose checksum fits, and all that is not of its seal.

    Raises `ReportFileError` for a file that is no JSON; `ValueError` for another format, or if the checksum differs.
    """
    try:
        decoded = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = "; was it cut off?" if not content or content.startswith(b"{") else ""
        raise ReportFileError(f"{source} is not a report of profilerkit: {_shorten(error)}{hint}") from error
    kind = _read_kind(decoded)
    sealed = {key: value for key, value in decoded.items() if key != "checksum"}
    if decoded.get("checksum") != compute_checksum(sealed):
        raise ValueError("checksum does not fit the content: the file was changed after it was written")
    return kind, {key: value for key, value in sealed.items() if key not in _HEAD}


def _read_kind(content: Any) -> str:
    """Return the format of a file; raises `ValueError` for another one, or another schema."""
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, no report")
    kind, schema, writer = map(content.get, _HEAD)
    if kind not in (_REPORT, _COMPARISON):
        raise ValueError(f"format is {kind!r}; that of a report is {_REPORT!r}, of a comparison {_COMPARISON!r}")
    if type(schema) is int and schema > _SCHEMA:
        raise ValueError(
            f"schema is {schema}, written by profilerkit {writer}; this profilerkit reads up to {_SCHEMA}: upgrade it"
        )
    if schema != _SCHEMA or type(schema) is not int:
        raise ValueError(f"schema is {schema!r}, which there never was in a {kind}")
    return str(kind)
