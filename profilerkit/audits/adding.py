"""Putting a single report into a store: ``profilerkit profile --store``, and `add_report`."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from platform import python_version

from ..results.report import Report
from .commits import commit_of
from .machines import machine_digest, machine_facts
from .plausibility import flags_of
from .rows import End, Row, RowStatus, status_of, values_of
from .store import Run, Store

__all__ = ["add_report"]


def add_report(store: Store | str | PathLike[str], report: Report, spec: str | None = None) -> Row:
    """Put a report into a store, as a run of its own, and return its row.

    Args:
        store: A store, or the URL or path of one.
        report: The report, from wherever it is.
        spec: The text by which the model was loaded; the name of the report by default.
    """
    if not isinstance(store, Store):
        with Store.open(store) as opened:
            return add_report(opened, report, spec)
    facts = machine_facts()
    digest = machine_digest(facts)
    about = {"engine": "profile", "profilerkit": version("profilerkit"), "cases": 1}
    run = store.begin_run(Run("", "", facts=about, machine=digest, commit=commit_of(Path.cwd())), facts)
    row = store.add(_row(report, spec or report.name, digest, run), report)
    store.end_run(run.run)
    return row


def _row(report: Report, spec: str, machine: str, run: Run) -> Row:
    values = values_of(report)
    status, reason = status_of(values)
    settings = {"batch_size": report.batch_size, **dict(report.arguments)}
    content = [spec, settings, list(values), report.fingerprint, dict(report.environment), machine]
    return Row(
        spec=spec,
        key=hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest(),
        status=status,
        end=End.ERROR if status is RowStatus.FAILED else End.DONE,
        reason=reason,
        settings={name: value for name, value in settings.items() if value is not None},
        values=values,
        name=report.name,
        backend=report.backend,
        model_type=report.model_type,
        fingerprint=report.fingerprint,
        flags=flags_of(report),
        machine=machine,
        versions={"python": python_version(), "profilerkit": version("profilerkit")},
        run=run.run,
        commit=run.commit,
    )
