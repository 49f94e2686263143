"""The command line: ``profilerkit``. One file for each command, imported when it is run."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from ..errors import ProfilerKitError, ProfilerKitWarning

__all__ = ["INCOMPLETE", "MODEL_FAILED", "cli", "fail", "main"]

#: Exit codes beside 0 (fine) and 2 (usage).
INCOMPLETE, MODEL_FAILED = 1, 3

#: Each command (in the module NAME_command), with what the help says of it before that is imported.
COMMANDS = {
    "list": "List what plugins offer, and the package each comes from.",
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
@click.option("--no-plugins", is_flag=True, help="Do without the plugins of other packages.")
@click.pass_context
def cli(context: click.Context, no_plugins: bool) -> None:
    """Say what a neural network costs: parameters, size, MACs, FLOPs, memory, time."""
    if no_plugins:
        from ..plugins import own_alone

        context.with_resource(own_alone())


def fail(message: str, code: int) -> NoReturn:
    """Say on standard error what went wrong, and leave with an exit code."""
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; results go to standard output, errors to standard error.

    Exit codes: 0 fine, 1 a value is incomplete under ``--strict``, 2 usage, 3 the model could not be profiled.
    """
    try:
        with _warnings_in_a_line():
            return cli(args=arguments)
    except ProfilerKitError as error:
        fail(str(error), MODEL_FAILED)


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Say our own warnings without a place: they are of a plugin or an argument, and no line of code is to blame."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, ProfilerKitWarning):
                click.echo(f"Warning: {message}", err=True)
            else:
                others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
