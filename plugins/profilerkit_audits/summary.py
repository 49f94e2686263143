"""An audit in a few lines: how many rows of each status, what failed and why, which values are not plausible."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .store import hide_password

if TYPE_CHECKING:
    from .running import AuditResult

__all__ = ["NOT_IN_KEY", "summarize"]

#: How many rows that are not complete are named, and how much of each reason.
_NAMED, _REASON = 50, 200
#: What is said beside rows that are reused.
NOT_IN_KEY = "files and environment variables that a model's code reads are not compared: after a change, --rerun all"
#: How many warnings are named, the most frequent first.
_WARNINGS = 5


def summarize(finished: AuditResult) -> str:
    """Return the text that ends the command."""
    lines: list[str] = []
    failures, warnings = Counter[str](), Counter[str]()
    unnamed = 0
    for row in finished.rows():
        failures.update([row.failure.value] if row.failure else [])
        warnings.update(str(text) for text in row.conditions.get("warnings", ()))
        texts = ([row.reason] if row.reason else []) + [f"not plausible: {flag}" for flag in row.flags]
        if texts and len(lines) < _NAMED:
            reason = " ".join("; ".join(texts).split())
            lines.append(
                f"{row.status.value:<9} {row.spec}: {reason[:_REASON]}{'...' if len(reason) > _REASON else ''}"
            )
        elif texts:
            unnamed += 1
    lines += [f"and {unnamed} more that are not complete"] if unnamed else []
    lines += [
        f"warning of {count} {'row' if count == 1 else 'rows'}: {text[:_REASON]}"
        for text, count in warnings.most_common(_WARNINGS)
    ]
    counts = ", ".join(f"{number} {status}" for status, number in sorted(finished.counts.items()))
    why = ", ".join(f"{number} {code}" for code, number in sorted(failures.items()))
    lines.append(f"{counts or 'no rows'}{f' (failed by: {why})' if why else ''}")
    lines.append(
        f"{finished.measured} measured, {finished.reused} in the store before; run {finished.run} in "
        f"{hide_password(finished.store)}"
    )
    lines += [f"({NOT_IN_KEY})"] if finished.reused else []
    return "\n".join(lines)
