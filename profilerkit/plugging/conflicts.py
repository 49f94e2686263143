"""Names that two plugins claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import RegistrationConflictError
from .manager import Offer, PluginInfo

__all__ = ["claimed_once", "conflict"]

T = TypeVar("T")


def claimed_once(
    what: str,
    offered: list[Offer[T]],
    name: Callable[[T], str] = lambda item: str(item.name),  # type: ignore[attr-defined]
    same: Callable[[T, T], bool] = lambda first, second: False,
) -> list[Offer[T]]:
    """Return the offers; raises `RegistrationConflictError` if two have the same name and are not the ``same``."""
    claims: dict[str, Offer[T]] = {}
    for offer in offered:
        first = claims.setdefault(name(offer.item), offer)
        if first is not offer and not same(first.item, offer.item):
            raise conflict(f"{what} {name(offer.item)!r}", first.plugin, offer.plugin)
    return offered


def conflict(what: str, first: PluginInfo, second: PluginInfo, further: str = "") -> RegistrationConflictError:
    """Return the error of two plugins, or one twice, that offer the same, with what to do."""
    if first == second:
        return RegistrationConflictError(f"plugin {first} offers {what} twice; {first.repair}")
    first, second = sorted((first, second), key=lambda plugin: plugin.is_by_code)
    remedy = f"uninstall one of the packages, or switch one plugin off: {second.disable_setting}"
    if second.is_by_code:
        remedy = f"leave out the code that registers {second.name!r}"
    return RegistrationConflictError(f"two plugins offer {what}: {first} and {second}; {remedy}{further}")
