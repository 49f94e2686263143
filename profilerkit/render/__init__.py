"""Reports as what people look at: one form, one file. Which forms there are, plugins say."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..errors import NotOfferedError, by_likeness
from ..extension import Renderer, RendererInfo
from ..randomness import untouched_random

if TYPE_CHECKING:
    from types import ModuleType

    from ..comparison import Comparison
    from ..report import Report
    from ..trace import LayerTable

__all__ = ["layer_text", "render", "renderer", "rich_tables"]


def renderer(form: str) -> Renderer:
    """Return the renderer of a form, such as "console"; what draws it is imported when it is first needed.

    Raises `NotOfferedError` for a form that no plugin offers or that cannot be loaded here, and
    `RegistrationConflictError` for one that two plugins offer.
    """
    from ..plugins import claimed_once, offers, without_switched_off

    offered = offers("profilerkit_renderers", RendererInfo)
    named = claimed_once("renderer", [offer for offer in offered if offer.item.name == form])
    if not named:
        none = "none: reinstall profilerkit, its entry points are missing"
        listing = ", ".join(by_likeness(form, [offer.item.name for offer in offered])) or none
        raise NotOfferedError(f"no renderer {form!r}; installed, nearest first: {listing}{without_switched_off()}")
    try:
        with untouched_random():
            draw: Renderer = named[0].item.load()
    except Exception as error:
        raise NotOfferedError(
            f"renderer {form!r} of plugin {named[0].plugin} cannot be used ({type(error).__name__}: {error})"
        ) from error
    return draw


def render(result: Report | Comparison, form: str = "console", **options: Any) -> str:
    """Return a report or comparison in a form; options that its renderer does not take are left out."""
    draw = renderer(form)
    taken = inspect.signature(draw).parameters
    return draw(result, **{name: value for name, value in options.items() if name in taken})


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
