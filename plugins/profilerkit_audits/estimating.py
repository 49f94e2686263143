"""The cases that an audit would run, and the estimated time: from earlier rows of the same models, if there are any."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from profilerkit.count_text import format_count

from .cases import Case
from .database import parse_url
from .local_engine import count_cores
from .running import Audit
from .store import Store
from .summary import NOT_IN_KEY, shorten_store

#: How many cases the text names.
_NAMED = 200


class PlannedCase(msgspec.Struct, frozen=True):
    """A case of a plan.

    Attributes:
        spec: The text by which its model is loaded.
        settings: Its point of the matrix.
        problem: Why it cannot be run; empty if it can. Without a run it is stored as failed.
        runs: Whether it would run; False if it is in the store or has a problem.
        seconds: The longest time of a row of its model; None without an earlier row.
    """

    spec: str
    settings: dict[str, Any]
    problem: str
    runs: bool
    seconds: float | None


class Estimate(msgspec.Struct, frozen=True):
    """The cases that an audit would run, and the estimated time.

    Attributes:
        store: The URL of the store.
        seconds: The estimate of the whole; None if no case that would run has an earlier row.
        based_on: How many of the cases that would run have earlier rows of their models.
        cases: The cases of the plan.
    """

    store: str
    seconds: float | None
    based_on: int
    cases: list[PlannedCase]


def estimate(audit: Audit) -> Estimate:
    """Return the cases that an audit would run; its store is read if it exists, and not created.

    Models that are only counted share the cores; timed models run one after the other.
    """
    unstored, longest = _read_store(audit)
    pending = [case for case in unstored if not case.problem]
    keys = {case.key for case in pending}
    earlier = [longest[case.spec] for case in pending if case.spec in longest]
    seconds = None
    if earlier:
        mean = sum(earlier) / len(earlier)
        timed = [longest.get(case.spec, mean) for case in pending if case.is_timed]
        counted = [longest.get(case.spec, mean) for case in pending if not case.is_timed]
        seconds = _sum_runs(timed, counted, audit.plan.workers or count_cores())
    cases = [
        PlannedCase(case.spec, dict(case.settings), case.problem, case.key in keys, longest.get(case.spec))
        for case in audit.cases.values()
    ]
    return Estimate(audit.url, seconds, len(earlier), cases)


def _sum_runs(timed: Sequence[float], counted: Sequence[float], workers: int) -> float:
    """Return the seconds of all runs, from the seconds of each: a timed model is alone, a free worker counts the next.

    >>> _sum_runs([5, 5], [], 2), _sum_runs([], [5, 5, 5], 2)
    (10.0, 10.0)
    """
    busy = [0.0] * workers
    for seconds in counted:
        heapq.heapreplace(busy, busy[0] + seconds)
    return round(max(busy) + sum(timed), 1)


def _read_store(audit: Audit) -> tuple[list[Case], dict[str, float]]:
    """Return the cases without a row that counts, and by spec the longest time of a row of the model.

    A row without a process, such as a row for a library that is not installed, says nothing about the time.
    """
    url = parse_url(audit.url)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return list(audit.cases.values()), {}
    with Store.open(audit.url, create=False) as store:
        pending = audit.split(store)[1]
        longest: dict[str, float] = {}
        for row in store.rows():
            if row.seconds:
                longest[row.spec] = max(row.seconds, longest.get(row.spec, 0.0))
    return pending, longest


def describe(estimated: Estimate) -> str:
    """Return an estimate as text for people."""
    pending = [case for case in estimated.cases if case.runs]
    refused = [case for case in estimated.cases if case.problem]
    lines = [*_describe_cases("would run   ", pending), *_describe_cases("cannot run  ", refused)]
    stored = len(estimated.cases) - len(pending) - len(refused)
    counts = [f"{len(pending)} to run", *([f"{len(refused)} that cannot run"] if refused else [])]
    lines.append(f"{', '.join(counts)}, {stored} in the store {shorten_store(estimated.store)} already")
    if stored:
        lines.append(f"({NOT_IN_KEY})")
    if estimated.seconds is not None:
        based_on = f"earlier rows of the models of {estimated.based_on} of {format_count(len(pending), 'case')}"
        lines.append(f"estimate: {format_duration(estimated.seconds)}, from {based_on}")
    elif pending:
        lines.append("no estimate: there are no earlier rows of these models")
    return "\n".join(lines)


def _describe_cases(start: str, cases: Sequence[PlannedCase]) -> Iterator[str]:
    """Yield a line for each case, and how many more there are."""
    for case in cases[:_NAMED]:
        settings = " ".join(f"{name}={value}" for name, value in case.settings.items())
        problem = f"({case.problem})" if case.problem else ""
        yield start + "  ".join(filter(None, [case.spec, settings, problem]))
    if len(cases) > _NAMED:
        yield f"and {len(cases) - _NAMED} more"


def format_duration(seconds: float) -> str:
    """Return seconds as people read them.

    >>> format_duration(42.4), format_duration(59.6), format_duration(90), format_duration(7384)
    ('42 s', '1:00 min', '1:30 min', '2:03 h')
    """
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"
