"""The command line: ``profilerkit``, with the commands that plugins offer."""

from __future__ import annotations

import io
import sys
from collections import Counter
from typing import Any

import click

from ..count_text import name_several
from ..errors import ProfilerKitError, by_likeness
from ..hooks.commands import find_plugin, list_commands, load_command
from ..hooks.manager import limit_to_own_plugins
from ..process.clean_output import results_alone
from ..process.containment import collect_notes, contained, describe_origin
from .printing import (
    INTERRUPTED,
    MODEL_FAILED,
    NOT_KEPT,
    USAGE,
    emit,
    fail,
    print_warnings_in_a_line,
    say,
    show_traceback,
)
from .quiet_imports import keep_frameworks_quiet

__all__ = ["INTERRUPTED", "MODEL_FAILED", "NOT_KEPT", "USAGE", "cli", "emit", "fail", "main", "say"]

#: How a shell learns to complete commands, options, metrics, formats and the names of models.
_COMPLETION = """\b
Completion in bash; zsh_source and fish_source for the other shells:
  eval "$(_PROFILERKIT_COMPLETE=bash_source profilerkit)"
"""
#: Errors that tell a user what to type, and ends of a command that are no errors: they have no traceback.
_NO_MISTAKES = (click.ClickException, click.Abort, click.exceptions.Exit)


class _Commands(click.Group):
    """The commands of all plugins, each imported when it is used; the help of the group needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(list_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, with its examples, and a help that goes where results go."""
        command = load_command(cmd_name)
        if command is None:
            return None
        command.epilog = _write_examples(list_commands()[cmd_name].examples) or command.epilog
        help_option = command.get_help_option(ctx)
        if help_option is not None:
            help_option.callback = _show_help
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with standard output for its result alone, and not for the output of models and plugins.

        The object of the context is whether the process ends with the command.
        """
        try:
            with results_alone(for_good=bool(ctx.obj)):
                return super().invoke(ctx)
        except click.BadParameter as error:
            from .configuration import name_origin

            raise name_origin(error) from error.__cause__
        except MemoryError as error:
            show_traceback(error)
            raise
        except Exception as error:
            if not isinstance(error, _NO_MISTAKES):
                show_traceback(error)  # here, because `main` has no context that knows the options
            with contained(find_plugin(ctx.invoked_subcommand), "a command"):  # so that `main` can name the plugin
                raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name, with the values of ``pyproject.toml`` as its defaults."""
        names = self.list_commands(ctx)
        if args and args[0][:1] != "-" and args[0] not in names:
            ctx.fail(f"No such command {args[0]!r}; there are, nearest first: {', '.join(by_likeness(args[0], names))}")
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None and not ctx.resilient_parsing:
            from .configuration import configure_command

            ctx.default_map = {name: configure_command(command)}
            _require_once(click.Context(command, parent=ctx, info_name=name), rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, info.description) for name, info in list_commands().items()])


def _require_once(context: click.Context, arguments: list[str]) -> None:
    """Refuse an option that is given twice and takes one value, because the first value would be lost in silence."""
    _, _, parameters = context.command.make_parser(context).parse_args(list(arguments))
    for parameter, times in Counter(parameters).items():
        if times > 1 and isinstance(parameter, click.Option) and not (parameter.multiple or parameter.is_flag):
            raise click.UsageError(f"{parameter.opts[-1]} is given {times} times; it takes one value", context)


def _write_examples(examples: tuple[str, ...]) -> str:
    r"""Return the examples of a command as click shows them, each in a line of its own; nothing without any."""
    if not examples:
        return ""
    heading = f"{name_several('Example', len(examples))}:"
    return "\n".join(("\b", heading, *(f"  {line}" for line in examples)))  # click folds no lines after \b


def _show_help(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        emit(context.get_help())
        context.exit()


def _use_own_plugins(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.with_resource(limit_to_own_plugins())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_COMPLETION)
@click.version_option(package_name="profilerkit", prog_name="profilerkit")
@click.option(
    "--no-plugins",
    is_flag=True,
    is_eager=True,  # before a command is looked up
    expose_value=False,
    callback=_use_own_plugins,
    help="Ignore the plugins of other packages.",
)
@click.option("--traceback", "traced", is_flag=True, help="Show the Python traceback of an error.")
def cli(traced: bool) -> None:
    """Report the cost of a neural network: parameters, size, MACs, FLOPs, memory, time."""


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; results go to standard output; errors, progress and models' output to standard error.

    Without ``arguments`` it uses the arguments of the process, and keeps standard output for results until the process
    ends.

    Exit codes: 0 fine, 1 a budget or ``--strict`` is not kept, 2 usage, 3 the model could not be profiled, 130
    interrupted.
    """
    if sys.stderr is None:  # pythonw, or a closed descriptor
        sys.stderr = io.StringIO()
    has_own_process = arguments is None
    try:
        with print_warnings_in_a_line():
            if has_own_process:
                keep_frameworks_quiet()
            result = cli(args=arguments, standalone_mode=False, obj=has_own_process)
            sys.exit(result if isinstance(result, int) else 0)
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        say(message.getvalue().rstrip("\n"))
        sys.exit(error.exit_code)
    except ProfilerKitError as error:
        fail(str(error), MODEL_FAILED, error)
    except (click.Abort, KeyboardInterrupt) as error:
        say("\nInterrupted.")
        for note in collect_notes(error):  # whose code it was that was waited for
            say(f"{note[:1].upper()}{note[1:]}.")
        sys.exit(INTERRUPTED)
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        fail(f"{where}{error.strerror or str(error) or type(error).__name__}", MODEL_FAILED, error)
    except MemoryError as error:
        fail(f"this process is out of memory{f': {error}' if str(error) else ''}", MODEL_FAILED, error)
    except Exception as error:
        origin = describe_origin(error) or "this is a mistake of profilerkit or a plugin"
        fail(f"{type(error).__name__}: {error}; {origin}; --traceback shows where", MODEL_FAILED, error)
