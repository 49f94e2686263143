"""``profilerkit export STORE --output FILE``."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ArgumentError, StoreError
from . import MODEL_FAILED, USAGE, emit, fail
from .options import output_option
from .output import cannot_write

__all__ = ["command"]


@click.command("export")
@click.argument("store")
@output_option("The file to write: .parquet, .jsonl or .csv.", required=True)
@click.option("--run", metavar="RUN", help="Only the rows of this run; by default the newest row of each case.")
@click.option("--private", is_flag=True, help="Keep secrets, names of users and hosts, and absolute paths.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print the number of rows.")
def command(store: str, output: Path, run: str | None, private: bool, quiet: bool) -> None:
    """Write the rows of a store, with their reports, to a file: Parquet, JSON lines or CSV.

    STORE is the path or URL of the store of an audit. 'profilerkit.audits.read_export' reads the file.
    """
    try:
        from ..audits.exporting import export
        from ..audits.store import Store
    except ImportError as error:
        fail(f"stores need packages that are not installed ({error}): pip install 'profilerkit[audit]'", USAGE, error)
    try:
        with Store.open(store, create=False) as opened:
            if run is not None and run not in {each.run for each in opened.runs()}:
                raise click.BadParameter(f"there is no run {run!r} in {store}", param_hint="--run")
            count = export(opened, output, run, private)
    except ArgumentError as error:
        raise click.BadParameter(str(error), param_hint="--output") from error
    except StoreError as error:
        fail(str(error), MODEL_FAILED, error)
    except OSError as error:
        cannot_write(error)
    if not quiet:
        emit(f"{count} rows in {output}")
