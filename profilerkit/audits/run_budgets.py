"""Budgets over a run: each limit checked against each model, as text, Markdown or JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from xml.etree import ElementTree as ET

from ..budgets import Budget, Finding, Limit, Verdict, check
from ..budgets.forms import as_junit, as_text
from ..errors import BudgetError
from ..render.grids import Grid, visible
from ..render.markdown import escaped, table
from ..results.report import Report
from .rows import Row
from .series import Case, run_named
from .store import Store

__all__ = ["FORMS", "Checked", "check_run"]


@dataclass(frozen=True)
class Checked:
    """A run that was checked against a budget.

    Args:
        run: The identifier of the run.
        findings: The findings of each case; one for each limit at the least, but that of a limit for layers which the
            model does not have.
    """

    run: str
    findings: Mapping[Case, tuple[Finding, ...]]

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """How many findings have each verdict."""
        return Counter(finding.verdict for findings in self.findings.values() for finding in findings)

    def broken(self, strict: bool = False) -> bool:
        """Return whether a limit is broken, or with ``strict`` not certainly kept."""
        return bool(self.counts.get(Verdict.FAILED) or (strict and self.counts.get(Verdict.UNCERTAIN)))


def check_run(store: Store | str | PathLike[str], run: str, budget: Budget | None = None) -> Checked:
    """Check the rows of a run against a budget.

    A row without a report fails every limit, as a value that could not be computed does in `profilerkit.budgets.check`.

    Args:
        store: A store, or its URL or path.
        run: The identifier of a run, the beginning of it, or ``last``.
        budget: The limits; by default the budgets of the run's plan.

    Raises `BudgetError` if there is no budget, or for a limit of layers that no model of the run has; `ArgumentError`
    for a run that the store has not.
    """
    if not isinstance(store, Store):
        with Store.open(store, create=False) as opened:
            return check_run(opened, run, budget)
    named = run_named(store, run)
    limits = budget if budget is not None else _planned(named.plan.get("budgets"))
    findings = {Case.of(row): _findings(row, store.report(row), limits) for row in store.rows(run=named.run)}
    checked = {finding.limit for each in findings.values() for finding in each}
    unmatched = [str(limit) for limit in limits.limits if limit not in checked]
    if unmatched and findings:
        raise BudgetError(f"no model of the run has a layer that these limits match: {'; '.join(unmatched)}")
    return Checked(named.run, findings)


def _planned(budgets: object) -> Budget:
    if not isinstance(budgets, Mapping) or not budgets:
        raise BudgetError("the plan of the run has no budgets: give a budget, such as macs = '<= 5 G'")
    return Budget.of(budgets)


def _findings(row: Row, report: Report | None, budget: Budget) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    for limit in budget.limits:
        if report is None:
            findings.append(_failed(limit, f"nothing was computed: {row.reason}"))
            continue
        try:
            findings += check(report, Budget((limit,)))
        except BudgetError as error:
            if limit.pattern is None:
                findings.append(_failed(limit, str(error)))
    return tuple(findings)


def _failed(limit: Limit, detail: str) -> Finding:
    return Finding(limit, limit.pattern or limit.key, Verdict.FAILED, detail)


def _summary(checked: Checked) -> str:
    counts = ", ".join(f"{count} {verdict.value}" for verdict, count in checked.counts.items())
    return f"{len(checked.findings)} models, {sum(checked.counts.values())} limits: {counts or 'none checked'}"


def _text(checked: Checked) -> str:
    blocks = [
        as_text(findings, str(case))
        for case, findings in checked.findings.items()
        if any(finding.verdict is not Verdict.PASSED for finding in findings)
    ]
    return "\n\n".join([*blocks, _summary(checked)])


def _markdown(checked: Checked) -> str:
    """Return a table of what is not kept; what is kept is counted in the last line."""
    rows = tuple(
        (str(case), finding.verdict.value, str(finding.limit), finding.detail, "; ".join(finding.responsible))
        for case, findings in checked.findings.items()
        for finding in findings
        if finding.verdict is not Verdict.PASSED
    )
    grid = Grid(f"Budgets of run {checked.run[:12]}", ("Model", "Verdict", "Limit", "Value", "Responsible"), rows)
    return "\n\n".join([f"### {escaped(grid.title)}", *([table(grid)] if rows else []), _summary(checked)]) + "\n"


def _junit(checked: Checked) -> str:
    """Return a test suite for each model, as `profilerkit.budgets.forms` has it."""
    total: Counter[str] = Counter(dict.fromkeys(("tests", "failures", "errors", "skipped"), 0))
    suites = ET.Element("testsuites")
    for case, findings in checked.findings.items():
        for suite in ET.fromstring(as_junit(findings, visible(str(case)))):
            total.update({name: int(suite.get(name, 0)) for name in total})
            suites.append(suite)
    for name, count in total.items():
        suites.set(name, str(count))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


#: The forms by name, for the command line.
FORMS: dict[str, Callable[[Checked], str]] = {"console": _text, "markdown": _markdown, "junit": _junit}
