"""The commands of all plugins, and the options that they add to ``profile``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ..process.containment import contained
from .extension import CommandInfo, OptionInfo
from .manager import Offer, list_offers, load_offer, manager
from .sources import require_unique

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["list_commands", "load_command", "load_options", "read_arguments", "use_options"]


def list_commands() -> dict[str, CommandInfo]:
    """Return what plugins say of their commands, by name; of two with one name the first."""
    commands: dict[str, CommandInfo] = {}
    for offer in list_offers("profilerkit_commands", CommandInfo):
        commands.setdefault(offer.item.name, offer.item)
    return commands


def load_command(name: str) -> click.Command | None:
    """Import a command, and return it; None if no plugin offers it.

    Raises `NotOfferedError` if it cannot be loaded, and `RegistrationConflictError` if two plugins offer it.
    """
    named = [offer for offer in list_offers("profilerkit_commands", CommandInfo) if offer.item.name == name]
    if not named:
        return None
    offer = require_unique("command", named)[0]
    command: click.Command = load_offer("command", offer, _is_command, "is no command")
    return command


def _is_command(loaded: object) -> bool:
    return isinstance(loaded, click.Command)


# Options --------------------------------------------------------------------------------------------------------------


def load_options() -> list[click.Option]:
    """Import the options that plugins add to ``profile``; raises `NotOfferedError` if one cannot be loaded."""
    return [option for option, _ in _load_offered_options()]


def use_options(values: Mapping[str, Any], report: Report, spec: str) -> None:
    """Let each option that plugins add, and that was given, do what it is for with the report of a model."""
    for option, offer in _load_offered_options():
        value = values.get(option.name or "")
        if value is not None and offer.item.load_use is not None:
            with contained(offer.plugin, f"option {option.opts[0]}"):
                offer.item.load_use()(value, report, spec)


def read_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``profile`` that options of plugins are, and that were given."""
    offered = [(offer.item.argument, values.get(option.name or "")) for option, offer in _load_offered_options()]
    return {argument: value for argument, value in offered if argument and value is not None}


def _load_offered_options() -> list[tuple[click.Option, Offer[OptionInfo]]]:
    """Return the options, each with what its plugin says of it; they are imported once."""
    return manager().answer_once("options", _import_options)


def _import_options() -> list[tuple[click.Option, Offer[OptionInfo]]]:
    offered = list_offers("profilerkit_options", OptionInfo)
    return [(load_offer("option", offer, _is_option, "is no option"), offer) for offer in offered]


def _is_option(loaded: object) -> bool:
    return isinstance(loaded, click.Option)
