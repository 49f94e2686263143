"""The group of all commands: how one is found, configured and run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from ..count_text import name_several
from ..errors import by_likeness
from ..hooks.commands import find_plugin, list_commands, load_command
from ..process.clean_output import results_alone
from ..process.containment import contained
from .printing import emit, show_traceback

__all__ = ["CommandGroup"]

#: Errors that tell a user what to type, and ends of a command that are no errors: they have no traceback.
_NO_MISTAKES = (click.ClickException, click.Abort, click.exceptions.Exit)


class CommandGroup(click.Group):
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
        if args and args[0][:1] != "-":
            _require_command(ctx, args[0], self.list_commands(ctx))
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None and not ctx.resilient_parsing:
            from .configuration import configure_command

            ctx.default_map = {name: configure_command(command)}
            _require_once(click.Context(command, parent=ctx, info_name=name), rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, info.description) for name, info in list_commands().items()])


def _require_command(context: click.Context, name: str, names: list[str]) -> None:
    if name not in names:
        context.fail(f"No such command {name!r}; there are, nearest first: {', '.join(by_likeness(name, names))}")


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
