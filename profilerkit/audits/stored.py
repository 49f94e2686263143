"""How rows are written in the columns of a store, and read from them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..piping.status import Completeness
from .rows import End, Row, RowStatus, Value

__all__ = ["cleaned", "decoded", "encoded", "row_of", "row_values", "value_rows"]

_TEXTS = ("spec", "key", "name", "backend", "model_type", "fingerprint", "reason", "code", "commit", "machine", "run")
_PLAIN = ("seconds", "peak_bytes", "attempt", "created", "checksum")
_JSON = ("settings", "conditions", "versions", "tries", "flags")


def encoded(content: Any) -> str:
    """Return JSON without a NUL, which PostgreSQL does not keep, and with every number that a float can be."""
    return cleaned(json.dumps(content, ensure_ascii=True, sort_keys=False, default=list))


def decoded(text: str) -> Any:
    """Return what `encoded` has written."""
    return json.loads(text)


def cleaned(text: str) -> str:
    r"""Return a text that every database keeps: without NULs and halves of surrogate pairs.

    >>> cleaned("a\x00b")
    'a\ufffdb'
    """
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def row_values(row: Row) -> dict[str, Any]:
    """Return the columns of a row."""
    texts = {name: cleaned(getattr(row, name)) for name in _TEXTS}
    texts["backend"] = texts["backend"][:100]
    plain = {name: getattr(row, name) for name in _PLAIN}
    content = {name: encoded(getattr(row, name)) for name in _JSON}
    return {**texts, **plain, **content, "status": row.status.value, "end": row.end.value}


def value_rows(row: Row) -> list[dict[str, Any]]:
    """Return the columns of the values of a row that has its number."""
    return [
        {
            "row": row.id,
            "metric": cleaned(metric)[:200],
            "index": index,
            "value": _double(value.value),
            "exact": encoded(value.value),
            "unit": cleaned(value.unit)[:40],
            "completeness": value.completeness.value,
            "reason": cleaned(value.reason),
            "low": encoded(value.low),
            "high": encoded(value.high),
            "samples": value.samples,
            "noise": _double(value.noise),
            "shown": cleaned(value.shown),
        }
        for index, (metric, value) in enumerate(row.values.items())
    ]


def _double(number: float | None) -> float | None:
    """Return a number as a float; None for one that no float is."""
    try:
        double = None if number is None else float(number)
    except OverflowError:
        return None
    return double if double is not None and math.isfinite(double) else None


def row_of(line: Mapping[str, Any], values: Iterable[Mapping[str, Any]]) -> Row:
    """Return the row of its columns and those of its values."""
    content = {name: line[name] for name in (*_TEXTS, *_PLAIN)}
    read = {name: decoded(line[name]) for name in _JSON}
    read["flags"] = tuple(read["flags"])
    read["tries"] = {name: tuple(medians) for name, medians in read["tries"].items()}
    return Row(
        **content,
        **read,
        id=line["id"],
        status=RowStatus(line["status"]),
        end=End(line["end"]),
        values={value["metric"]: _value(value) for value in values},
    )


def _value(line: Mapping[str, Any]) -> Value:
    return Value(
        decoded(line["exact"]),
        unit=line["unit"],
        completeness=Completeness(line["completeness"]),
        reason=line["reason"],
        low=decoded(line["low"]),
        high=decoded(line["high"]),
        samples=line["samples"],
        noise=line["noise"],
        shown=line["shown"],
    )
