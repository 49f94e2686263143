"""``profilerkit check MODEL --budget FILE``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profilerkit.cli import MODEL_FAILED, NOT_KEPT, USAGE, emit, fail
from profilerkit.cli.completions import complete_models
from profilerkit.cli.loading import is_saved, load_report
from profilerkit.cli.measuring import Request, measure_specs, profile_spec
from profilerkit.cli.options import (
    TypedOption,
    choose_form,
    input_options,
    isolation_options,
    measuring_options,
    output_option,
)
from profilerkit.cli.output import cannot_write
from profilerkit.errors import BudgetError
from profilerkit.process.files import write_text

if TYPE_CHECKING:
    from profilerkit.results.report import Report

    from . import Budget, Finding


@click.command("check")
@click.argument("model", shell_complete=complete_models)
@click.option("--budget", "path", type=click.Path(dir_okay=False), help="TOML file of limits, such as macs = '<= 5 G'.")
@click.option("--limit", multiple=True, metavar="LIMIT", help="A limit, such as 'macs <= 5 G'; repeat it for several.")
@click.option(
    "--baseline",
    metavar="MODEL",
    cls=TypedOption,
    help="The saved report or model that limits such as '1.1x' refer to.",
)
@click.option(
    "--update",
    is_flag=True,
    cls=TypedOption,
    help="Record the model as the baseline, in the file that --baseline names.",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Measure again, at most N times, if only measured values such as times break their limits.",
)
@input_options
@measuring_options
@isolation_options
@choose_form("console", "markdown", "junit")
@output_option("Write the result to a file instead of standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Print neither the result nor progress; only set the exit code.")
@click.option("--strict", is_flag=True, help="Also fail if a measured ratio is too uncertain to decide.")
def command(
    model: str,
    path: str | None,
    limit: tuple[str, ...],
    baseline: str | None,
    update: bool,
    retries: int,
    form: str,
    output: Path | None,
    strict: bool,
    **how: Any,
) -> None:
    """Check a model against a budget; exit with 1 if it is exceeded.

    MODEL is a model as 'profilerkit profile' takes it, or a report that was saved as JSON.
    """
    from .checking import select_broken

    budget = _read_budget(path, limit, baseline, update)
    request = Request(**{**how, "metric": tuple(dict.fromkeys((*budget.metrics, *how["metric"])))})
    if update and baseline is not None:  # nothing is checked, so that there is no result to show
        _record_baseline(_measure(model, None, request)[0], baseline, request.quiet)
        return
    report, findings = _check(partial(_measure, model, baseline, request), budget, retries, strict)
    _show(findings, report.name, form, output, request.quiet)
    if select_broken(findings, strict):
        sys.exit(NOT_KEPT)


def _read_budget(path: str | None, limits: tuple[str, ...], baseline: str | None, update: bool) -> Budget:
    """Return the limits of a file and of the command line; a mistake in them is a usage error.

    Mistakes are reported before the measurements, which take time.
    """
    from .checking import require_checkable
    from .limits import read_budget

    try:
        budget = read_budget(path, limits)
        if not update and not budget.limits:
            raise BudgetError("give a budget: --budget budget.toml, or --limit 'macs <= 5 G'")
        require_checkable(budget)
        _require_baseline(budget, baseline, update)
    except BudgetError as error:
        raise click.UsageError(str(error)) from error
    return budget


def _require_baseline(budget: Budget, baseline: str | None, update: bool) -> None:
    """Raise `BudgetError` if there is no baseline and the budget needs one, or no file for the baseline to record."""
    if update:
        if baseline is None or not is_saved(baseline):
            raise BudgetError("--update records the baseline in a file: give it as --baseline baseline.json")
    elif baseline is None:
        for limit in budget.limits:
            if limit.relative:
                raise BudgetError(f"{limit} is relative: give --baseline, a saved report or a model")
    elif is_saved(baseline) and not Path(baseline).exists():
        raise BudgetError(f"there is no baseline {baseline}; record one with --update")


def _measure(model: str, baseline: str | None, request: Request) -> tuple[Report, Report | None]:
    """Return the report of the model and the report of the baseline; two models are measured in turn."""
    if baseline is not None:
        reference, other = measure_specs((baseline, model), request)
        return other.report, reference.report
    return load_report(model) if is_saved(model) else profile_spec(model, request).report, None


def _record_baseline(report: Report, baseline: str, quiet: bool) -> None:
    """Save a report as the baseline; print the recorded values."""
    from .baselines import record_baseline

    try:
        line = record_baseline(report, baseline)
    except BudgetError as error:
        fail(str(error), MODEL_FAILED, error)
    except OSError as error:
        cannot_write(error)
    if not quiet:
        emit(line)


def _check(
    measure: Callable[[], tuple[Report, Report | None]], budget: Budget, retries: int, strict: bool
) -> tuple[Report, list[Finding]]:
    """Return the report of the model, and the finding of each limit; a limit of an unknown metric is a usage error."""
    from .checking import check_with_retries

    try:
        return check_with_retries(measure, budget, retries, strict)
    except BudgetError as error:
        fail(str(error), USAGE, error)


def _show(findings: list[Finding], name: str, form: str, output: Path | None, quiet: bool) -> None:
    """Write the findings to a file, or print them unless it shall be quiet."""
    from .forms import FORMS

    text = FORMS[form](findings, name)
    if output is None:
        if not quiet:
            emit(text.rstrip("\n"))
        return
    try:
        write_text(output, text)
    except OSError as error:
        cannot_write(error)
