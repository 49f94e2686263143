"""Series: what was measured of one model with one setting, in the order of time; and the runs of a store by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from os import PathLike
from typing import Any

from msgspec.structs import replace

from profilerkit.count_text import format_count
from profilerkit.errors import ArgumentError, by_likeness

from .cases import is_run_for
from .machines import shorten_commit
from .rows import Row, RowStatus, Value
from .store import Run, Store

__all__ = [
    "CaseName",
    "find_causes",
    "find_rows",
    "find_run",
    "find_sources",
    "group_by_case",
    "has_exact_numbers",
    "is_exact",
    "is_same",
    "join_rows",
    "open_store",
]

_LAST = re.compile(r"last(?:~(\d+))?")


@dataclass(frozen=True)
class CaseName:
    """What stays the same from run to run: the text of a model, and a setting (as JSON, with sorted keys)."""

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


@contextmanager
def open_store(store: Store | str | PathLike[str]) -> Iterator[Store]:
    """Open a store to read it; one that is open already stays so."""
    if isinstance(store, Store):
        yield store
    else:
        with Store.open(store, create=False) as opened:
            yield opened


def group_by_case(rows: Iterable[Row]) -> dict[CaseName, list[Row]]:
    """Return the rows of each case, the oldest first; the cases in the order in which they first occur in time."""
    series: dict[CaseName, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.created, row.id or 0, row.attempt)):
        series.setdefault(CaseName.of(row), []).append(row)
    return series


def join_rows(rows: Sequence[Row]) -> Row:
    """Return rows of one case as one: several entries of a plan may measure the same case, each with other metrics.

    The values are those of all rows; of a metric that several rows name, that of the last one that has a value. The
    status is the worst, with the failure and the reason of the row that has it. All else is that of the last row with a
    report.

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
    """Return by metric the last of the rows that has a value of it; the last that names it while none has one.

    ``earlier`` is what this returned for the rows before.
    """
    sources = dict(earlier or {})
    for row in rows:
        for metric, value in row.values.items():
            if value.has_value or metric not in sources or not sources[metric].values[metric].has_value:
                sources[metric] = row
    return sources


def is_exact(metric: str, value: Value) -> bool:
    """Return whether a value is a count, which is equal whenever and wherever it is counted.

    What was measured, and each metric that runs the model, differs from run to run.
    """
    return not value.is_measured and not _is_run_for(metric)


def has_exact_numbers(metric: str, before: Value, after: Value) -> bool:
    """Return whether both values are numbers that can be compared exactly."""
    return all(value.value is not None and is_exact(metric, value) for value in (before, after))


def is_same(before: Value, after: Value) -> bool:
    """Return whether two exact values are equal: in their numbers, and in what is known of what is not counted."""
    return (before.value, before.completeness, before.sign) == (after.value, after.completeness, after.sign)


@lru_cache(maxsize=1000)
def _is_run_for(metric: str) -> bool:
    return is_run_for((metric,))


def find_causes(before: Row, after: Row) -> tuple[str, ...]:
    """Return what else differs between two rows of a case: versions of packages, code, commit, kind of machine."""
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


def find_rows(store: Store, model: str) -> list[Row]:
    """Return all rows of a model, each attempt: by spec, by a pattern of specs, or by the name in its report.

    Raises `ArgumentError` for a model that the store has not, with the nearest specs.
    """
    rows = list(store.rows(spec=model, all_attempts=True)) or list(store.rows(all_attempts=True))
    specs = {row.spec for row in rows if model in (row.spec, row.name) or fnmatchcase(row.spec, model)}
    if not specs:
        nearest = ", ".join(by_likeness(model, dict.fromkeys(row.spec for row in rows))[:5])
        raise ArgumentError(
            f"the store has no model {model!r}; {f'the nearest are: {nearest}' if nearest else 'it has no rows'}"
        )
    return [row for row in rows if row.spec in specs]


def find_run(store: Store, name: str) -> Run:
    """Return a run by its identifier, by the beginning of it, or by its age: ``last``, ``last~1`` the one before.

    Raises `ArgumentError` if there is none, or if several begin so.
    """
    runs = store.runs()
    match = _LAST.fullmatch(name)
    if match is not None:
        age = int(match.group(1) or 0)
        if age < len(runs):
            return runs[-1 - age]
        raise ArgumentError(f"there is no run {name!r}: the store has {format_count(len(runs), 'run')}")
    matching = [run for run in runs if name and run.run.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    newest = ", ".join(f"{run.run[:12]} of {run.started[:16]}" for run in reversed(runs[-5:])) or "none"
    if matching:
        raise ArgumentError(f"{len(matching)} runs begin with {name!r}; give more of its identifier, or last~N")
    raise ArgumentError(f"there is no run {name!r}; the newest are: {newest}; 'last' and 'last~1' are names too")
