"""``profilerkit dashboard STORE --output audit.html``."""

from __future__ import annotations

from pathlib import Path

import click

from profilerkit.cli import emit
from profilerkit.cli.options import output_option

from .stores import report_store_errors, run_option

__all__ = ["command"]


@click.command("dashboard")
@click.argument("store")
@output_option("The page to write, such as audit.html.", required=True)
@run_option
@click.option(
    "--pages/--no-pages",
    default=True,
    show_default=True,
    help="Also write the page of each model, into a folder beside the file.",
)
@click.option("--private", is_flag=True, help="Keep secrets, names of users and hosts, and absolute paths.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print what was written.")
def command(store: str, output: Path, run: str | None, pages: bool, private: bool, quiet: bool) -> None:
    """Write the store of an audit as one page: table, Pareto front, histories, and a link to each model's page.

    STORE is the path or URL of the store of an audit. The page needs no network.
    """
    with report_store_errors("--run"):
        from ..dashboard.writing import write
        from ..store import Store

        with Store.open(store, create=False) as opened:
            written = write(opened, output, run, private, pages)
    if not quiet:
        beside = f", and {written.pages} pages of models in {output.stem}-models" if written.pages else ""
        emit(f"{written.rows} rows in {output}{beside}")
