"""What plugins offer by name: backends, loaders, commands, figures, renderers, engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..error_text import shown
from ..errors import NotOfferedError
from ..process.containment import contained, plugin_error_text
from ..process.randomness import keep_random_state
from .manager import Offer, list_offers, manager
from .sources import require_unique

__all__ = ["list_named", "load_offer"]


def list_named(what: str, hook: str, kind: type) -> list[Offer[Any]]:
    """Return what plugins offer through a hook, which are asked once; ``what`` it is stands in errors.

    Raises `RegistrationConflictError` for two offers of the same name.
    """
    return manager().answer_once(hook, lambda: require_unique(what, list_offers(hook, kind)))


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
