"""``profilerkit audit PLAN``. The parts of an audit are imported where they are used, so that --help is quick."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from profilerkit.cli import INTERRUPTED, NOT_KEPT, emit, say
from profilerkit.cli.options import choose_form
from profilerkit.process.clean_output import wants_color

from .stores import FORMS, draw_grid, emit_json, report_errors

if TYPE_CHECKING:
    from ..run_diffs import RunDiff
    from ..running import Audit
    from ..summary import AuditResult


@click.command("audit")
@click.argument("plan", required=False, type=click.Path(dir_okay=False))
@click.option(
    "--store",
    metavar="URL",
    help="Where rows go: sqlite:///runs.db, a path, or postgresql://...; by default a file beside the plan.",
)
@click.option(
    "--rerun", type=click.Choice(["failed", "all"]), help="Also run what is in the store: failed models, or all."
)
@click.option(
    "--engine", default="local", show_default=True, metavar="NAME", help="What runs the models: local, or a plugin's."
)
@click.option("--dry-run", is_flag=True, help="Print what would run, and run nothing.")
@choose_form(*FORMS, help="Format of the printed rows: console or json; of --diff also markdown.")
@click.option("--diff", nargs=2, metavar="OLD NEW", help="Run nothing; show what moved between two runs of the store.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 also if a row is not complete; with --diff if a value got worse or was lost.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print neither rows nor progress, only errors.")
def command(
    plan: str | None,
    store: str | None,
    dry_run: bool,
    diff: tuple[str, str] | None,
    form: str,
    strict: bool,
    quiet: bool,
    **running: Any,
) -> None:
    """Profile many models, each in a process of its own, into a store.

    PLAN is a TOML file: models, settings, metrics and limits. What is in the store already is not run again. A model
    that crashes or hangs is a row with its reason; budgets of the plan that are exceeded make the exit code 1.

    --diff takes runs by identifier, by the beginning of one, or by age: 'last', 'last~1' the one before.
    """
    if diff:
        _refuse_options_of_running()
        _show_diff(_choose_store(plan, store), diff, form, strict, quiet)
    elif form == "markdown":
        raise click.BadParameter("'markdown': of rows there are console, json", param_hint="--format")
    elif plan is None:
        raise click.UsageError("Missing argument 'PLAN'.")
    else:
        _run_plan(Path(plan), {"store": store, **running}, dry_run, form, strict, quiet)


# Two runs that are over -----------------------------------------------------------------------------------------------


def _refuse_options_of_running() -> None:
    """Raise `click.UsageError` for an option of a run that stands in the call; pyproject.toml may set some for all."""
    for name in ("dry_run", "rerun", "engine"):
        source = click.get_current_context().get_parameter_source(name)
        if source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
            raise click.UsageError(f"--diff runs nothing; leave out --{name.replace('_', '-')}")


def _choose_store(plan: str | None, store: str | None) -> str:
    """Return the named store, or the store beside the plan; raises `click.UsageError` without both."""
    if store is not None:
        return store
    if plan is None:
        raise click.UsageError("give --store, or the PLAN whose store stands beside it")
    return str(Path(plan).with_suffix(".db"))


def _show_diff(store: str, runs: tuple[str, str], form: str, strict: bool, quiet: bool) -> None:
    """Print the changes between two runs; with ``strict`` exit with code 1 if a value became worse."""
    with report_errors("--diff"):
        from ..run_diffs import diff_runs

        result = diff_runs(store, *runs)
    if not quiet:
        _print_diff(result, form)
    if strict and any(change.verdict in ("worse", "lost") for change in result.changes):
        sys.exit(NOT_KEPT)


def _print_diff(result: RunDiff, form: str) -> None:
    """Print the changes as a table, with their causes and a summary, or as JSON."""
    from ..changes import draw_changes, write_causes

    if form == "json":
        emit_json(result.to_dict())
        return
    title = f"Runs {result.old.run[:12]} and {result.new.run[:12]}"
    grid = [draw_grid(draw_changes(result.changes, title), form)] if result.changes else []
    causes = write_causes((str(change.case), change.causes) for change in result.changes)
    emit("\n\n".join([*grid, "\n".join([*causes, result.summary()])]))


# A run ----------------------------------------------------------------------------------------------------------------


def _run_plan(path: Path, options: dict[str, Any], dry_run: bool, form: str, strict: bool, quiet: bool) -> None:
    """Run a plan with these options of `Audit`, and print its rows; with ``dry_run`` print alone what would run."""
    from ..plan import Plan
    from ..running import Audit

    with report_errors("PLAN"):
        audit = Audit(Plan.load(path), **options)
        if dry_run:
            _print_dry_run(audit, form)
            return
        finished = _run(audit, quiet)
    if not quiet:
        _print_result(finished, form)
    failed = _list_broken_limits(audit, finished)
    for line in failed:
        say(f"Budget not kept: {line}")
    if failed or (strict and finished.counts.get("complete", 0) < sum(finished.counts.values())):
        sys.exit(NOT_KEPT)


def _print_dry_run(audit: Audit, form: str) -> None:
    """Print what would run."""
    from ..dry_run import plan_dry_run

    planned = plan_dry_run(audit)
    if form == "json":
        emit_json(planned.to_dict())
    else:
        emit(planned.to_text())


def _run(audit: Audit, quiet: bool) -> AuditResult:
    """Run an audit, and show its progress unless ``quiet``; if interrupted, print the place of its rows, and exit."""
    from .progress import ShownProgress

    try:
        with ExitStack() as shown:
            if not quiet:
                audit.watch = shown.enter_context(ShownProgress(sys.stderr))
            return audit.run()
    except KeyboardInterrupt:
        from ..database import hide_password

        address = hide_password(audit.url)
        say(f"\nInterrupted: the rows so far are in {address}; the same command goes on from there.")
        sys.exit(INTERRUPTED)


def _print_result(finished: AuditResult, form: str) -> None:
    """Print the summary, or the rows as a list in JSON, a row in each line."""
    if form == "console":
        from ..summary import summarize

        emit(summarize(finished, wants_color()), colored=True)
    else:
        rows = ",\n".join(json.dumps(row.to_dict(), ensure_ascii=False) for row in finished.rows())
        emit(f"[\n{rows}\n]")


def _list_broken_limits(audit: Audit, finished: AuditResult) -> list[str]:
    """Return a line for each limit of the plan's budgets that is not kept, or that no model has layers for."""
    from ..run_budgets import check_run

    return list(check_run(finished.store, finished.run).list_failed()) if audit.plan.budgets else []
