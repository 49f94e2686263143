"""``profilerkit audit --diff OLD NEW`` and ``profilerkit audit --check RUN``: what is asked of runs that are over."""

from __future__ import annotations

import sys

import click

from profilerkit.cli import NOT_KEPT, emit

from .stores import draw_grid, emit_json, report_errors

__all__ = ["show_check", "show_diff"]


def show_diff(store: str, runs: tuple[str, str], form: str, quiet: bool, strict: bool) -> None:
    """Print what moved between two runs; with ``strict`` leave with 1 if something became worse."""
    _require_form(form, ("console", "json", "markdown"), "--diff")
    with report_errors("--diff"):
        from ..changes import draw_changes
        from ..run_diff import diff_runs

        result = diff_runs(store, *runs)
    if not quiet and form == "json":
        emit_json(result.to_dict())
    elif not quiet:
        title = f"Runs {result.old.run[:12]} and {result.new.run[:12]}"
        grid = [draw_grid(draw_changes(result.changes, title), form)] if result.changes else []
        emit("\n\n".join([*grid, result.summary()]))
    if strict and any(change.verdict in ("worse", "lost") for change in result.changes):
        sys.exit(NOT_KEPT)


def show_check(store: str, run: str, budget: str | None, form: str, quiet: bool, strict: bool) -> None:
    """Print which limits a run keeps; leave with 1 if one is broken."""
    _require_form(form, ("console", "markdown", "junit"), "--check")
    with report_errors("--check"):
        from profilerkit_budgets import Budget

        from ..run_budgets import FORMS, check_run

        result = check_run(store, run, None if budget is None else Budget.load(budget))
    if not quiet:
        emit(FORMS[form](result).rstrip("\n"))
    if result.is_broken(strict):
        sys.exit(NOT_KEPT)


def _require_form(form: str, forms: tuple[str, ...], option: str) -> None:
    if form not in forms:
        raise click.BadParameter(f"{form!r}: with {option} there are {', '.join(forms)}", param_hint="--format")
