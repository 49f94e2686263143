"""``profilerkit regressions --store STORE``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from profilerkit.cli import NOT_KEPT, emit

from .stores import FORMS, draw_grid, form_option, report_store_errors, store_option

if TYPE_CHECKING:
    from ..regression_search import Regressions

__all__ = ["command"]


@click.command("regressions")
@store_option
@click.option("--rate", default=0.05, show_default=True, help="False discoveries among the steps in times, at most.")
@click.option("--min-change", default=0.02, show_default=True, help="The least step in a time that is reported.")
@click.option("--window", default=60, show_default=True, help="How many of the newest nights are searched for steps.")
@click.option("--since", metavar="RUN", help="Only what moved since this run began: its identifier, or last~N.")
@click.option("--strict", is_flag=True, help="Exit with 1 if something became worse.")
@form_option(*FORMS)
def command(strict: bool, form: str, **options: Any) -> None:
    """Show which counts and times of an audit changed: counts with the layers responsible, times by change points.

    Times are compared within one kind of machine. A change that all models share is put down to the machine.
    """
    with report_store_errors("options"):
        from ..regression_search import regressions

        result = regressions(**options)
    if form == "json":
        emit(json.dumps(result.to_dict(), indent=1, ensure_ascii=False))
    else:
        emit(_write_text(result, form))
    if strict and result.is_worse:
        sys.exit(NOT_KEPT)


def _write_text(result: Regressions, form: str) -> str:
    from ..changes import draw_changes
    from ..regression_search import draw_steps

    grids = [draw_changes(result.changes, "Counts that moved")] if result.changes else []
    for title, steps in (("All models moved together: the machine", result.machines), ("Times", result.steps)):
        grids += [draw_steps(steps, title)] if steps else []
    searched = f"{len(result.changes)} counts moved; {result.series} series of times were searched, with "
    searched += f"{len(result.steps)} steps of models and {len(result.machines)} of machines"
    return "\n\n".join([*(draw_grid(grid, form) for grid in grids), "\n".join([searched, *result.notes])])
