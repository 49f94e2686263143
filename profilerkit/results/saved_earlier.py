"""Saved results of earlier schemas, brought up to date.

Schema 1 is what ``Report.to_dict()`` returned before files had a format, a checksum, operators and memory. It had no
units of its own, no warm-up and no sessions: ratios of its measurements are those of unpaired samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..piping.quantity import Scale, scale_value
from ..piping.status import Metric, is_number
from ..times.measurement import Measurement
from ..trace.records import LayerTable
from .json_values import to_plain

__all__ = ["COMPARISON", "REPORT", "brought_up_to_date"]

#: The formats of files.
REPORT, COMPARISON = "profilerkit.report", "profilerkit.comparison"

_REPORT_1 = {
    *("name", "backend", "model_type", "batch_size", "inputs", "statuses", "layers", "notes", "environment", "created"),
}
_STATUS_1 = {
    *("key", "friendly_name", "description", "value", "shown", "comparative", "completeness", "missing", "note"),
}


def brought_up_to_date(content: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and today's body of what a file of schema 1 holds; None for any other file.

    Raises `ValueError` where the file is of schema 1 but lacks what that has.
    """
    if set(content) == _REPORT_1:
        return REPORT, _report(content, "")
    if set(content) == {"reference", "others"} and isinstance(content["others"], list):
        every = [content["reference"], *content["others"]]
        return COMPARISON, {"reports": [_report(one, f"reports[{place}].") for place, one in enumerate(every)]}
    return None


def _report(old: Any, where: str) -> dict[str, Any]:
    if not isinstance(old, dict) or set(old) != _REPORT_1:
        raise ValueError(f"{where or 'it'} holds no report of schema 1")
    for name in ("statuses", "layers"):
        if not isinstance(old[name], list) or not all(isinstance(item, dict) for item in old[name]):
            raise ValueError(f"{where}{name} is no list of mappings")
    layers = _layers(old["layers"], f"{where}layers")
    return {
        **old,
        "statuses": [_status(status, f"{where}statuses[{place}]") for place, status in enumerate(old["statuses"])],
        "layers": layers,
        "fingerprint": "",
        "arguments": {},
        "data": {},
        "operators": None,
        "memory": None,
    }


def _status(old: dict[str, Any], where: str) -> dict[str, Any]:
    if set(old) != _STATUS_1:
        raise ValueError(
            f"{where} has the fields {', '.join(map(str, old))}; schema 1 has {', '.join(sorted(_STATUS_1))}"
        )
    value, unit, scale = _value(old["value"], where), *_units(old["key"])
    number = value["median"] if isinstance(value, dict) and value.get("type") == "measurement" else value
    shown_unit = scale_value(float(number), unit, scale).unit if is_number(number) else ""
    new = {**old, "value": value, "unit": shown_unit, "base_unit": unit, "scale": scale.value}
    if value is None and old["completeness"] in ("complete", "partial"):
        new |= {"completeness": "unavailable", "missing": ["a file of schema 1 could not hold this value"]}
    return new


def _value(old: Any, where: str) -> Any:
    if isinstance(old, dict) and set(old) == {"median", "low", "high", "samples"}:
        if not isinstance(old["samples"], list) or not old["samples"] or not all(map(is_number, old["samples"])):
            raise ValueError(f"{where}.value.samples is no list of numbers")
        new = to_plain(Measurement(tuple(map(float, old["samples"]))))
        if new["median"] != old["median"]:
            raise ValueError(
                f"{where}.value.median is {old['median']!r:.40}, but that of its samples is {new['median']!r}"
            )
        return new
    if isinstance(old, list) and old and all(isinstance(row, dict) and "path" in row for row in old):
        return _layers(old, f"{where}.value")
    return to_plain(old)


def _layers(rows: list[dict[str, Any]], where: str) -> Any:
    if not rows:
        return None
    wrong = next((place for place, row in enumerate(rows) if list(row) != list(rows[0])), None)
    if wrong is not None:
        raise ValueError(f"{where}[{wrong}] has other columns than the first row")
    return to_plain(LayerTable(rows))


def _units(key: Any) -> tuple[str, Scale]:
    """Return the base unit and scale of a metric by its key; schema 1 did not hold them."""
    from ..plugging.offers import offered_status_keys

    for offer in offered_status_keys():
        if key == offer.item.NAME and issubclass(offer.item, Metric):
            return offer.item.UNIT, offer.item.SCALE
    return "", Scale.NONE
