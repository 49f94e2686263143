"""``[tool.profilerkit]`` of ``pyproject.toml``: options that a project repeats at each call of the command line.

.. code-block:: toml

    [tool.profilerkit]
    device = "cpu"
    num-threads = 1

    [tool.profilerkit.check]
    budget = "budget.toml"

The keys at the top are options of models and measurements, which mean the same in all commands. A table that is named
after a command holds options of that command alone. The command line wins over both. `profilerkit.profile` reads none
of this, so that the result of a call in Python never depends on a folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from ..error_text import shown
from ..errors import ArgumentError, by_likeness
from ..hooks.commands import list_commands
from ..piping.requests import Preference
from ..process.files import read_toml
from .options import SharedOption, TypedOption, input_options, isolation_options, measuring_options

__all__ = [
    "Configuration",
    "choose_values",
    "configure_command",
    "list_configured",
    "name_origin",
    "read_configuration",
]

#: The options at the top that say how times are measured.
_MEASURING_ARGUMENTS = ("num-threads", "max-seconds", "optimizer")

#: The name in click for the source of a value that the configuration sets.
_CONFIGURED = click.core.ParameterSource.DEFAULT_MAP


@dataclass(frozen=True)
class Configuration:
    """The settings of a file, by the names of options without dashes in front.

    Args:
        path: The file; None if there is none.
        shared: The options of all commands.
        commands: The options of single commands, by their names.
    """

    path: Path | None = None
    shared: Mapping[str, Any] = field(default_factory=dict)
    commands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def profile_arguments(self) -> dict[str, Any]:
        """The arguments of `profilerkit.profile` that say how a model is measured.

        They are read as if they were typed. The arguments for times are preferences: only metrics that take them heed
        them. A device is part of every profile. Raises `ArgumentError` for a value that its option does not take.
        """
        arguments: dict[str, Any] = {}
        for key in ("device", *_MEASURING_ARGUMENTS):
            if key in self.shared:
                option = _SHARED_OPTIONS[key]
                try:
                    value = option.process_value(click.Context(_all_shared), self.adapt(key, self.shared[key], option))
                except click.BadParameter as error:
                    raise ArgumentError(f"{self.path}: {key} = {shown(self.shared[key])}: {error.message}") from error
                arguments[option.name or key] = value if key == "device" else Preference(value)
        return arguments

    def require_known(self, table: str, keys: Iterable[str], options: Mapping[str, click.Option]) -> None:
        """Raise `ArgumentError` for a key of a table, such as "tool.profilerkit.check", that is none of the options."""
        allowed = [key for key, option in options.items() if not isinstance(option, TypedOption)]
        for key in keys:
            if key in options and key not in allowed:
                raise ArgumentError(f"{self.path}: [{table}] has {key!r}, which must be given at each call: --{key}")
            if key not in allowed:
                nearest = ", ".join(by_likeness(key, allowed))
                raise ArgumentError(
                    f"{self.path}: [{table}] has {key!r}, which is no key; there are, nearest first: {nearest}"
                )

    def adapt(self, key: str, value: Any, option: click.Parameter) -> Any:
        """Return a value as it would be typed; a relative path is one from the file's folder on, if that exists.

        An option that can be repeated, or takes several values, takes a list; click counts them. Raises `ArgumentError`
        for a list or a table elsewhere.
        """
        if option.multiple or option.nargs != 1:
            return [str(single) for single in (value if isinstance(value, list) else [value])]
        if isinstance(value, (list, dict)):
            raise ArgumentError(f"{self.path}: {key} = {shown(value)} is no single value; --{key} takes one")
        if isinstance(option.type, click.Path) and isinstance(value, str) and self.path is not None:
            beside_file = self.path.parent / value
            if beside_file.exists():
                return str(beside_file)
        return str(value)


def read_configuration(folder: Path | None = None) -> Configuration:
    """Read the nearest ``pyproject.toml`` with a table ``tool.profilerkit``, in a folder or above it.

    ``folder`` is the current one by default. Raises `ArgumentError` for a file that is no TOML, an option that does not
    exist or may not be configured, and a table of no command.
    """
    try:
        start = (folder or Path.cwd()).resolve()
    except FileNotFoundError:  # the current folder was deleted
        return Configuration()
    for path in (parent / "pyproject.toml" for parent in (start, *start.parents)):
        tools = read_toml(path, str(path), ArgumentError).get("tool") if path.is_file() else None
        table = tools.get("profilerkit") if isinstance(tools, dict) else None
        if isinstance(table, dict):
            return _parse(path, table)
        if table is not None:
            raise ArgumentError(f"{path}: tool.profilerkit is no table; write [tool.profilerkit]")
    return Configuration()


def _parse(path: Path, table: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a table ``tool.profilerkit``, which has a table for each command."""
    commands = {name: _spell_with_dashes(value) for name, value in table.items() if isinstance(value, dict)}
    shared = _spell_with_dashes({name: value for name, value in table.items() if name not in commands})
    configuration = Configuration(path, shared, commands)
    configuration.require_known("tool.profilerkit", shared, _SHARED_OPTIONS)
    for name in commands:
        if name not in list_commands():
            nearest = ", ".join(by_likeness(name, list_commands()))
            raise ArgumentError(
                f"{path}: [tool.profilerkit.{name}] is named after no command; there are, nearest first: {nearest}"
            )
    return configuration


