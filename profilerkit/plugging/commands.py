"""The commands of all plugins, by name."""

from __future__ import annotations

import click

from ..error_text import shown
from ..errors import NotOfferedError
from ..process.containment import contained, plugin_error_text
from .conflicts import claimed_once
from .extension import CommandInfo
from .manager import Offer, offers

__all__ = ["load_command", "offered_commands"]


def offered_commands() -> dict[str, CommandInfo]:
    """Return what plugins say of their commands, by name; of two with one name the first."""
    commands: dict[str, CommandInfo] = {}
    for offer in offers("profilerkit_commands", CommandInfo):
        commands.setdefault(offer.item.name, offer.item)
    return commands


def load_command(name: str) -> click.Command | None:
    """Import a command, and return it; None if no plugin offers it.

    Raises `NotOfferedError` if it cannot be loaded, and `RegistrationConflictError` if two plugins offer it.
    """
    named = [offer for offer in offers("profilerkit_commands", CommandInfo) if offer.item.name == name]
    return _load(claimed_once("command", named)[0]) if named else None


def _load(offer: Offer[CommandInfo]) -> click.Command:
    name, plugin = offer.item.name, offer.plugin
    try:
        with contained(plugin, f"loading command {name!r}"):
            command: object = offer.item.load()
    except MemoryError:
        raise
    except Exception as error:
        raise NotOfferedError(
            f"command {name!r} of plugin {plugin} cannot be used ({plugin_error_text(error)}); {plugin.workaround}"
        ) from error
    if not isinstance(command, click.Command):
        raise NotOfferedError(
            f"command {name!r} of plugin {plugin} cannot be used: its load returned {shown(command)}, which is no "
            f"click.Command; {plugin.workaround}"
        )
    return command
