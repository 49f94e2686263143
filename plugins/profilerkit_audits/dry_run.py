"""A dry run: which cases of a plan an audit would run, which cannot be run, and how many are in the store already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .cases import Case
from .database import parse_url
from .running import Audit
from .store import Store
from .summary import NOT_IN_KEY, shorten_store

#: How many cases the text names.
_NAMED = 200


class DryRun(NamedTuple):
    """What an audit would do."""

    #: The URL of the store.
    store: str
    #: The cases of the plan.
    cases: Sequence[Case]
    #: The keys of the cases that would run. A case with a problem is stored as failed, without a run.
    pending: frozenset[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it as values that JSON holds."""
        cases = [
            {
                "spec": case.spec,
                "settings": dict(case.settings),
                "problem": case.problem,
                "runs": case.key in self.pending,
            }
            for case in self.cases
        ]
        return {"store": self.store, "cases": cases}

    def to_text(self) -> str:
        """Return it as text for people."""
        pending = [case for case in self.cases if case.key in self.pending]
        refused = [case for case in self.cases if case.problem]
        stored = len(self.cases) - len(pending) - len(refused)
        lines = [*_list_cases("would run   ", pending), *_list_cases("cannot run  ", refused)]
        counts = [f"{len(pending)} to run", *([f"{len(refused)} that cannot run"] if refused else [])]
        lines.append(f"{', '.join(counts)}, {stored} in the store {shorten_store(self.store)} already")
        return "\n".join([*lines, *([f"({NOT_IN_KEY})"] if stored else [])])


def plan_dry_run(audit: Audit) -> DryRun:
    """Return what an audit would do; its store is read if it exists, and not created."""
    url = parse_url(audit.url)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        unstored = list(audit.cases.values())
    else:
        with Store.open(audit.url, create=False) as store:
            unstored = audit.split(store)[1]
    pending = frozenset(case.key for case in unstored if not case.problem)
    return DryRun(audit.url, list(audit.cases.values()), pending)


def _list_cases(start: str, cases: Sequence[Case]) -> Iterator[str]:
    """Yield a line for each case, and how many more there are."""
    for case in cases[:_NAMED]:
        settings = " ".join(f"{name}={value}" for name, value in case.settings.items())
        problem = f"({case.problem})" if case.problem else ""
        yield start + "  ".join(filter(None, [case.spec, settings, problem]))
    if len(cases) > _NAMED:
        yield f"and {len(cases) - _NAMED} more"
