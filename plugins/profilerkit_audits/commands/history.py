"""``profilerkit history MODEL --metric METRIC --store STORE``."""

from __future__ import annotations

import json

import click

from profilerkit.cli import emit

from .stores import FORMS, draw_grid, form_option, report_store_errors, store_option

__all__ = ["command"]


@click.command("history")
@click.argument("model")
@click.option("--metric", required=True, metavar="METRIC", help="The metric, such as macs or execution_time.")
@store_option
@form_option(*FORMS)
def command(model: str, metric: str, store: str, form: str) -> None:
    """Show the values of a metric over commits, versions and machines.

    MODEL is the text of a model in the store, a pattern of texts, or the name of a model.
    """
    with report_store_errors("MODEL"):
        from ..histories import history

        histories = history(store, model, metric)
    if form == "json":
        emit(json.dumps([series.to_dict() for series in histories], indent=1, ensure_ascii=False))
        return
    emit("\n\n".join(draw_grid(series.grid(), form) for series in histories))
