"""Budgets over a run: each limit checked against each model, as text, Markdown or JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike

from profilerkit.count_text import format_count
from profilerkit.errors import BudgetError
from profilerkit.results.report import Report
from profilerkit_budgets import Budget, Finding, Verdict, check
from profilerkit_budgets.checking import select_broken
from profilerkit_budgets.forms import FORMS, format_junit_suites, name_finding
from profilerkit_budgets.layer_limits import UnmatchedPatternError, is_for_layer
from profilerkit_budgets.limits import Limit

from .lookup import find_run, open_store
from .plan import require_checkable_in_audits
from .rows import Row
from .series import CaseName, group_by_case
from .store import Store

#: The name under which limits are found broken that no model of a run has layers for.
NO_CASE = CaseName("all models")


@dataclass(frozen=True)
class RunCheck:
    """A run that was checked against a budget.

    Args:
        run: The identifier of the run.
        findings: The findings of each case: at least one for each limit, except for a limit of layers which the model
            does not have. A limit of layers that no model has, such as of a misspelt path, fails for `NO_CASE`.
    """

    run: str
    findings: Mapping[CaseName, tuple[Finding, ...]]

    def is_broken(self, strict: bool = False) -> bool:
        """Return whether a limit is broken, or with ``strict`` not certainly kept."""
        return any(select_broken(findings, strict) for findings in self.findings.values())

    def list_failed(self) -> Iterator[str]:
        """Yield a line for each limit that a case does not keep."""
        for case, findings in self.findings.items():
            failed = [finding for finding in findings if finding.verdict is Verdict.FAILED]
            texts = (f"{case}: {name_finding(finding)}: {finding.detail}" for finding in failed)
            yield from dict.fromkeys(texts)

    def write(self, form: str) -> str:
        """Return the findings as "junit", or those that are not passed as "console" or "markdown"."""
        named = {str(case): findings for case, findings in self.findings.items()}
        if form == "junit":
            return format_junit_suites(named)
        blocks = [
            FORMS[form](findings, name).rstrip("\n")
            for name, findings in named.items()
            if select_broken(findings, strict=True)
        ]
        counts = Counter(finding.verdict.value for findings in named.values() for finding in findings)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "none checked"
        models = format_count(len(self.findings.keys() - {NO_CASE}), "model")
        limits = format_count(counts.total(), "limit")
        return "\n\n".join([*blocks, f"{models}, {limits}: {verdicts}"])


def check_run(store: Store | str | PathLike[str], run: str, budget: Budget | None = None) -> RunCheck:
    """Check the rows of a run against a budget.

    A row without a report fails every limit, as a value that could not be computed does in `profilerkit_budgets.check`.

    Args:
        store: A store, or its URL or path.
        run: The identifier of a run, the beginning of it, or ``last``.
        budget: The limits; by default the budgets of the run's plan.

    Raises `BudgetError` if there is no budget, and for a limit that no run can be checked against, such as of another
    unit; `ArgumentError` for a run that the store has not.
    """
    with open_store(store) as opened:
        chosen = find_run(opened, run)
        if budget is None:
            if not chosen.plan.get("budgets"):
                raise BudgetError("the plan of the run has no budgets: give a budget, such as macs = '<= 5 G'")
            budget = Budget.of(chosen.plan["budgets"])
        else:
            require_checkable_in_audits(budget)  # those of a plan were checked when it was read
        findings: dict[CaseName, tuple[Finding, ...]] = {}
        paths: set[str] = set()  # of the layers of all models, which are layers themselves, with the path ""
        for case, rows in group_by_case(opened.rows(run=chosen.run)).items():
            measured = [(row, opened.report(row)) for row in rows]  # several entries of a plan may measure one case
            by_limit = (dict.fromkeys(_check_limit(limit, measured)) for limit in budget.limits)
            findings[case] = tuple(chain.from_iterable(by_limit))
            tables = [report.layers for _, report in measured if report is not None and report.layers is not None]
            paths |= {layer["path"] for table in tables for layer in table}
    unmatched = tuple(limit for limit in budget.limits if paths and _matches_none(limit, paths))
    if unmatched:
        why = "no model of the run has a layer that this matches"
        findings[NO_CASE] = tuple(_fail(limit, why) for limit in unmatched)
    return RunCheck(chosen.run, findings)


def _matches_none(limit: Limit, paths: Iterable[str]) -> bool:
    """Return whether a limit is of layers, and of none that has one of these paths."""
    return limit.pattern is not None and not any(is_for_layer(limit, path) for path in paths)


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
