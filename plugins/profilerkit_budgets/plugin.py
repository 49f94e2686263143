"""Budgets as a plugin: the command ``check``."""

from __future__ import annotations

from profilerkit import CommandInfo, hookimpl
from profilerkit.hooks.infos import import_later


@hookimpl
def profilerkit_commands() -> list[CommandInfo]:
    """Return the command of budgets."""
    return [
        CommandInfo(
            "check",
            import_later("profilerkit_budgets.check_command:command"),
            "Check a model against a budget; exit with 1 if it is exceeded.",
            ("profilerkit check net.py:build --input-shape 3,32,32 --limit 'macs <= 5 G'",),
        ),
    ]
