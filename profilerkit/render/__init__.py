"""Reports as what people look at: one form, one file. Which forms there are, plugins say."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..arguments import argument_hint, checked, checked_all
from ..containment import contained, said_of, way_out
from ..error_text import shown
from ..errors import ArgumentError, NotOfferedError, by_likeness
from ..extension import Renderer, RendererInfo
from ..plugin_manager import Offer
from ..randomness import untouched_random

if TYPE_CHECKING:
    from types import ModuleType

    from ..comparison import Comparison
    from ..report import Report
    from ..trace import LayerTable

__all__ = ["layer_text", "render", "renderer", "rich_tables"]


#: The options that renderers of profilerkit's own take; each takes some of them.
OPTIONS = frozenset({"details", "depth", "top", "changes", "by"})


def renderer(form: str) -> Renderer:
    """Return the renderer of a form, such as "console"; what draws it is imported when it is first needed.

    Raises `NotOfferedError` for a form that no plugin offers or that cannot be loaded here, and
    `RegistrationConflictError` for one that two plugins offer.
    """
    return _loaded(_offered(form))


def _offered(form: str) -> Offer[RendererInfo]:
    from ..plugins import claimed_once, offers, without_switched_off

    form = checked("form", form)
    offered = offers("profilerkit_renderers", RendererInfo)
    named = claimed_once("renderer", [offer for offer in offered if offer.item.name == form])
    if not named:
        none = "none: reinstall profilerkit, its entry points are missing"
        listing = ", ".join(by_likeness(form, [offer.item.name for offer in offered])) or none
        raise NotOfferedError(f"no renderer {form!r}; installed, nearest first: {listing}{without_switched_off()}")
    return named[0]


def _loaded(offer: Offer[RendererInfo]) -> Renderer:
    try:
        with untouched_random(), contained(offer.plugin, f"loading renderer {offer.item.name!r}"):
            draw: Renderer = offer.item.load()
    except Exception as error:
        raise NotOfferedError(
            f"renderer {offer.item.name!r} of plugin {offer.plugin} cannot be used ({said_of(error)}); "
            f"{way_out(offer.plugin)}"
        ) from error
    if not callable(draw):
        raise NotOfferedError(
            f"renderer {offer.item.name!r} of plugin {offer.plugin} cannot be used: its load returned {shown(draw)}, "
            f"which cannot be called; {way_out(offer.plugin)}"
        )
    return draw


def render(result: Report | Comparison, form: str = "console", **options: Any) -> str:
    """Return a report or comparison in a form.

    Options that its renderer does not take are left out where another one takes them; raises `ArgumentError` for those
    that no renderer takes, and `PluginFailedError` where a plugin's renderer raises.
    """
    from ..result import require_result

    result = require_result(result)
    offer = _offered(form)
    draw = _loaded(offer)
    taken = inspect.signature(draw).parameters
    for name in sorted(options.keys() - taken.keys() - OPTIONS):
        known = OPTIONS | {*list(taken)[1:]}
        raise ArgumentError(f"no renderer takes an option {name!r}; {argument_hint(name, known, {})}")
    read = checked_all({name: value for name, value in options.items() if name in OPTIONS})
    given = {name: value for name, value in {**options, **read}.items() if name in taken}
    with contained(offer.plugin, f"renderer {form!r}", wrapped=True):
        text: str = draw(result, **given)
    return text


def rich_tables() -> ModuleType:
    """Return the module that draws with rich, for what rich itself is to print."""
    with untouched_random():
        from . import console
    return console


def layer_text(layers: LayerTable) -> str:
    """Return the table of a model's layers as text."""
    console = rich_tables()
    text: str = console.to_text(console.layer_table(layers))
    return text
