"""The commands that read a store, the parts that all commands of audits share, and the option ``profile --store``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profilerkit.cli import NOT_KEPT, USAGE, emit, fail
from profilerkit.cli.options import choose_form, output_option
from profilerkit.cli.output import cannot_write
from profilerkit.count_text import format_count
from profilerkit.errors import ArgumentError, BudgetError, NotOfferedError, PlanError

if TYPE_CHECKING:
    from profilerkit import Report
    from profilerkit.render.grids import Grid

    from ..regression_search import Regressions

FORMS = ("console", "json", "markdown")

#: The option of ``profile``.
report_option: click.Option = click.Option(
    ["--store"], metavar="URL", help="Also save the report in this store of audits: a path or URL."
)


def put_report(store: str, report: Report, spec: str) -> None:
    """Put a report into a store; the report was printed before, so that nothing is lost if the store fails."""
    with report_errors("--store"):
        from ..single_reports import add_report

        add_report(store, report, spec)


@contextmanager
def report_errors(argument: str) -> Iterator[None]:
    """Report an error of an argument, a plan, a budget, a file or the installation, and exit with its code.

    A message about a wrong value names ``argument``. The command line itself reports errors of a store.
    """
    try:
        yield
    except (ArgumentError, PlanError) as error:
        raise click.BadParameter(str(error), param_hint=argument) from error
    except NotOfferedError as error:
        raise click.BadParameter(str(error), param_hint="--engine") from error
    except BudgetError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        if error.filename is None:  # no file that could not be written
            raise
        cannot_write(error)
    except ImportError as error:
        needed = "pip install 'profilerkit[audit,regressions]'"
        fail(f"this needs packages that are not installed ({error}): {needed}", USAGE, error)


def emit_json(content: Any) -> None:
    """Print values that JSON holds."""
    emit(json.dumps(content, indent=1, ensure_ascii=False))


def draw_grid(grid: Grid, form: str) -> str:
    """Return a table as text for a terminal, or as Markdown."""
    if form == "markdown":
        from profilerkit.render.markdown import escape, table

        return f"### {escape(grid.title)}\n\n{table(grid)}"
    from profilerkit.render.console import grid_text

    return grid_text(grid)


_store_option = click.option(
    "--store", required=True, metavar="URL", help="The store: sqlite:///runs.db, a path, or postgresql://..."
)
_private_option = click.option(
    "--private", is_flag=True, help="Keep secrets, names of users and hosts, and absolute paths."
)


@click.command("history")
@click.argument("model")
@click.option("--metric", required=True, metavar="METRIC", help="The metric, such as macs or execution_time.")
@_store_option
@choose_form(*FORMS)
def history(model: str, metric: str, store: str, form: str) -> None:
    """Show the values of a metric over commits, versions and machines.

    MODEL is the text of a model in the store, a pattern of texts, or the name of a model.
    """
    with report_errors("MODEL"):
        from .. import histories

        cases = histories.history(store, model, metric)
    if form == "json":
        emit_json([series.to_dict() for series in cases])
    else:
        emit("\n\n".join(draw_grid(series.grid(), form) for series in cases))


@click.command("regressions")
@_store_option
@click.option(
    "--rate",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.05,
    show_default=True,
    help="False discoveries among the steps in times, at most, as a share.",
)
@click.option(
    "--min-change",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.02,
    show_default=True,
    help="The least step in a time that is reported, as a share of the time.",
)
@click.option("--window", default=60, show_default=True, help="How many of the newest nights are searched for steps.")
@click.option("--since", metavar="RUN", help="Only what moved since this run began: its identifier, or last~N.")
@click.option("--strict", is_flag=True, help="Exit with 1 if something became worse.")
@choose_form(*FORMS)
def regressions(strict: bool, form: str, **options: Any) -> None:
    """Show which counts and times of an audit changed: counts with the layers responsible, times by change points.

    Times are compared within one kind of machine. A change that all models share is put down to the machine.
    """
    with report_errors("--since or --window"):
        from .. import regression_search

        result = regression_search.regressions(**options)
    if form == "json":
        emit_json(result.to_dict())
    else:
        emit(_write_regressions(result, form))
    if strict and result.is_worse:
        sys.exit(NOT_KEPT)


def _write_regressions(result: Regressions, form: str) -> str:
    """Return the tables of changes and steps, and below them the causes, the number of searched series, and notes."""
    from ..changes import draw_changes, write_causes
    from ..step_search import draw_steps

    grids = []
    if result.changes:
        grids.append(draw_changes(result.changes, "Counts that moved"))
    if result.machines:
        grids.append(draw_steps(result.machines, "All models moved together: the machine"))
    if result.steps:
        grids.append(draw_steps(result.steps, "Times"))
    causes = write_causes(
        [
            *((str(change.case), change.causes) for change in result.changes),
            *((step.name, step.causes) for step in (*result.machines, *result.steps)),
        ]
    )
    searched = (
        f"{format_count(len(result.changes), 'count')} moved; {result.series} series of times were searched, with "
        f"{format_count(len(result.steps), 'step')} of models and {len(result.machines)} of machines"
    )
    end = "\n".join([*causes, searched, *result.notes])
    return "\n\n".join([*(draw_grid(grid, form) for grid in grids), end])


@click.command("export")
@click.argument("store")
@output_option("The file to write: .parquet, .jsonl or .csv.", required=True)
@click.option(
    "--run", metavar="RUN", help="Only this run: its identifier, or last~N. By default every measurement of the store."
)
@_private_option
@click.option("-q", "--quiet", is_flag=True, help="Do not print the number of rows.")
def export(store: str, output: Path, run: str | None, private: bool, quiet: bool) -> None:
    """Write the rows of a store to a file: Parquet or JSON lines with their reports, or CSV for a spreadsheet.

    STORE is the path or URL of the store of an audit. 'profilerkit_audits.read_export' reads the first two.
    """
    with report_errors("--output" if run is None else "--output or --run"):
        from .. import exporting
        from ..store import Store

        with Store.open(store, create=False) as opened:
            count = exporting.export(opened, output, run, private)
    if not quiet:
        emit(f"{format_count(count, 'row')} in {output}")


@click.command("dashboard")
@click.argument("store")
@output_option("The page to write, such as audit.html.", required=True)
@click.option(
    "--run", metavar="RUN", help="Only this run: its identifier, or last~N. By default the newest row of each case."
)
@click.option(
    "--pages/--no-pages",
    default=True,
    show_default=True,
    help="Also write the page of each model, into a folder beside the file.",
)
@_private_option
@click.option("-q", "--quiet", is_flag=True, help="Do not print what was written.")
def dashboard(store: str, output: Path, run: str | None, pages: bool, private: bool, quiet: bool) -> None:
    """Write the store of an audit as one page: table, Pareto front, histories, and a link to each model's page.

    STORE is the path or URL of the store of an audit. The page needs no network.
    """
    with report_errors("--run"):
        from ..dashboard.writing import write
        from ..store import Store

        with Store.open(store, create=False) as opened:
            written = write(opened, output, run, private, pages)
    if not quiet:
        pages_of_models = f"{format_count(written.pages, 'page')} of models in {output.stem}-models"
        beside = f", and {pages_of_models}" if written.pages else ""
        emit(f"{format_count(written.rows, 'row')} in {output}{beside}")
