"""``profilerkit trace-script``: a script that makes a profile on machines without installation."""

from __future__ import annotations

from pathlib import Path

import click

from profilerkit.cli import USAGE, emit, fail
from profilerkit.cli.options import output_option
from profilerkit.cli.output import cannot_write
from profilerkit.errors import ProfilerKitError


@click.command("trace-script")
@click.option("--backend", default="torch", show_default=True, help="The framework that is profiled.")
@output_option("Write the script to this file.")
def command(backend: str, output: Path | None) -> None:
    """Print a script of one file that profiles a model with torch alone, for 'profilerkit join'.

    Copy it to a machine where nothing can be installed, and run it there: python profile_model.py --help.
    """
    from profilerkit.hooks.backends import backend_named
    from profilerkit.process.files import write_text
    from profilerkit.protocols import require_capability

    from ..joining.capability import JOINS_PROFILES, JoinsProfiles

    try:
        script = require_capability(backend_named(backend), JoinsProfiles, [JOINS_PROFILES]).profile_script()
    except ProfilerKitError as error:
        fail(str(error), USAGE, error)
    if output is None:
        emit(script.rstrip("\n"))
        return
    try:
        write_text(output, script)
    except OSError as error:
        cannot_write(error)
    emit(f"written to {output}; run it with: python {output} --help")
