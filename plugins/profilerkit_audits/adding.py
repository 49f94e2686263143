"""Putting a single report into a store: ``profilerkit profile --store``, and `add_report`."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from os import PathLike
from pathlib import Path

from profilerkit.results.report import Report

from .machines import digest_machine, find_commit, read_machine, read_stated_machine
from .plausibility import find_flags
from .rows import Row, read_report
from .store import Run, Store

__all__ = ["add_report"]


def add_report(store: Store | str | PathLike[str], report: Report, spec: str | None = None) -> Row:
    """Put a report into a store, as a run of its own, and return its row.

    Args:
        store: A store, or the URL or path of one.
        report: The report, from wherever it is: the row is of the machine that it states.
        spec: The text by which the model was loaded; the name of the report by default.
    """
    if not isinstance(store, Store):
        with Store.open(store) as opened:
            return add_report(opened, report, spec)
    spec = spec or report.name
    here = read_machine()
    commit = find_commit(Path.cwd())
    about = {"engine": "profile", "profilerkit": version("profilerkit"), "cases": 1}
    run = store.begin_run(Run(facts=about, machine=digest_machine(here), commit=commit), here)
    facts = read_stated_machine(report.environment)
    machine = digest_machine(facts) if facts else ""
    arguments = {"batch_size": report.batch_size, **report.arguments}
    settings = {name: value for name, value in arguments.items() if value is not None}
    versions = {name: fact for name, fact in report.environment.items() if name == "python"}
    measured = [spec, settings, list(report.statuses), report.fingerprint, dict(report.environment), machine]
    row = read_report(
        report,
        spec=spec,
        key=hashlib.sha256(json.dumps(measured, sort_keys=True, default=str).encode()).hexdigest(),
        settings=settings,
        flags=find_flags(report),
        machine=machine,
        versions={**versions, "profilerkit": version("profilerkit")},
        run=run.run,
        commit=commit,
    )
    row = store.add(row, report, facts)
    store.end_run(run.run)
    return row
