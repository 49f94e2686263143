"""The logging levels by name, for ``print_mode``."""

from __future__ import annotations

from ..error_text import shown
from ..errors import ArgumentError

__all__ = ["read_logging_level"]


def read_logging_level(print_mode: str) -> int:
    """Return the logging level that ``print_mode`` names; raises `ArgumentError` if it names none."""
    import logging

    level = logging.getLevelName(print_mode.upper()) if isinstance(print_mode, str) else None
    if not isinstance(level, int):
        raise ArgumentError(
            f"print_mode={shown(print_mode)} is no logging level; use 'debug', 'info', 'warning' or 'error'"
        )
    return level
