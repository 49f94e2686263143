"""What each file begins with: its format, the version of its schema, who wrote it, and a checksum of all of that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

import msgspec

__all__ = ["COMPARISON", "REPORT", "SCHEMA", "Opened", "compute_checksum", "open_content", "reseal", "seal"]

#: The formats of files, and the schema that is written.
REPORT, COMPARISON = "profilerkit.report", "profilerkit.comparison"
SCHEMA = 1


class Opened(NamedTuple):
    """The content of a file whose checksum fits: its format, and all that is not of its seal."""

    kind: str
    body: dict[str, Any]


def seal(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a file of a format: the body, with the seal before it."""
    try:
        msgspec.json.encode(body)
    except UnicodeEncodeError:  # half of a surrogate pair, which a name may hold and a file may not
        body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    head = {"format": kind, "schema": SCHEMA, "profilerkit": _read_own_version()}
    return {**head, "checksum": compute_checksum({**head, **body}), **body}


@cache
def _read_own_version() -> str:
    """Return the version of profilerkit; a separate process seals each report several times, and reading takes long."""
    return version("profilerkit")


def reseal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file, of which texts were changed on purpose, with the checksum that fits."""
    body = {key: value for key, value in content.items() if key != "checksum"}
    return {**content, "checksum": compute_checksum(body)}


def compute_checksum(content: Mapping[str, Any]) -> str:
    """Return the checksum of a content without one; the order of its keys makes no difference."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def open_content(content: dict[str, Any]) -> Opened:
    """Return the kind and the body of a file; raises `ValueError` for another schema, or where the checksum differs."""
    kind, schema, writer = (content.get(name) for name in ("format", "schema", "profilerkit"))
    if kind not in (REPORT, COMPARISON):
        raise ValueError(f"format is {kind!r}; that of a report is {REPORT!r}, of a comparison {COMPARISON!r}")
    if type(schema) is int and schema > SCHEMA:
        raise ValueError(
            f"schema is {schema}, written by profilerkit {writer}; this profilerkit reads up to {SCHEMA}: upgrade it"
        )
    if schema != SCHEMA or type(schema) is not int:
        raise ValueError(f"schema is {schema!r}, which there never was in a {kind}")
    sealed = {key: value for key, value in content.items() if key != "checksum"}
    if content.get("checksum") != compute_checksum(sealed):
        raise ValueError("checksum does not fit the content: the file was changed after it was written")
    body = {key: value for key, value in sealed.items() if key not in ("format", "schema", "profilerkit")}
    return Opened(kind, body)
