"""``profilerkit audit --diff OLD NEW`` and ``profilerkit audit --check RUN``: what is asked of runs that are over."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from profilerkit.cli import NOT_KEPT, emit

from .stores import draw_grid, report_store_errors

__all__ = ["FORMS", "choose_store", "show_check", "show_diff"]

#: The formats of each.
FORMS = {"diff": ("console", "json", "markdown"), "check": ("console", "markdown", "junit")}


def choose_store(plan: str | None, store: str | None) -> str:
    """Return the store: the one that is named, or the one beside the plan."""
    if store is not None:
        return store
    if plan is None:
        raise click.UsageError("give --store, or the PLAN whose store stands beside it")
    return str(Path(plan).with_suffix(".db"))


def show_diff(store: str, runs: tuple[str, str], form: str, quiet: bool, strict: bool) -> None:
    """Print what moved between two runs; with ``strict`` leave with 1 if something became worse."""
    _require(form, "diff")
    with report_store_errors("--diff"):
        from ..changes import draw_changes
        from ..run_diff import diff_runs

        result = diff_runs(store, *runs)
    if form == "json":
        text = json.dumps(result.to_dict(), indent=1, ensure_ascii=False)
    else:
        title = f"Runs {result.old.run[:12]} and {result.new.run[:12]}"
        grid = [draw_grid(draw_changes(result.changes, title), form)] if result.changes else []
        text = "\n\n".join([*grid, result.summary()])
    if not quiet:
        emit(text)
    if strict and any(change.verdict in ("worse", "lost") for change in result.changes):
        sys.exit(NOT_KEPT)


def show_check(store: str, run: str, budget: str | None, form: str, quiet: bool, strict: bool) -> None:
    """Print which limits a run keeps; leave with 1 if one is broken."""
    _require(form, "check")
    with report_store_errors("--check"):
        from profilerkit_budgets import Budget

        from ..run_budgets import FORMS as DRAWN
        from ..run_budgets import check_run

        result = check_run(store, run, None if budget is None else Budget.load(budget))
    if not quiet:
        emit(DRAWN[form](result).rstrip("\n"))
    if result.is_broken(strict):
        sys.exit(NOT_KEPT)


def _require(form: str, action: str) -> None:
    if form not in FORMS[action]:
        raise click.BadParameter(
            f"{form!r}: with --{action} there are {', '.join(FORMS[action])}", param_hint="--format"
        )
