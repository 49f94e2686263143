"""``profilerkit export STORE --output FILE``."""

from __future__ import annotations

from pathlib import Path

import click

from profilerkit.cli import emit
from profilerkit.cli.options import output_option

from .stores import report_store_errors, run_option

__all__ = ["command"]


@click.command("export")
@click.argument("store")
@output_option("The file to write: .parquet, .jsonl or .csv.", required=True)
@run_option
@click.option("--private", is_flag=True, help="Keep secrets, names of users and hosts, and absolute paths.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print the number of rows.")
def command(store: str, output: Path, run: str | None, private: bool, quiet: bool) -> None:
    """Write the rows of a store, with their reports, to a file: Parquet, JSON lines or CSV.

    STORE is the path or URL of the store of an audit. 'profilerkit_audits.read_export' reads the file.
    """
    with report_store_errors("--output or --run"):
        from ..exporting import export
        from ..store import Store

        with Store.open(store, create=False) as opened:
            count = export(opened, output, run, private)
    if not quiet:
        emit(f"{count} rows in {output}")
