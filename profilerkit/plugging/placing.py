"""What is profiled in place of a model, where an argument of a plugin says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backend import Backend
from .extension import PlacementInfo
from .manager import list_offers, load_offer
from .sources import require_unique

__all__ = ["list_placing_arguments", "place_model", "split_arguments"]


def list_placing_arguments() -> list[str]:
    """Return the names of the arguments that place a model."""
    return [name for offer in _offers() for name in offer.item.arguments]


def split_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments that place a model, and all others; those that are None are as if they were not given."""
    names = set(list_placing_arguments()) if arguments else set()
    placing = {name: value for name, value in arguments.items() if name in names and value is not None}
    return placing, {name: value for name, value in arguments.items() if name not in names}


def place_model(
    model: Any, backend: Backend | str | None, placing: Mapping[str, Any], trust: bool = False
) -> tuple[Any, Backend | str | None]:
    """Return what is profiled in place of a model, and its backend; without arguments that say so, both as they are.

    Raises what the plugin raises for arguments that cannot be.
    """
    for offer in _offers() if placing else ():
        arguments = {name: value for name, value in placing.items() if name in offer.item.arguments}
        if arguments:
            placed: tuple[Any, Backend] = load_offer("placement", offer)(model, backend, arguments, trust)
            return placed
    return model, backend


def _offers() -> Any:
    return require_unique("placement", list_offers("profilerkit_placements", PlacementInfo))
