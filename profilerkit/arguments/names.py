"""Names that users give: status keys, by name or by class, and the names of arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError, nearest
from .checks import several

__all__ = ["argument_hint", "status_name", "status_names"]


def status_name(argument: str, value: Any) -> str:
    """Return the name of a status key, from its name or its class; raises `ArgumentError` for any other value."""
    name = value if isinstance(value, str) else getattr(value, "NAME", None)
    if not isinstance(name, str):
        raise ArgumentError(
            f"{argument}={shown(value)}: give the name of a status key or its class, such as 'macs' or Macs"
        )
    return name


def status_names(argument: str, value: Any) -> list[str] | None:
    """Return the names of one or several status keys, from their names or classes; None for None."""
    if value is None:
        return None
    if isinstance(value, str) and "," in value:
        names = [name.strip() for name in value.split(",") if name.strip()]
        raise ArgumentError(f"{argument}={shown(value)}: give several names as a list, {argument}={names}")
    keys = [value] if isinstance(value, str) or isinstance(getattr(value, "NAME", None), str) else value
    try:
        return [status_name(f"an entry of {argument}", key) for key in several(keys)]
    except (TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"{argument}={shown(value)}: give names of status keys or their classes, such as ['macs', TotalParams]"
        ) from None


def argument_hint(name: str, taken: Iterable[str], elsewhere: Mapping[str, str]) -> str:
    """Return the end of the error message for an unknown argument: the nearest name, or the names that are accepted.

    Args:
        name: The argument.
        taken: The names that are accepted here.
        elsewhere: Names that are accepted somewhere else, each with a sentence that says where.
    """
    names = sorted({*taken} - {name})
    if name in elsewhere:
        return elsewhere[name]
    meant = nearest(name, [*names, *elsewhere])
    if meant is None:
        return f"they take: {', '.join(names)}"
    return f"did you mean {meant!r}{'' if meant in names else f'; {elsewhere[meant]}'}?"
