"""Baselines in files: recorded with the machine and the versions they were measured with, and read again."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from ..errors import BudgetError, ReportFileError
from ..render.grids import visible
from ..results.report import Report

__all__ = ["read_baseline", "record_baseline", "under_other_conditions"]

#: What a machine is called, and what changes from run to run without a change of the machine.
_NOT_COMPARED = frozenset({"host", "memory_bytes", "usable_cores"})


def record_baseline(report: Report, path: str | PathLike[str]) -> str:
    """Save a report as a baseline and return a line that says what was recorded, and on which machine.

    Folders that do not exist are made. Raises `OSError` if the file cannot be written.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    report.save(target)
    values = ", ".join(
        f"{record.key} {record.sign}{record.shown}" for record in report.statuses.values() if record.shown
    )
    conditions = ", ".join(f"{name} {value}" for name, value in _compared(report.environment).items())
    return visible(f"recorded {target} for {report.name}: {values or 'no values'} ({conditions})")


def read_baseline(path: str | PathLike[str], how: str) -> Report:
    """Return the report in a file; ``how`` says how to record one.

    Raises `BudgetError` if there is no such file, and if it holds no report of one model.
    """
    if not Path(path).exists():
        raise BudgetError(f"there is no baseline {path}; record one with {how}")
    try:
        return Report.load(path)
    except ReportFileError as error:
        raise BudgetError(f"the baseline {path} cannot be read: {error}; record it again with {how}") from error


def under_other_conditions(report: Report, baseline: Report) -> str:
    """Return in words which conditions of a baseline differ from those of a report; empty if none does.

    Compared are the processor, its cores, the operating system and the versions. Times of other machines, and of other
    versions, say little about a model.
    """
    now, then = _compared(report.environment), _compared(baseline.environment)
    differing = [f"{name} {then[name]}, now {now[name]}" for name in now if name in then and then[name] != now[name]]
    if not differing:
        return ""
    when = f" of {baseline.created[:10]}" if baseline.created else ""
    return f"the baseline{when} was measured with {'; '.join(differing)}"


def _compared(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _NOT_COMPARED}
