"""What the commands that read a store share: their options, their errors, and tables as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from profilerkit.cli import MODEL_FAILED, USAGE, fail
from profilerkit.cli.options import format_option
from profilerkit.cli.output import cannot_write
from profilerkit.errors import ArgumentError, BudgetError, StoreError

if TYPE_CHECKING:
    from profilerkit import Report
    from profilerkit.render.grids import Grid

__all__ = [
    "FORMS",
    "draw_grid",
    "form_option",
    "put_report",
    "report_option",
    "report_store_errors",
    "run_option",
    "store_option",
]

_C = TypeVar("_C", bound="Callable[..., Any] | click.Command")
FORMS = ("console", "json", "markdown")

store_option: Callable[[_C], _C] = click.option(
    "--store", required=True, metavar="URL", help="The store: sqlite:///runs.db, a path, or postgresql://..."
)

run_option: Callable[[_C], _C] = click.option(
    "--run", metavar="RUN", help="Only this run: its identifier, or last~N. By default the newest row of each case."
)

#: The option of ``profile``.
report_option: click.Option = click.Option(
    ["--store"], metavar="URL", help="Also save the report in this store of audits: a path or URL."
)


def put_report(store: str, report: Report, spec: str) -> None:
    """Put a report into a store; it was printed before, so that nothing is lost if that fails."""
    try:
        from ..adding import add_report
    except ImportError as error:
        fail(f"stores need packages that are not installed ({error}): pip install 'profilerkit[audit]'", USAGE, error)
    try:
        add_report(store, report, spec)
    except StoreError as error:
        fail(str(error), MODEL_FAILED, error)


def form_option(*forms: str, help: str = "") -> Callable[[Any], Any]:
    """Return the option ``--format`` with these names; its help names them unless another one is given."""

    def check(context: click.Context, parameter: click.Parameter, value: str) -> str:
        if value not in forms and not context.resilient_parsing:
            raise click.BadParameter(f"{value!r}: there are {', '.join(forms)}")
        return value

    return format_option(help or f"Format of the result: {', '.join(forms[:-1])} or {forms[-1]}.", check)


@contextmanager
def report_store_errors(argument: str) -> Iterator[None]:
    """Say what is wrong with a store or an argument, and leave with the exit code of it."""
    try:
        yield
    except ArgumentError as error:
        raise click.BadParameter(str(error), param_hint=argument) from error
    except BudgetError as error:
        raise click.UsageError(str(error)) from error
    except StoreError as error:
        fail(str(error), MODEL_FAILED, error)
    except OSError as error:
        cannot_write(error)
    except ImportError as error:
        needed = "pip install 'profilerkit[audit,regressions]'"
        fail(f"this needs packages that are not installed ({error}): {needed}", USAGE, error)


def draw_grid(grid: Grid, form: str) -> str:
    """Return a table as text for a terminal, or as Markdown."""
    if form == "markdown":
        from profilerkit.render.markdown import escape, table

        return f"### {escape(grid.title)}\n\n{table(grid)}"
    from profilerkit.render.console import grid_text

    return grid_text(grid)
