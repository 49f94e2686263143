"""An audit in a few lines: how many rows of each status, what failed and why, which values are not plausible."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..budgets import Budget, Verdict, check
from ..errors import BudgetError
from .plan import Plan
from .store import Store, without_password

if TYPE_CHECKING:
    from .running import Finished

__all__ = ["NOT_IN_KEY", "exceeded", "summary"]

#: How many rows that are not complete are named, and how much of each reason.
_NAMED, _REASON = 50, 200
#: What is said beside rows that are reused.
NOT_IN_KEY = "files and environment variables that a model's code reads are not compared: after a change, --rerun all"
#: How many warnings are named, the most frequent first.
_WARNINGS = 5


def summary(finished: Finished) -> str:
    """Return the text that ends the command."""
    lines: list[str] = []
    ends, warned, unnamed = Counter[str](), Counter[str](), 0
    for row in finished.rows():
        ends[row.end.value] += 1
        warned.update(str(text) for text in row.conditions.get("warnings", ()))
        texts = ([row.reason] if row.reason else []) + [f"not plausible: {flag}" for flag in row.flags]
        if texts and len(lines) < _NAMED:
            reason = " ".join("; ".join(texts).split())
            lines.append(
                f"{row.status.value:<9} {row.spec}: {reason[:_REASON]}{'...' if len(reason) > _REASON else ''}"
            )
        elif texts:
            unnamed += 1
    if unnamed:
        lines.append(f"and {unnamed} more that are not complete")
    lines += [
        f"warning of {count} {'row' if count == 1 else 'rows'}: {text[:_REASON]}"
        for text, count in warned.most_common(_WARNINGS)
    ]
    counts = ", ".join(f"{number} {status}" for status, number in sorted(finished.counts.items()))
    early = ", ".join(f"{number} {end}" for end, number in sorted(ends.items()) if end != "done")
    lines.append(f"{counts or 'no rows'}{f' (ended by: {early})' if early else ''}")
    lines.append(
        f"{finished.measured} measured, {finished.reused} in the store before; run {finished.run} in "
        f"{without_password(finished.store)}"
    )
    lines += [f"({NOT_IN_KEY})"] if finished.reused else []
    return "\n".join(lines)


def exceeded(plan: Plan, finished: Finished) -> list[str]:
    """Return a line for each limit of the plan's budgets that a row does not keep.

    A row without a report fails every limit, as a value that could not be computed does in `profilerkit.budgets.check`.
    A limit for layers that a model does not have is not for that model.
    """
    if not plan.budgets:
        return []
    budget = Budget.of(plan.budgets)
    lines = []
    with Store.open(finished.store, create=False) as store:
        for row in store.rows(run=finished.run):
            report = store.report(row)
            if report is None:
                lines.append(f"{row.spec}: nothing was computed: {row.reason}")
                continue
            for limit in budget.limits:
                try:
                    findings = check(report, Budget((limit,)))
                except BudgetError as error:
                    if limit.pattern is None:
                        lines.append(f"{row.spec}: {error}")
                    continue
                lines += [f"{row.spec}: {each.detail}" for each in findings if each.verdict is Verdict.FAILED]
    return lines
