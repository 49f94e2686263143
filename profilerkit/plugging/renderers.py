"""Where results find what draws them, by the name of a form: the renderers of all plugins."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..arguments.checking import argument_hint, checked, checked_all
from ..error_text import shown
from ..errors import ArgumentError, NotOfferedError, by_likeness
from ..process.containment import contained, said_of
from ..process.randomness import untouched_random
from .extension import Renderer, RendererInfo
from .manager import Offer
from .offers import claimed_once, offers, without_switched_off

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["render", "renderer"]

#: The options that renderers of profilerkit's own take; each takes some of them.
OPTIONS = frozenset({"details", "depth", "top", "changes", "by"})


def renderer(form: str, *, is_text: bool = True) -> Renderer:
    """Return the renderer of a form, such as "console"; what draws it is imported when it is first needed.

    Without ``is_text``, that of a form that is no text: a figure, a table of rich's.

    Raises `NotOfferedError` for a form that no plugin offers or that cannot be loaded here, and
    `RegistrationConflictError` for one that two plugins offer.
    """
    return _loaded(_offered(form, is_text))


def _offered(form: str, is_text: bool) -> Offer[RendererInfo]:
    form = checked("form", form)
    offered = [each for each in offers("profilerkit_renderers", RendererInfo) if each.item.is_text is is_text]
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
            f"{offer.plugin.way_out}"
        ) from error
    if not callable(draw):
        raise NotOfferedError(
            f"renderer {offer.item.name!r} of plugin {offer.plugin} cannot be used: its load returned {shown(draw)}, "
            f"which cannot be called; {offer.plugin.way_out}"
        )
    return draw


def render(result: Report | Comparison, form: str = "console", **options: Any) -> str:
    """Return a report or comparison in a form.

    Options that its renderer does not take are left out where another one takes them; raises `ArgumentError` for those
    that no renderer takes, and `PluginFailedError` where a plugin's renderer raises.
    """
    if not isinstance(getattr(result, "reports", None), tuple):
        raise ArgumentError(f"{shown(result)} is no result: give a Report or a Comparison")
    offer = _offered(form, is_text=True)
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
