"""Budgets over a run: each limit checked against each model, as text, Markdown or JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

from profilerkit.count_text import format_count
from profilerkit.errors import BudgetError
from profilerkit.render.grids import Grid
from profilerkit.render.markdown import escape, table
from profilerkit.results.report import Report
from profilerkit_budgets import Budget, Finding, Verdict, check
from profilerkit_budgets.forms import format_junit_suites, format_text
from profilerkit_budgets.layer_limits import UnmatchedPatternError
from profilerkit_budgets.limits import Limit

from .lookup import find_run, open_store
from .rows import Row
from .series import CaseName, group_by_case
from .store import Store


@dataclass(frozen=True)
class RunCheck:
    """A run that was checked against a budget.

    Args:
        run: The identifier of the run.
        findings: The findings of each case: at least one for each limit, except for a limit of layers which the model
            does not have.
    """

    run: str
    findings: Mapping[CaseName, tuple[Finding, ...]]

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """How many findings have each verdict."""
        return Counter(finding.verdict for findings in self.findings.values() for finding in findings)

    def is_broken(self, strict: bool = False) -> bool:
        """Return whether a limit is broken, or with ``strict`` not certainly kept."""
        return bool(self.counts.get(Verdict.FAILED) or (strict and self.counts.get(Verdict.UNCERTAIN)))

    def list_failed(self) -> Iterator[str]:
        """Yield a line for each limit that a case does not keep."""
        for case, findings in self.findings.items():
            details = [finding.detail for finding in findings if finding.verdict is Verdict.FAILED]
            yield from (f"{case}: {detail}" for detail in dict.fromkeys(details))


def check_run(store: Store | str | PathLike[str], run: str, budget: Budget | None = None) -> RunCheck:
    """Check the rows of a run against a budget.

    A row without a report fails every limit, as a value that could not be computed does in `profilerkit_budgets.check`.

    Args:
        store: A store, or its URL or path.
        run: The identifier of a run, the beginning of it, or ``last``.
        budget: The limits; by default the budgets of the run's plan.

    Raises `BudgetError` if there is no budget, or for a limit of layers that no model of the run has; `ArgumentError`
    for a run that the store has not.
    """
    with open_store(store) as opened:
        chosen = find_run(opened, run)
        if budget is None:
            if not chosen.plan.get("budgets"):
                raise BudgetError("the plan of the run has no budgets: give a budget, such as macs = '<= 5 G'")
            budget = Budget.of(chosen.plan["budgets"])
        findings = _check_rows(opened, chosen.run, budget)
    unmatched = _list_unmatched(findings, budget)
    if unmatched:
        raise BudgetError(f"no model of the run has a layer that these limits match: {'; '.join(unmatched)}")
    return RunCheck(chosen.run, findings)


def _list_unmatched(findings: Mapping[CaseName, Sequence[Finding]], budget: Budget) -> list[str]:
    """Return the limits without a finding; none if no case was checked."""
    checked = {finding.limit for several in findings.values() for finding in several}
    return [str(limit) for limit in budget.limits if limit not in checked] if findings else []


def _check_rows(store: Store, run: str, budget: Budget) -> dict[CaseName, tuple[Finding, ...]]:
    """Return the findings of each case; a case that several entries of a plan measure is checked by all of its rows."""
    checked = {}
    for case, rows in group_by_case(store.rows(run=run)).items():
        measured = [(row, store.report(row)) for row in rows]
        checked[case] = tuple(
            finding for limit in budget.limits for finding in dict.fromkeys(_check_limit(limit, measured))
        )
    return checked


def _check_limit(limit: Limit, measured: Sequence[tuple[Row, Report | None]]) -> list[Finding]:
    """Return the findings of a limit for the rows of a case; none for a limit of layers that the model does not have.

    A value that one row lacks and another row has is not missing.
    """
    findings: list[Finding] = []
    problem = ""
    for row, report in measured:
        if report is None:
            findings.append(_fail(limit, f"nothing was computed: {row.reason}"))
            continue
        try:
            findings += check(report, Budget((limit,)))
        except UnmatchedPatternError:
            return []
        except BudgetError as error:  # this row has no such value
            problem = problem or str(error)
    return findings or [_fail(limit, problem)]


def _fail(limit: Limit, reason: str) -> Finding:
    return Finding(limit, limit.pattern or limit.key, Verdict.FAILED, reason)


def _summarize(checked: RunCheck) -> str:
    counts = ", ".join(f"{count} {verdict.value}" for verdict, count in checked.counts.items())
    models, limits = format_count(len(checked.findings), "model"), format_count(sum(checked.counts.values()), "limit")
    return f"{models}, {limits}: {counts or 'none checked'}"


def _draw_text(checked: RunCheck) -> str:
    blocks = [
        format_text(findings, str(case))
        for case, findings in checked.findings.items()
        if any(finding.verdict is not Verdict.PASSED for finding in findings)
    ]
    return "\n\n".join([*blocks, _summarize(checked)])


def _draw_markdown(checked: RunCheck) -> str:
    """Return a table of the findings that are not passed; the last line counts all findings."""
    rows = tuple(
        (str(case), finding.verdict.value, str(finding.limit), finding.detail, "; ".join(finding.responsible))
        for case, findings in checked.findings.items()
        for finding in findings
        if finding.verdict is not Verdict.PASSED
    )
    grid = Grid(f"Budgets of run {checked.run[:12]}", ("Model", "Verdict", "Limit", "Value", "Responsible"), rows)
    return "\n\n".join([f"### {escape(grid.title)}", *([table(grid)] if rows else []), _summarize(checked)]) + "\n"


def _draw_junit(checked: RunCheck) -> str:
    return format_junit_suites({str(case): findings for case, findings in checked.findings.items()})


#: The forms by name, for the command line.
FORMS: dict[str, Callable[[RunCheck], str]] = {"console": _draw_text, "markdown": _draw_markdown, "junit": _draw_junit}
