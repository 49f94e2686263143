"""Baselines in files: recorded with the machine and the versions they were measured with, and read again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path

from profilerkit.errors import BudgetError, ReportFileError
from profilerkit.foreign_text import visible
from profilerkit.piping.outcome import Completeness
from profilerkit.results.report import Report
from profilerkit.times.sampling import Sampling

from .limits import Limit

#: Facts that are not compared: the name of the machine, and facts that differ from run to run on one machine.
_NOT_COMPARED = frozenset({"host", "memory_bytes", "usable_cores"})
#: Arguments that change only the precision of a value, or further output, not the value; the batch size is part of the
#: inputs.
_NOT_OF_THE_CALL = {*(field.name for field in fields(Sampling)), "sampling", "drop_first", "export", "batch_size"}
#: The parts of a call that a report without inputs does not have.
_PARTS_OF_INPUTS = ("inputs", "dtypes of the inputs")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def record_baseline(report: Report, path: str | PathLike[str]) -> str:
    """Save a report as a baseline and return a line with its values and the machine.

    Folders that do not exist are made. Raises `BudgetError` if a metric failed: an earlier baseline is not lost for a
    report without its values. Raises `OSError` if the file cannot be written.
    """
    failed = [record for record in report.statuses.values() if record.completeness is Completeness.FAILED]
    if failed:
        keys, reason = ", ".join(record.key for record in failed), "; ".join(failed[0].missing)
        raise BudgetError(f"nothing is recorded: {keys} of {report.name} failed: {reason}")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    report.save(target)
    values = ", ".join(
        f"{record.key} {record.sign}{record.shown}" for record in report.statuses.values() if record.shown
    )
    conditions = ", ".join(f"{name} {value}" for name, value in _select_conditions(report.environment).items())
    return visible(f"recorded {target} for {report.name}: {values or 'no values'} ({conditions})")


def read_baseline(path: str | PathLike[str], how: str) -> Report:
    """Return the report in a file; ``how`` is a text for messages: the way to record one.

    Raises `BudgetError` if there is no such file, and if it holds no report of one model.
    """
    if not Path(path).exists():
        raise BudgetError(f"there is no baseline {path}; record one with {how}")
    try:
        return Report.load(path)
    except ReportFileError as error:
        raise BudgetError(f"the baseline {path} cannot be read: {error}; record it again with {how}") from error


def require_baseline(limit: Limit, baseline: Report | None) -> Report:
    """Return the baseline of a relative limit; raise `BudgetError` if there is none."""
    if baseline is None:
        raise BudgetError(f"{limit} is relative, and there is no baseline to compare with; give one")
    return baseline


def require_same_call(report: Report, baseline: Report) -> str:
    """Raise `BudgetError` if a baseline has other inputs or options than a report: their ratio has no meaning.

    Inputs are compared if both reports have inputs: a report has none if no metric needed them. Returns a remark if the
    baseline does not have the dtypes of its inputs, like reports of early versions.
    """
    now, then = _describe_call(report), _describe_call(baseline)
    compared = [name for name in {**then, **now} if name not in _PARTS_OF_INPUTS or (now[name] and then[name])]
    differing = [
        f"{name}: {then.get(name) or 'not given'} in the baseline, now {now.get(name) or 'not given'}"
        for name in compared
        if now.get(name) != then.get(name)
    ]
    if differing:
        raise BudgetError(
            f"the baseline {baseline.name} is of another call, so nothing can be said about its ratio: "
            f"{'; '.join(differing)}; give the same inputs and options, or record the baseline again"
        )
    unsaid = report.input_dtypes and baseline.inputs and not baseline.input_dtypes
    return "the baseline does not say the dtypes of its inputs; record it again" if unsaid else ""


def _describe_call(report: Report) -> dict[str, str]:
    """Return the inputs and options of a report, which decide its values, as texts without addresses of objects."""
    options = {name: value for name, value in report.arguments.items() if name not in _NOT_OF_THE_CALL}
    texts = {"inputs": report.inputs, "dtypes of the inputs": report.input_dtypes, **options}
    return {name: _ADDRESS.sub("", text) for name, text in texts.items()}


def describe_other_conditions(report: Report, baseline: Report) -> str:
    """Return in words the conditions that differ between a baseline and a report; empty if none does.

    Compared are the processor, its cores, the operating system and the versions. Times of other machines, and of other
    versions, say little about a model.
    """
    now, then = _select_conditions(report.environment), _select_conditions(baseline.environment)
    differing = [f"{name} {then[name]}, now {now[name]}" for name in now if name in then and then[name] != now[name]]
    if not differing:
        return ""
    when = f" of {baseline.created[:10]}" if baseline.created else ""
    return f"the baseline{when} was measured with {'; '.join(differing)}"


def _select_conditions(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _NOT_COMPARED}
