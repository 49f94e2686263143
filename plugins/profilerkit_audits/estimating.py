"""What an audit would run, and how long that will take: from earlier rows of the same models, where there are any."""

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

__all__ = ["Estimate", "describe", "estimate", "format_duration"]

#: How many cases the text names.
_NAMED = 200


class PlannedCase(msgspec.Struct, frozen=True):
    """A case that would run, or is in the store; ``seconds`` is the longest that a row of its model has taken."""

    spec: str
    settings: dict[str, Any]
    problem: str
    runs: bool
    seconds: float | None


class Estimate(msgspec.Struct, frozen=True):
    """What an audit would run, and how long that will take.

    ``seconds`` is the estimate of the whole; None if no case that would run has an earlier row. ``based_on`` counts
    those that have. ``most_seconds`` is what the time limits allow at the most, with each time measured again as often
    as the plan allows; None if a case has no limit.
    """

    store: str
    seconds: float | None
    most_seconds: float | None
    based_on: int
    cases: list[PlannedCase]


def estimate(audit: Audit) -> Estimate:
    """Return the cases that an audit would run; its store is read if it exists, and not created.

    Models that are only counted share the cores; timed models run one after the other.
    """
    pending, longest = _read_store(audit)
    earlier = [longest[case.spec] for case in pending if case.spec in longest]
    mean = sum(earlier) / len(earlier) if earlier else 0.0
    tries, workers = 1 + audit.plan.repeats, audit.plan.workers or count_cores()
    seconds = _sum_runs([(case.is_timed, longest.get(case.spec, mean)) for case in pending], workers)
    limits = [(case.is_timed, (case.limits.timeout or 0.0) * (tries if case.is_timed else 1)) for case in pending]
    has_limits = all(case.limits.timeout is not None for case in pending)
    waiting = {case.key for case in pending}
    cases = [
        PlannedCase(case.spec, dict(case.settings), case.problem, case.key in waiting, longest.get(case.spec))
        for case in audit.cases.values()
    ]
    return Estimate(
        audit.url,
        seconds=round(seconds, 1) if earlier else None,
        most_seconds=round(_sum_runs(limits, workers), 1) if has_limits else None,
        based_on=len(earlier),
        cases=cases,
    )


def _sum_runs(runs: Sequence[tuple[bool, float]], workers: int) -> float:
    """Return how long runs take: whether each is timed, and so alone, and its seconds; a free worker takes the next.

    >>> _sum_runs([(True, 5), (True, 5)], 2), _sum_runs([(False, 5), (False, 5), (False, 5)], 2)
    (10.0, 10.0)
    """
    busy = [0.0] * workers
    for is_timed, seconds in runs:
        if not is_timed:
            heapq.heapreplace(busy, busy[0] + seconds)
    return max(busy) + sum(seconds for is_timed, seconds in runs if is_timed)


def _read_store(audit: Audit) -> tuple[list[Case], dict[str, float]]:
    """Return the cases that would run, and the longest that a row of each of their models has taken, by spec."""
    url = parse_url(audit.url)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return list(audit.cases.values()), {}
    with Store.open(audit.url, create=False) as store:
        pending = audit.split(store)[1]
        longest: dict[str, float] = {}
        for row in store.rows():
            longest[row.spec] = max(row.seconds, longest.get(row.spec, 0.0))
    return pending, longest


def describe(estimated: Estimate) -> str:
    """Return an estimate as text for people."""
    pending = [case for case in estimated.cases if case.runs]
    count, stored = len(pending), len(estimated.cases) - len(pending)
    lines = [f"would run   {_describe_case(case)}" for case in pending[:_NAMED]]
    if count > _NAMED:
        lines.append(f"and {count - _NAMED} more")
    lines.append(f"{count} to run, {stored} in the store {shorten_store(estimated.store)} already")
    if stored:
        lines.append(f"({NOT_IN_KEY})")
    return "\n".join([*lines, *(_describe_times(estimated) if count else [])])


def _describe_times(estimated: Estimate) -> Iterator[str]:
    """Yield how long the cases that would run will take."""
    if estimated.seconds is None and estimated.most_seconds is None:
        yield "no estimate: there are no earlier rows of these models, and no time limits"
    if estimated.seconds is not None:
        duration = format_duration(estimated.seconds)
        yield f"estimate: {duration}, from {format_count(estimated.based_on, 'model')} with earlier rows"
    if estimated.most_seconds is not None:
        yield f"at the most {format_duration(estimated.most_seconds)}, by the time limits"


def _describe_case(case: PlannedCase) -> str:
    settings = " ".join(f"{name}={value}" for name, value in case.settings.items())
    problem = f"({case.problem})" if case.problem else ""
    return "  ".join(filter(None, [case.spec, settings, problem]))


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
