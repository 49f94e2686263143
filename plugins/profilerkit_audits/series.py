"""Series: the rows of one model with one setting in the order of time, and the differences between them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from .cases import is_run_for
from .origins import shorten_commit
from .rows import Row, RowStatus, Value


@dataclass(frozen=True)
class CaseName:
    """The name of a case, equal in each run: the text of a model, and a setting (as JSON, with sorted keys)."""

    spec: str
    settings: str = "{}"

    @classmethod
    def of(cls, row: Row) -> CaseName:
        """Return the case of a row."""
        return cls(row.spec, json.dumps(row.settings, sort_keys=True, default=str))

    def __str__(self) -> str:
        settings: Mapping[str, Any] = json.loads(self.settings)
        text = ", ".join(f"{name}={value}" for name, value in settings.items())
        return f"{self.spec} ({text})" if text else self.spec


def group_by_case(rows: Iterable[Row]) -> dict[CaseName, list[Row]]:
    """Return the rows of each case, the oldest first; the cases in the order in which they first occur in time."""
    series: dict[CaseName, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.created, row.id or 0, row.attempt)):
        series.setdefault(CaseName.of(row), []).append(row)
    return series


def join_rows(rows: Sequence[Row]) -> Row:
    """Return rows of one case as one: several entries of a plan may measure the same case, each with other metrics.

    The result has the values of all rows; if several rows name a metric, the last value counts. The status is the
    worst, with the failure and the reason of its row. The flags are from all rows; other fields are from the last row
    with a report.

    >>> counted = Row("net.py:build", "k", RowStatus.COMPLETE, values={"macs": Value(56, "MACs")})
    >>> crashed = Row("net.py:build", "l", RowStatus.FAILED, reason="the process ended")
    >>> joined = join_rows([crashed, counted])
    >>> joined["macs"], str(joined.status), joined.reason
    (56, 'failed', 'the process ended')
    """
    last = next((row for row in reversed(rows) if row.checksum), rows[-1])
    worst = max(rows, key=lambda row: list(RowStatus).index(row.status))
    return replace(
        last,
        status=worst.status,
        failure=worst.failure,
        reason=worst.reason,
        values={metric: row.values[metric] for metric, row in find_sources(rows).items()},
        flags=tuple(dict.fromkeys(flag for row in rows for flag in row.flags)),
    )


def find_sources(rows: Iterable[Row], earlier: Mapping[str, Row] | None = None) -> dict[str, Row]:
    """Return by metric the last row with a value of the metric; if there is none, the last row that names the metric.

    ``earlier`` is the result for the rows before.
    """
    sources = dict(earlier or {})
    for row in rows:
        for metric, value in row.values.items():
            if value.has_value or metric not in sources or not sources[metric].values[metric].has_value:
                sources[metric] = row
    return sources


def is_exact(metric: str, value: Value) -> bool:
    """Return whether a value is a count, which is equal whenever and wherever it is counted.

    Measurements, and all metrics that run the model, differ from run to run.
    """
    return not value.is_measured and not _is_run_for(metric)


def has_exact_numbers(metric: str, before: Value, after: Value) -> bool:
    """Return whether both values are numbers that can be compared exactly."""
    return all(value.value is not None and is_exact(metric, value) for value in (before, after))


def is_same(before: Value, after: Value) -> bool:
    """Return whether two exact values are equal: in their numbers, their bounds and their gaps."""
    return (before.value, before.completeness, before.sign) == (after.value, after.completeness, after.sign)


@lru_cache(maxsize=1000)
def _is_run_for(metric: str) -> bool:
    return is_run_for((metric,))


def find_causes(before: Row, after: Row) -> tuple[str, ...]:
    """Return the other differences between two rows of a case: versions of packages, code, commit, kind of machine."""
    versions = sorted({*before.versions, *after.versions})
    changed = [
        f"{name} {before.versions.get(name, 'absent')} -> {after.versions.get(name, 'absent')}"
        for name in versions
        if before.versions.get(name) != after.versions.get(name)
    ]
    if before.code != after.code:
        changed.append("the model's own code")
    if before.commit != after.commit:
        old, new = (shorten_commit(row.commit) or "none" for row in (before, after))
        changed.append(f"commit {old} -> {new}")
    if before.machine != after.machine:
        changed.append("the kind of machine")
    return tuple(changed)