def _spell_with_dashes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by keys with dashes, as options are typed: TOML may have underscores."""
    return {key.replace("_", "-"): value for key, value in values.items()}


def configure_command(command: click.Command) -> dict[str, Any]:
    """Return the configuration of a command, as click's defaults: values by the names of parameters.

    Raises `click.UsageError` for values that `read_configuration` and `choose_values` do not accept.
    """
    if not _find_options(command):  # such a command works whatever the file says
        return {}
    try:
        return choose_values(read_configuration(), command)
    except ArgumentError as error:
        raise click.UsageError(str(error)) from error


def choose_values(configuration: Configuration, command: click.Command) -> dict[str, Any]:
    """Return the values of a command's options, as they would be typed, by the names of parameters.

    The command's own table wins over the keys at the top. Raises `ArgumentError` for a key of the table that is none of
    the command's options, and for a list or a table where an option takes one value.
    """
    options = _find_options(command)
    own_table = configuration.commands.get(command.name or "", {})
    configuration.require_known(f"tool.profilerkit.{command.name}", own_table, options)
    shared = {key: value for key, value in configuration.shared.items() if isinstance(options.get(key), SharedOption)}
    return {
        options[key].name or key: configuration.adapt(key, value, options[key])
        for key, value in {**shared, **own_table}.items()
    }


def list_configured() -> frozenset[str]:
    """Return the parameters of the command that runs whose values come from the configuration."""
    context = click.get_current_context(silent=True)
    if context is None:
        return frozenset()
    return frozenset(name for name in context.params if context.get_parameter_source(name) is _CONFIGURED)


def name_origin(error: click.BadParameter) -> click.BadParameter:
    """Return an error that says so if its value comes from the configuration."""
    name = None if error.param is None else error.param.name
    if error.ctx is None or name is None or error.ctx.get_parameter_source(name) is not _CONFIGURED:
        return error
    message = f"{error.message} ([tool.profilerkit] of {read_configuration().path} says so)"
    return click.BadParameter(message, error.ctx, error.param, error.param_hint)


def _find_options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their names in a file."""
    parameters = command.get_params(click.Context(command))  # with options that plugins add, and with --help
    options = {_find_key(option): option for option in parameters if isinstance(option, click.Option)}
    return {key: option for key, option in options.items() if key != "help"}


def _find_key(option: click.Parameter) -> str:
    """Return the name of an option in a file: "num-threads" of ``--num-threads``, "output" of ``-o``, ``--output``."""
    return max(option.opts, key=len).lstrip("-")


@click.command()
@input_options
@measuring_options
@isolation_options
def _all_shared() -> None:
    """Hold the options that mean the same in all commands."""


_SHARED_OPTIONS = _find_options(_all_shared)
