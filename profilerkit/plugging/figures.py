"""The kinds of figures of all plugins, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .extension import FigureInfo
from .manager import Offer, list_offers, load_offer
from .sources import require_unique

__all__ = ["list_figures", "load_figure"]


def list_figures() -> dict[str, Offer[FigureInfo]]:
    """Return all kinds of figures by name; raises `RegistrationConflictError` for two of the same name."""
    return {
        offer.item.name: offer for offer in require_unique("figure", list_offers("profilerkit_figures", FigureInfo))
    }


def load_figure(name: str) -> Callable[..., Any] | None:
    """Import the function that draws a kind of figure, and return it; None if no plugin offers it.

    Raises `NotOfferedError` if it cannot be loaded.
    """
    offer = list_figures().get(name)
    draw: Callable[..., Any] | None = None if offer is None else load_offer("figure", offer)
    return draw
