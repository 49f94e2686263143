"""What is profiled in place of a model, where an argument of a plugin says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backend import Backend
from ..hooks.extension import PlacementInfo
from ..hooks.manager import list_infos, load_offer
from ..hooks.sources import conflict

__all__ = ["list_placing_arguments", "place_model", "split_arguments"]


def list_placing_arguments() -> list[str]:
    """Return the names of the arguments that place a model."""
    return [name for offer in list_infos(PlacementInfo) for name in offer.item.arguments]


def split_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments that place a model, and all others; those that are None are as if they were not given."""
    if not arguments:
        return {}, {}
    names = set(list_placing_arguments())
    placing = {name: value for name, value in arguments.items() if name in names and value is not None}
    return placing, {name: value for name, value in arguments.items() if name not in names}


def place_model(
    model: Any, backend: Backend | str | None, placing: Mapping[str, Any], trust: bool = False
) -> tuple[Any, Backend | str | None]:
    """Return what is profiled in place of a model, and its backend; without arguments that say so, both as they are.

    Raises what the plugin raises for arguments that cannot be; `RegistrationConflictError` for those of two plugins.
    """
    if not placing:
        return model, backend
    asked = [offer for offer in list_infos(PlacementInfo) if not placing.keys().isdisjoint(offer.item.arguments)]
    if len(asked) > 1:
        raise conflict(f"what is profiled for {', '.join(placing)}", asked[0].plugin, asked[1].plugin)
    arguments = {name: value for name, value in placing.items() if name in asked[0].item.arguments}
    placed: tuple[Any, Backend] = load_offer(asked[0])(model, backend, arguments, trust)
    return placed
