"""What an audit would run, and how long that will take: from earlier rows of the same models, where there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cases import Case
from .durations import duration
from .local_engine import usable_cores
from .running import Audit
from .store import Store, as_url, without_password
from .summary import NOT_IN_KEY

__all__ = ["Estimate", "estimate", "estimate_text"]

#: How many cases the text names.
_NAMED = 200


@dataclass(frozen=True)
class Estimate:
    """What would run: ``pending``; and what is in the store: ``stored``.

    ``seconds`` is the estimate of the whole; None if no pending model has an earlier row. ``based_on`` counts those
    that have. ``most_seconds`` is what the time limits allow at the most, None if a case has none.
    """

    store: str
    pending: tuple[Case, ...]
    stored: tuple[Case, ...]
    seconds: float | None
    most_seconds: float | None
    based_on: int
    each: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON holds."""
        return {
            "store": self.store,
            "seconds": self.seconds,
            "most_seconds": self.most_seconds,
            "based_on": self.based_on,
            "cases": [
                *({**_case(case), "runs": True, "seconds": self.each.get(case.spec)} for case in self.pending),
                *({**_case(case), "runs": False, "seconds": None} for case in self.stored),
            ],
        }


def estimate(audit: Audit) -> Estimate:
    """Return what an audit would run; its store is read if it exists, and not created."""
    cases = audit.cases
    url = as_url(audit.url)
    missing = url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists()
    each: dict[str, float] = {}
    pending = cases
    if not missing:
        with Store.open(audit.url, create=False) as store:
            pending = audit.split(store, cases)[1]
            for spec in {case.spec for case in pending}:
                seconds = [row.seconds for row in store.rows(spec=spec, values=False)]
                each |= {spec: max(seconds)} if seconds else {}
    waiting = {case.key(audit.location) for case in pending}
    stored = tuple(case for case in cases if case.key(audit.location) not in waiting)
    return Estimate(audit.url, tuple(pending), stored, *_times(audit, pending, each), each)


def _times(audit: Audit, pending: list[Case], each: Mapping[str, float]) -> tuple[float | None, float | None, int]:
    """Return the estimate, the most that the limits allow, and how many cases have an earlier row.

    Models that are counted share the cores; those that are timed run one after the other.
    """
    workers = audit.plan.workers or usable_cores()
    earlier = [each[case.spec] for case in pending if case.spec in each]
    usual = sum(earlier) / len(earlier) if earlier else None
    seconds = None if usual is None else _spread(pending, lambda case: each.get(case.spec, usual), workers)
    limits = [case.limits.timeout for case in pending]
    most = None if None in limits else _spread(pending, lambda case: case.limits.timeout or 0.0, workers)
    return seconds, most, len(earlier)


def _spread(cases: list[Case], seconds: Any, workers: int) -> float:
    timed = sum(seconds(case) for case in cases if case.timed)
    counted = sum(seconds(case) for case in cases if not case.timed)
    return round(float(timed + counted / workers), 1)


def estimate_text(estimated: Estimate) -> str:
    """Return it as text for people."""
    lines = [f"would run   {_line(case)}" for case in estimated.pending[:_NAMED]]
    hidden = len(estimated.pending) - _NAMED
    lines += [f"and {hidden} more"] if hidden > 0 else []
    count = len(estimated.pending)
    lines.append(f"{count} to run, {len(estimated.stored)} in the store {_shown(estimated.store)} already")
    lines += [f"({NOT_IN_KEY})"] if estimated.stored else []
    if estimated.seconds is not None:
        lines.append(f"estimate: {duration(estimated.seconds)}, from {estimated.based_on} models with earlier rows")
    if estimated.most_seconds is not None and count:
        lines.append(f"at the most {duration(estimated.most_seconds)}, by the time limits")
    if count and estimated.seconds is None and estimated.most_seconds is None:
        lines.append("no estimate: there are no earlier rows of these models, and no time limits")
    return "\n".join(lines)


def _shown(store: str) -> str:
    """Return the path of a store relative to the current folder if it is in there, and a URL without its password."""
    if "://" in store:
        return without_password(store)
    path = Path(store)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else store


def _line(case: Case) -> str:
    settings = " ".join(f"{name}={value}" for name, value in case.settings.items())
    problem = f"  ({case.problem})" if case.problem else ""
    return f"{case.spec}{f'  {settings}' if settings else ''}{problem}"


def _case(case: Case) -> dict[str, Any]:
    return {"spec": case.spec, "settings": dict(case.settings), "problem": case.problem}
