"""The commands of all plugins, and the options that they add to ``profile``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from ..process.containment import contained
from .infos import CommandInfo, HasReports, OptionInfo
from .manager import find_offer, list_infos, load_offer, manager
from .plugin_info import Offer, PluginInfo

__all__ = ["find_plugin", "list_commands", "load_command", "load_options", "read_arguments", "use_options"]


def list_commands() -> dict[str, CommandInfo]:
    """Return the descriptions of the commands of plugins, by name; if two have one name, the first."""
    commands: dict[str, CommandInfo] = {}
    for offer in list_infos(CommandInfo):
        commands.setdefault(offer.item.name, offer.item)
    return commands


def load_command(name: str) -> click.Command | None:
    """Import a command, and return it; None if no plugin offers it.

    Raises `NotOfferedError` if it cannot be loaded, and `RegistrationConflictError` if two plugins offer it.
    """
    offer = find_offer(CommandInfo, name)
    if offer is None:
        return None
    command: click.Command = load_offer(offer, lambda loaded: isinstance(loaded, click.Command), "is no command")
    return command


def find_plugin(name: str | None) -> PluginInfo | None:
    """Return the plugin that offers a command; None if none does."""
    return next((offer.plugin for offer in list_infos(CommandInfo) if offer.item.name == name), None)


# Options --------------------------------------------------------------------------------------------------------------


def load_options() -> list[click.Option]:
    """Import the options that plugins add to ``profile``; raises `NotOfferedError` if one cannot be loaded."""
    return [offered.option for offered in _load_offered_options()]


def use_options(values: Mapping[str, Any], report: HasReports, spec: str) -> None:
    """Call each given option of plugins with the report of a model."""
    for offered in _load_offered_options():
        value, load_use = offered.find_value(values), offered.offer.item.load_use
        if value is not None and load_use is not None:
            with contained(offered.offer.plugin, f"option {offered.option.opts[0]}"):
                load_use()(value, report, spec)


def read_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``profile`` that options of plugins are, and that were given."""
    arguments: dict[str, Any] = {}
    for offered in _load_offered_options():
        argument, value = offered.offer.item.argument, offered.find_value(values)
        if argument and value is not None:
            arguments[argument] = value
    return arguments


class _OfferedOption(NamedTuple):
    """An option that a plugin adds, with the plugin's description of it."""

    option: click.Option
    offer: Offer[OptionInfo]

    def find_value(self, values: Mapping[str, Any]) -> Any:
        """Return the value of the option, given the values of all options; None if it was not given."""
        return values.get(self.option.name or "")


def _load_offered_options() -> list[_OfferedOption]:
    """Return the options that plugins add; they are imported once."""

    def load_all() -> list[_OfferedOption]:
        return [
            _OfferedOption(load_offer(offer, lambda loaded: isinstance(loaded, click.Option), "is no option"), offer)
            for offer in list_infos(OptionInfo)
        ]

    return manager().answer_once("options", load_all)
