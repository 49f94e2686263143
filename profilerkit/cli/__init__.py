"""The command line: ``profilerkit``. One file for each command, imported when it is run."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from ..errors import ProfilerKitError, ProfilerKitWarning

__all__ = ["INTERRUPTED", "MODEL_FAILED", "NOT_KEPT", "cli", "fail", "main"]

#: Exit codes beside 0 (fine) and 2 (usage). The last is what shells give a program that was stopped with Ctrl-C.
NOT_KEPT, MODEL_FAILED, INTERRUPTED = 1, 3, 130

#: Each command (in the module NAME_command), with what the help says of it before that is imported.
COMMANDS = {
    "profile": "Profile a model and print its report.",
    "compare": "Profile models side by side; the first is the reference.",
    "show": "Show a saved report or comparison again, in any form.",
    "diff": "Say what changed between two reports or models, layer by layer.",
    "check": "Check a model against a budget; exit with 1 where it is not kept.",
    "list": "List what plugins offer, and the package each comes from.",
    "doctor": "Say what is installed, and what each backend can do here.",
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
@click.option("--traceback", "traced", is_flag=True, help="Show where in the code an error came from.")
@click.pass_context
def cli(context: click.Context, no_plugins: bool, traced: bool) -> None:
    """Say what a neural network costs: parameters, size, MACs, FLOPs, memory, time."""
    context.obj = {"traceback": traced}
    if no_plugins:
        from ..plugins import own_alone

        context.with_resource(own_alone())


def fail(message: str, code: int, error: BaseException | None = None) -> NoReturn:
    """Say on standard error what went wrong, and leave with an exit code; with ``--traceback`` where it came from."""
    context = click.get_current_context(silent=True)
    wanted = bool(context and (context.find_root().obj or {}).get("traceback"))
    if wanted and error is not None:
        click.echo("".join(traceback.format_exception(error)).rstrip(), err=True)
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; results go to standard output, errors and progress to standard error.

    Exit codes: 0 fine, 1 a budget or ``--strict`` is not kept, 2 usage, 3 the model could not be profiled, 130
    interrupted.
    """
    try:
        with _warnings_in_a_line():
            result = cli(args=arguments, standalone_mode=False)
            sys.exit(result if isinstance(result, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ProfilerKitError as error:
        fail(str(error), MODEL_FAILED, error)
    except (click.Abort, KeyboardInterrupt):
        click.echo("\nInterrupted: nothing was written.", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # who read the results has gone: `profilerkit list | head`
        sys.stderr.close()
        sys.exit(0)


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
