"""What the page of a store shows, as plain values that JSON holds: columns of rows, metrics, histories and runs.

Columns of texts are packed, and a metric that never moved is one number in a history, so that thousands of models stay
a small file. Texts go through `profilerkit.audits.hiding` unless the page is private.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..audits.hiding import hidden_text
from ..audits.rows import Row, Value
from ..audits.store import Run
from ..piping.quantity import Scale, scale_value
from ..piping.status import Comparative, Completeness, Metric
from ..piping.titles import title_of
from ..plugging import offers
from ..render.grids import visible
from ..render.page_parts import packed
from .subjects import Subject

__all__ = ["page_data"]

Text = Callable[[str], str]

_SCALES = {"B": Scale.IEC, "s": Scale.TIME, "%": Scale.NONE}


def page_data(
    subjects: Sequence[Subject], runs: Sequence[Run], machines: Mapping[str, Mapping[str, str]], private: bool
) -> dict[str, Any]:
    """Return the content of the page; ``subjects`` are its rows, in their order."""
    text = _shown if private else lru_cache(maxsize=None)(_hidden)
    kinds = _kinds()
    numbers = {run.run: index for index, run in enumerate(runs)}
    versions = _Distinct()
    newest = [subject.newest for subject in subjects]
    columns = _columns(newest, text)
    columns["machine"] = packed([_machine(row.machine, machines, text) for row in newest])
    columns["run"] = packed([numbers.get(row.run, -1) for row in newest])
    columns["versions"] = packed([versions.index_of(row.versions) for row in newest])
    histories = {
        index: _history(subject, numbers, versions, text)
        for index, subject in enumerate(subjects)
        if len(subject.rows) > 1
    }
    return {
        "count": len(subjects),
        "ids": [subject.id for subject in subjects],
        "columns": columns,
        "metrics": [_metric(name, newest, kinds, text) for name in _names(subjects)],
        "histories": histories,
        "versions": versions.values,
        "runs": [_run(run, machines, text) for run in runs],
    }


def _hidden(text: str) -> str:
    return visible(hidden_text(" ".join(text.split())))


def _shown(text: str) -> str:
    return visible(" ".join(text.split()))


class _Distinct:
    """Mappings, each once, and the index of each."""

    def __init__(self) -> None:
        self.values: list[dict[str, str]] = []
        self._indices: dict[str, int] = {}

    def index_of(self, value: Mapping[str, str]) -> int:
        text = json.dumps(value, sort_keys=True)
        if text not in self._indices:
            self._indices[text] = len(self.values)
            self.values.append(dict(value))
        return self._indices[text]


# Columns --------------------------------------------------------------------------------------------------------------


def _columns(rows: Sequence[Row], text: Text) -> dict[str, Any]:
    texts: dict[str, Callable[[Row], str]] = {
        "spec": lambda row: row.spec,
        "name": lambda row: row.name,
        "backend": lambda row: row.backend,
        "status": lambda row: row.status.value,
        "end": lambda row: row.end.value,
        "reason": lambda row: row.reason,
        "flags": lambda row: "; ".join(row.flags),
        "settings": lambda row: settings_text(row.settings),
        "model_type": lambda row: row.model_type,
        "commit": lambda row: _commit(row.commit),
        "created": lambda row: row.created[:19].replace("T", " "),
    }
    columns: dict[str, Any] = {name: packed([text(get(row)) for row in rows]) for name, get in texts.items()}
    columns["seconds"] = [row.seconds for row in rows]
    columns["peak_bytes"] = [row.peak_bytes for row in rows]
    columns["busy"] = [row.conditions.get("busy") for row in rows]
    return columns


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return the point of a matrix in a line.

    >>> settings_text({"batch_size": 8, "input_shape": [3, 4], "autocast": True})
    'batch_size 8, input_shape [3, 4], autocast true'
    """
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in settings.items()
    )


def _commit(commit: str) -> str:
    """Return a commit as it is written in short; a "+" at its end, for files that were changed since, stays."""
    return f"{commit[:12]}+" if commit.endswith("+") and len(commit) > 12 else commit[:12]


