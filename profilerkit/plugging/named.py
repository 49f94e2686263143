"""What plugins offer by name and load when it is used: commands, figures, renderers, engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..error_text import shown
from ..errors import NotOfferedError
from ..process.containment import contained, plugin_error_text
from ..process.randomness import keep_random_state
from .manager import Offer

__all__ = ["load_offer"]


def load_offer(
    what: str, offer: Offer[Any], is_right: Callable[[object], bool] = callable, problem: str = "cannot be called"
) -> Any:
    """Return what the ``load`` of an offer returns; ``what`` it is stands in errors.

    Raises `NotOfferedError` if it raises, or returns what is not right: ``problem`` says why.
    """
    name, plugin = f"{what} {offer.item.name!r}", offer.plugin
    try:
        with keep_random_state(), contained(plugin, f"loading {name}"):
            loaded = offer.item.load()
    except MemoryError:
        raise
    except Exception as error:
        raise NotOfferedError(
            f"{name} of plugin {plugin} cannot be used ({plugin_error_text(error)}); {plugin.workaround}"
        ) from error
    if not is_right(loaded):
        raise NotOfferedError(
            f"{name} of plugin {plugin} cannot be used: its load returned {shown(loaded)}, which {problem}; "
            f"{plugin.workaround}"
        )
    return loaded
