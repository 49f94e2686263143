"""Running an audit: cases that the store already has are not run again, and every row is stored at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from importlib.metadata import version
from os import PathLike
from typing import Any

from msgspec.structs import replace

from profilerkit.errors import ArgumentError, FailureCode
from profilerkit.process.cached import cached_property

from .cases import Case, list_cases
from .engine import EngineOptions, find_engine
from .machines import digest_machine, read_machine
from .origins import find_commit
from .plan import Plan
from .rows import Row, RowStatus
from .store import Run, Store
from .summary import AuditResult

#: The rows that are run again although they are in the store.
RERUN = ("failed", "all")
#: Failures that say nothing about a model: its process could not be run or watched. Such a case is always run again.
NOT_OF_THE_MODEL = (FailureCode.ENGINE, FailureCode.LOST)


class Watch:
    """Receives the progress of an audit; a subclass shows it.

    ``begin`` gets the number of all cases, and the number of cases that are in the store already.
    """

    def begin(self, cases: int, reused: int) -> None:
        """Note that the cases are about to be run."""

    def start(self, case: Case) -> None:
        """Note that the process of a case is started; a case whose times are noisy is started again."""

    def end(self, case: Case, row: Row) -> None:
        """Note that the row of a case is in the store."""


@dataclass
class Audit:
    """An audit of a plan into a store.

    Args:
        plan: The plan.
        store: The URL or path of the store; by default a file beside the plan, ``NAME.db``.
        engine: The name of an engine.
        rerun: The rows that are run again although they are in the store: "failed" or "all"; None for no rows.
        address: The address of a cluster, for an engine with a cluster.
        watch: Receives the progress: see `Watch`.

    Raises `ArgumentError` for another ``rerun`` and for an address with the engine "local", `NotOfferedError` for
    another engine, `PlanError` for a pattern that matches nothing, `StoreError` for a store that cannot be opened or
    written.
    """

    plan: Plan
    store: str | PathLike[str] | None = None
    engine: str = "local"
    rerun: str | None = None
    address: str | None = None
    watch: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        if self.rerun is not None and self.rerun not in RERUN:
            raise ArgumentError(f"rerun={self.rerun!r}: give 'failed', 'all', or None for what is missing alone")
        if self.address is not None and self.engine == "local":
            raise ArgumentError(
                f"address={self.address!r}: the engine 'local' has no cluster; give engine='ray' with it"
            )
        self.url: str = str(self.plan.folder / f"{self.plan.name}.db" if self.store is None else self.store)

    @cached_property
    def cases(self) -> dict[str, Case]:
        """All cases of the plan, by their keys."""
        location = find_engine(self.engine).location(digest_machine(self.machine))
        keys = {case.compute_key(location): case for case in list_cases(self.plan)}
        return {key: with_fields(case, key=key) for key, case in keys.items()}

    @cached_property
    def machine(self) -> dict[str, str]:
        """The facts of this machine."""
        return read_machine()

    def run(self) -> AuditResult:
        """Run the cases without a row, and store each row when it is ready.

        If the run is interrupted or killed, the rows so far are in the store; the next run goes on from there.
        """
        number = len(self.cases)  # read first: a plan that is wrong leaves no store behind
        with Store.open(self.url) as store, store.exclusive():
            reused, pending = self.split(store)
            run = store.begin_run(self._describe(), self.machine)
            store.reuse(run.run, [row.id for row in reused if row.id is not None])
            counts = Counter(row.status.value for row in reused)
            options = EngineOptions(self.plan.workers, self.plan.repeats, self.address, self.watch.start)
            self.watch.begin(number, len(reused))
            engine = find_engine(self.engine)(options)
            try:
                with closing(engine.run(pending)) as outcomes:
                    for outcome in outcomes:
                        row = replace(outcome.row, run=run.run, commit=run.commit)
                        row = store.add(row, outcome.report, outcome.machine)
                        counts[row.status.value] += 1
                        self.watch.end(outcome.case, row)
            except KeyboardInterrupt:
                store.end_run(run.run, "interrupted")
                raise
            store.end_run(run.run)  # a run that ends by an error, or is killed, has no end
        metrics = dict.fromkeys(name for entry in self.plan.models for name in entry.metrics or ())
        return AuditResult(run.run, self.url, dict(counts), len(pending), len(reused), tuple(metrics))

    def split(self, store: Store) -> tuple[list[Row], list[Case]]:
        """Return the rows of cases that are in the store, and the cases that are to be run."""
        latest = {} if self.rerun == "all" else store.latest(self.cases)
        reused = {key: row for key, row in latest.items() if row.failure not in NOT_OF_THE_MODEL}
        if self.rerun == "failed":
            reused = {key: row for key, row in reused.items() if row.status is not RowStatus.FAILED}
        return list(reused.values()), [case for key, case in self.cases.items() if key not in reused]

    def _describe(self) -> Run:
        facts = {"engine": self.engine, "profilerkit": version("profilerkit"), "cases": len(self.cases)}
        about: dict[str, Any] = {"plan": self.plan.to_dict(), "machine": digest_machine(self.machine)}
        return Run(facts=facts, commit=find_commit(self.plan.folder), **about)


def audit(
    plan: Plan | Mapping[str, Any] | str | PathLike[str],
    store: str | PathLike[str] | None = None,
    *,
    engine: str = "local",
    rerun: str | None = None,
    address: str | None = None,
    watch: Watch | None = None,
) -> AuditResult:
    """Run an audit: the models of a plan, each in a process of its own, with a row in the store for each.

    Args:
        plan: A `Plan`, a mapping with the keys of a plan, or the path of a TOML file.
        store: The URL or path of the store; by default a file beside the plan.
        engine: The name of an engine: "local" or "ray", or one of a plugin.
        rerun: The rows that are run again although they are in the store: "failed" or "all".
        address: The address of a cluster, for an engine with a cluster.
        watch: Receives the progress.

    Returns the result: ``audit("zoo.toml").rows()`` yields the rows. Raises the errors of `Audit`; a model that
    crashes, hangs or cannot be loaded raises no error: its row has the reason.
    """
    if isinstance(plan, (str, PathLike)):
        plan = Plan.load(plan)
    elif not isinstance(plan, Plan):
        plan = Plan.of(plan)
    return Audit(plan, store, engine, rerun, address, watch or Watch()).run()
