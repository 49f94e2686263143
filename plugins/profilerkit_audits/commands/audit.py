"""``profilerkit audit PLAN``. The parts of an audit are imported where they are used, so that --help is quick."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from profilerkit.cli import INTERRUPTED, NOT_KEPT, emit, say
from profilerkit.cli.options import TypedOption, choose_form
from profilerkit.process.clean_output import wants_color

from .stores import draw_grid, emit_json, report_errors

if TYPE_CHECKING:
    from ..run_diffs import RunDiff
    from ..running import Audit
    from ..summary import AuditResult

#: The forms of the rows of a run, of --diff, and of --check.
_FORMS = {
    "": ("console", "json"),
    "--diff": ("console", "json", "markdown"),
    "--check": ("console", "markdown", "junit"),
}


class _Printing(NamedTuple):
    """The options of what is printed, and of the exit code, as in the call."""

    form: str
    strict: bool
    quiet: bool


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
    "--engine", default="local", show_default=True, metavar="NAME", help="What runs the models: local or ray."
)
@click.option(
    "--address",
    metavar="ADDRESS",
    cls=TypedOption,
    help="The cluster of the engine ray; by default one on this machine.",
)
@click.option("--dry-run", is_flag=True, help="Print what would run, and run nothing.")
@choose_form(
    *dict.fromkeys(form for forms in _FORMS.values() for form in forms),
    help="Format of the printed rows: console or json; of --diff also markdown, of --check markdown or junit.",
)
@click.option("--diff", nargs=2, metavar="OLD NEW", help="Run nothing; show what moved between two runs of the store.")
@click.option("--check", metavar="RUN", help="Run nothing; check a run of the store against a budget.")
@click.option(
    "--budget",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The budget of --check, a TOML file; by default the budgets of the run's plan.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 also if a row is not complete; with --diff if a value got worse or was lost; with --check if a "
    "limit is not certainly kept.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print neither rows nor progress, only errors.")
def command(
    plan: str | None,
    store: str | None,
    dry_run: bool,
    diff: tuple[str, str] | None,
    check: str | None,
    budget: str | None,
    form: str,
    strict: bool,
    quiet: bool,
    **running: Any,
) -> None:
    """Profile many models, each in a process of its own, into a store.

    PLAN is a TOML file: models, settings, metrics and limits. What is in the store already is not run again. A model
    that crashes or hangs is a row with its reason; budgets of the plan that are exceeded make the exit code 1.

    --diff and --check take runs by identifier, by the beginning of one, or by age: 'last', 'last~1' the one before.
    """
    if diff and check is not None:
        raise click.UsageError("give --diff, or --check with its --budget")
    verb = "--diff" if diff else "" if check is None else "--check"
    _require_fitting(verb)
    printing = _Printing(_choose_fitting(verb, form), strict, quiet)
    if diff:
        _show_diff(_choose_store(plan, store), diff, printing)
    elif check is not None:
        _show_check(_choose_store(plan, store), check, budget, printing)
    elif plan is None:
        raise click.UsageError("Missing argument 'PLAN'.")
    else:
        _run_plan(Path(plan), {"store": store, **running}, dry_run, printing)


def _require_fitting(verb: str) -> None:
    """Raise `click.UsageError` for options that --diff, --check, or a run without both does not have."""
    for name in ("dry_run", "rerun", "engine", "address") if verb else ():
        if _is_typed(name):
            raise click.UsageError(f"{verb} runs nothing; leave out --{name.replace('_', '-')}")
    if verb != "--check" and _is_typed("budget"):
        raise click.UsageError("--budget is for --check; the budgets of an audit stand in its plan")


def _choose_fitting(verb: str, form: str) -> str:
    """Return a form that --diff, --check, or a run without both has; raise `click.BadParameter` for a typed other one.

    One of pyproject.toml that is for other calls is left aside.
    """
    if form in _FORMS[verb]:
        return form
    if not _is_typed("form"):
        return "console"
    where = f"with {verb}" if verb else "of rows"
    raise click.BadParameter(f"{form!r}: {where} there are {', '.join(_FORMS[verb])}", param_hint="--format")


def _is_typed(name: str) -> bool:
    """Return whether an option stands in the call; one of pyproject.toml is for the calls that have it."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


# Runs that are over ---------------------------------------------------------------------------------------------------


def _choose_store(plan: str | None, store: str | None) -> str:
    """Return the named store, or the store beside the plan; raises `click.UsageError` without both."""
    if store is not None:
        return store
    if plan is None:
        raise click.UsageError("give --store, or the PLAN whose store stands beside it")
    return str(Path(plan).with_suffix(".db"))


def _show_diff(store: str, runs: tuple[str, str], printing: _Printing) -> None:
    """Print the changes between two runs; if strict, exit with code 1 if a value became worse."""
    with report_errors("--diff"):
        from ..run_diffs import diff_runs

        result = diff_runs(store, *runs)
    if not printing.quiet:
        _print_diff(result, printing.form)
    if printing.strict and any(change.verdict in ("worse", "lost") for change in result.changes):
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


def _show_check(store: str, run: str, budget: str | None, printing: _Printing) -> None:
    """Print which limits a run keeps; exit with code 1 if a limit is broken."""
    with report_errors("--check"):
        from profilerkit_budgets import Budget

        from ..run_budgets import check_run

        result = check_run(store, run, None if budget is None else Budget.load(budget))
    if not printing.quiet:
        emit(result.write(printing.form).rstrip("\n"))
    if result.is_broken(printing.strict):
        sys.exit(NOT_KEPT)


# A run ----------------------------------------------------------------------------------------------------------------


def _run_plan(path: Path, options: dict[str, Any], dry_run: bool, printing: _Printing) -> None:
    """Run a plan with these options of `Audit`, and print its rows; with ``dry_run`` print alone what would run."""
    from ..plan import Plan
    from ..running import Audit

    with report_errors("PLAN"):
        audit = Audit(Plan.load(path), **options)
        if dry_run:
            _show_dry_run(audit, printing)
            return
        finished = _run(audit, printing.quiet)
    if not printing.quiet:
        _print_result(finished, printing.form)
    failed = _list_broken_limits(audit, finished)
    for line in failed:
        say(f"Budget not kept: {line}")
    if failed or (printing.strict and finished.counts.get("complete", 0) < sum(finished.counts.values())):
        sys.exit(NOT_KEPT)


def _show_dry_run(audit: Audit, printing: _Printing) -> None:
    """Print what would run; if quiet, only the errors of the plan are said."""
    from ..dry_run import plan_dry_run

    planned = plan_dry_run(audit)
    if printing.quiet:
        return
    if printing.form == "json":
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
    """Return a line for each limit of the plan's budgets that is not kept."""
    from ..run_budgets import check_run

    return list(check_run(finished.store, finished.run).list_failed()) if audit.plan.budgets else []
