"""Reports that are put into a store one by one, each as a run of its own."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from os import PathLike
from pathlib import Path

from msgspec.structs import replace

from profilerkit.results.report import Report

from .machines import digest_machine, read_machine, read_stated_machine
from .origins import find_commit
from .plausibility import find_flags
from .rows import Row, read_report
from .store import Run, Store


def add_report(store: Store | str | PathLike[str], report: Report, spec: str | None = None) -> Row:
    """Put a report into a store, as a run of its own, and return its row.

    Args:
        store: A store, or the URL or path of a store.
        report: The report, from any machine: the row has the machine that the report states.
        spec: The text by which the model was loaded; the name of the report by default.
    """
    if not isinstance(store, Store):
        with Store.open(store) as opened:
            return add_report(opened, report, spec)
    here, stated = read_machine(), read_stated_machine(report.environment)
    about = {"engine": "profile", "profilerkit": version("profilerkit"), "cases": 1}
    run = store.begin_run(Run(facts=about, machine=digest_machine(here), commit=find_commit(Path.cwd())), here)
    row = _make_row(report, spec or report.name, digest_machine(stated) if stated else "")
    row = store.add(replace(row, run=run.run, commit=run.commit), report, stated)
    store.end_run(run.run)
    return row


def _make_row(report: Report, spec: str, machine: str) -> Row:
    """Return the row of a report; its key has all that the report states of the measurement."""
    arguments = {"batch_size": report.batch_size, **report.arguments}
    settings = {name: value for name, value in arguments.items() if value is not None}
    python = {name: fact for name, fact in report.environment.items() if name == "python"}
    measured = [spec, settings, list(report.statuses), report.fingerprint, dict(report.environment), machine]
    return read_report(
        report,
        spec=spec,
        key=hashlib.sha256(json.dumps(measured, sort_keys=True, default=str).encode()).hexdigest(),
        settings=settings,
        flags=find_flags(report),
        machine=machine,
        versions={**python, "profilerkit": version("profilerkit")},
    )
