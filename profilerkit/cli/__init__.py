"""The command line: ``profilerkit``. One file for each command, imported when it is run."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from ..errors import ProfilerKitError

__all__ = ["cli", "main"]

#: Each command (in the module NAME_command), with what the help says of it before that is imported.
COMMANDS = {
    "list": "List backends and metrics, and the package each comes from.",
    "profile": "Profile a model: MODEL is package.module:name or path/to/file.py:name.",
}


class _LazyGroup(click.Group):
    """Imports a command when it is run; the help of the group needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f".{cmd_name}_command", __name__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="profilerkit", prog_name="profilerkit")
def cli() -> None:
    """Say what a neural network costs: parameters, size, MACs, FLOPs, memory, time."""


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; results go to standard output, errors to standard error.

    Exit codes: 0 fine, 1 a value is incomplete under ``--strict``, 2 usage, 3 the model could not be profiled.
    """
    try:
        return cli(args=arguments)
    except ProfilerKitError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(3)
