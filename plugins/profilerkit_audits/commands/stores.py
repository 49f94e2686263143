"""What the commands of audits share, and where ``profile --store`` puts a report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from profilerkit.cli import USAGE, emit, fail
from profilerkit.cli.output import cannot_write
from profilerkit.errors import ArgumentError, BudgetError, NotOfferedError, PlanError

if TYPE_CHECKING:
    from profilerkit import Report
    from profilerkit.render.grids import Grid

__all__ = ["FORMS", "draw_grid", "emit_json", "put_report", "report_errors", "report_option"]

FORMS = ("console", "json", "markdown")

#: The option of ``profile``.
report_option: click.Option = click.Option(
    ["--store"], metavar="URL", help="Also save the report in this store of audits: a path or URL."
)


def put_report(store: str, report: Report, spec: str) -> None:
    """Put a report into a store; it was printed before, so that nothing is lost if that fails."""
    with report_errors("--store"):
        from ..adding import add_report

        add_report(store, report, spec)


@contextmanager
def report_errors(argument: str) -> Iterator[None]:
    """Say what is wrong with an argument, a plan, a budget, a file or the installation, and leave with its exit code.

    ``argument`` is what a message about a wrong value names. An error of a store is said by the command line itself.
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
