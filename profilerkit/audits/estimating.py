"""What an audit would run, and how long that will take: from earlier rows of the same models, where there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cases import Case
from .local_engine import count_cores
from .running import Audit
from .store import Store, hide_password, parse_url
from .summary import NOT_IN_KEY

__all__ = ["Estimate", "describe", "estimate", "format_duration"]

#: How many cases the text names.
_NAMED = 200


@dataclass(frozen=True)
class Estimate:
    """What would run: ``pending``; and what is in the store: ``stored``.

    ``seconds`` is the estimate of the whole; None if no pending model has an earlier row. ``based_on`` counts those
    that have. ``most_seconds`` is what the time limits allow at the most, None if a case has none. ``of_models`` has
    the seconds of earlier rows by spec.
    """

    store: str
    pending: tuple[Case, ...]
    stored: tuple[Case, ...]
    seconds: float | None
    most_seconds: float | None
    based_on: int
    of_models: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON holds."""
        cases = [(case, True, self.of_models.get(case.spec)) for case in self.pending]
        cases += [(case, False, None) for case in self.stored]
        about = {name: getattr(self, name) for name in ("store", "seconds", "most_seconds", "based_on")}
        return {
            **about,
            "cases": [
                {
                    "spec": case.spec,
                    "settings": dict(case.settings),
                    "problem": case.problem,
                    "runs": runs,
                    "seconds": seconds,
                }
                for case, runs, seconds in cases
            ],
        }


def estimate(audit: Audit) -> Estimate:
    """Return what an audit would run; its store is read if it exists, and not created.

    Models that are counted share the cores; those that are timed run one after the other.
    """
    cases, url = list(audit.cases.values()), parse_url(audit.url)
    pending, longest = cases, dict[str, float]()
    if url.get_backend_name() != "sqlite" or Path(str(url.database)).exists():
        with Store.open(audit.url, create=False) as store:
            pending = audit.split(store)[1]
            for spec in {case.spec for case in pending}:
                seconds = [row.seconds for row in store.rows(spec=spec)]
                longest |= {spec: max(seconds)} if seconds else {}
    ids = {id(case) for case in pending}
    stored = tuple(case for case in cases if id(case) not in ids)
    workers = audit.plan.workers or count_cores()
    earlier = [longest[case.spec] for case in pending if case.spec in longest]
    usual = sum(earlier) / len(earlier) if earlier else None
    expected = None if usual is None else _spread(pending, lambda case: longest.get(case.spec, usual), workers)
    is_limited = all(case.limits.timeout is not None for case in pending)
    most = _spread(pending, lambda case: case.limits.timeout or 0.0, workers) if is_limited else None
    return Estimate(audit.url, tuple(pending), stored, expected, most, len(earlier), longest)


def _spread(cases: Iterable[Case], seconds: Callable[[Case], float], workers: int) -> float:
    return round(float(sum(seconds(case) / (1 if case.is_timed else workers) for case in cases)), 1)


def describe(estimated: Estimate) -> str:
    """Return an estimate as text for people."""
    count = len(estimated.pending)
    lines = [f"would run   {_describe_case(case)}" for case in estimated.pending[:_NAMED]]
    lines += [f"and {count - _NAMED} more"] if count > _NAMED else []
    lines.append(f"{count} to run, {len(estimated.stored)} in the store {_shorten(estimated.store)} already")
    lines += [f"({NOT_IN_KEY})"] if estimated.stored else []
    if estimated.seconds is not None:
        duration = format_duration(estimated.seconds)
        lines.append(f"estimate: {duration}, from {estimated.based_on} models with earlier rows")
    if estimated.most_seconds is not None and count:
        lines.append(f"at the most {format_duration(estimated.most_seconds)}, by the time limits")
    if count and estimated.seconds is None and estimated.most_seconds is None:
        lines.append("no estimate: there are no earlier rows of these models, and no time limits")
    return "\n".join(lines)


def _shorten(store: str) -> str:
    """Return the path of a store relative to the current folder if it is in there, and a URL without its password."""
    path = Path(store)
    is_inside = "://" not in store and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if is_inside else hide_password(store)


def _describe_case(case: Case) -> str:
    settings = " ".join(f"{name}={value}" for name, value in case.settings.items())
    return "  ".join(filter(None, [case.spec, settings, case.problem and f"({case.problem})"]))


def format_duration(seconds: float) -> str:
    """Return seconds as people read them.

    >>> format_duration(42.4), format_duration(90), format_duration(7384)
    ('42 s', '1:30 min', '2:03 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"
