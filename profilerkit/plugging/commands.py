"""The commands of all plugins, by name."""

from __future__ import annotations

import click

from .extension import CommandInfo
from .manager import Offer, manager, offers
from .named import load_offer
from .sources import claimed_once

__all__ = ["load_command", "offered_commands"]


def offered_commands() -> dict[str, CommandInfo]:
    """Return what plugins say of their commands, by name; of two with one name the first."""
    commands: dict[str, CommandInfo] = {}
    for offer in _offers():
        commands.setdefault(offer.item.name, offer.item)
    return commands


def load_command(name: str) -> click.Command | None:
    """Import a command, and return it; None if no plugin offers it.

    Raises `NotOfferedError` if it cannot be loaded, and `RegistrationConflictError` if two plugins offer it.
    """
    named = [offer for offer in _offers() if offer.item.name == name]
    if not named:
        return None
    command: click.Command = load_offer(
        "command", claimed_once("command", named)[0], lambda loaded: isinstance(loaded, click.Command), "is no command"
    )
    return command


def _offers() -> list[Offer[CommandInfo]]:
    return manager().answer_once("commands", lambda: offers("profilerkit_commands", CommandInfo))