def _machine(machine: str, machines: Mapping[str, Mapping[str, str]], text: Text) -> str:
    facts = machines.get(machine, {})
    words = [_fact(name, value, facts) for name, value in facts.items() if name not in ("host", "user")]
    return text(", ".join(filter(None, words)) or machine[:8])


def _fact(name: str, value: str, facts: Mapping[str, str]) -> str:
    """Return a fact of a machine as people write it; empty for one that repeats another."""
    if name == "memory_bytes" and value.isdecimal():
        return f"{scale_value(int(value), 'B', Scale.IEC)} of memory"
    if name == "cores":
        return f"{value} core" if value == "1" else f"{value} cores"
    if name == "usable_cores":
        return "" if value == facts.get("cores") else f"{value} of them usable"
    return value if name in ("system", "architecture", "cpu") else f"{name} {value}"


def _run(run: Run, machines: Mapping[str, Mapping[str, str]], text: Text) -> dict[str, Any]:
    return {
        "run": run.run[:12],
        "started": run.started[:19].replace("T", " "),
        "ended": run.ended[:19].replace("T", " "),
        "outcome": run.outcome or "not ended",
        "commit": text(_commit(run.commit)),
        "machine": _machine(run.machine, machines, text),
        "profilerkit": text(str(run.facts.get("profilerkit", ""))),
    }


# Metrics --------------------------------------------------------------------------------------------------------------


def _names(subjects: Iterable[Subject]) -> list[str]:
    """Return the metrics of all rows; those that some models lack are among them."""
    return list(dict.fromkeys(name for subject in subjects for row in subject.rows for name in row.values))


def _kinds() -> dict[str, tuple[Scale, Comparative]]:
    """Return how each metric that plugins offer is scaled, and which of its values are better."""
    items = [offer.item for offer in offers.offered_status_keys()]
    return {item.NAME: (item.SCALE, item.COMPARATIVE) for item in items if issubclass(item, Metric)}


def _metric(
    name: str, rows: Sequence[Row], kinds: Mapping[str, tuple[Scale, Comparative]], text: Text
) -> dict[str, Any]:
    values = [row.values.get(name) for row in rows]
    unit = next((value.unit for value in values if value is not None and value.unit), "")
    scale, comparative = kinds.get(name, (_SCALES.get(unit, Scale.SI), Comparative.RECIPROCAL))
    incomplete = {
        index: [value.completeness.value if value.applies else "does not apply", text(value.reason)]
        for index, value in enumerate(values)
        if value is not None and value.completeness is not Completeness.COMPLETE
    }
    measured = any(value is not None and value.measured for value in values)
    content: dict[str, Any] = {
        "name": name,
        "title": title_of(name),
        "unit": text(unit),
        "scale": scale.value,
        "more": not comparative.prefers_lower and comparative is not Comparative.NONE,
        "values": [None if value is None else value.value for value in values],
        "incomplete": incomplete,
    }
    if measured:
        content["intervals"] = [_interval(value) for value in values]
    return content


def _interval(value: Value | None) -> list[float | None] | None:
    return None if value is None or not value.measured else [value.low, value.high]


def _numbered(texts: Sequence[str]) -> list[int]:
    """Return a number for each text, equal for equal ones: the page says whether they differ, and not what they are."""
    numbers = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    return [numbers[text] for text in texts]


def _history(subject: Subject, numbers: Mapping[str, int], versions: _Distinct, text: Text) -> dict[str, Any]:
    rows = subject.rows
    names = dict.fromkeys(name for row in rows for name in row.values)
    series = {name: [None if name not in row.values else row.values[name].value for row in rows] for name in names}
    return {
        "at": [row.created[:19].replace("T", " ") for row in rows],
        "run": [numbers.get(row.run, -1) for row in rows],
        "status": [row.status.value for row in rows],
        "commit": [text(_commit(row.commit)) for row in rows],
        "versions": [versions.index_of(row.versions) for row in rows],
        **{name: _numbered([getattr(row, name) for row in rows]) for name in ("code", "machine")},
        "values": {name: each[0] if len(set(each)) == 1 else each for name, each in series.items()},
    }
