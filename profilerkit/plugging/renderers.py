"""The renderers of all plugins, by the name of the output form."""

from __future__ import annotations

import inspect
import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arguments.checks import COLUMNS, DEPTH, FLAG, TOP, text
from ..arguments.names import argument_hint
from ..error_text import shown
from ..errors import ArgumentError, NotOfferedError, by_likeness
from ..process.containment import contained
from .extension import Renderer, RendererInfo
from .manager import Offer, describe_disabled, list_offers
from .named import load_offer
from .offers import list_renderers
from .sources import require_unique

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = ["SUFFIXES", "find_form", "html_fragment", "render", "renderer"]

#: Suffixes of files that are not the name of their form.
SUFFIXES = {"txt": "summary", "md": "markdown", "tex": "latex", "htm": "html"}

#: The options of profilerkit's own renderers, and what they may be; each renderer takes some of them.
OPTIONS = {
    **dict.fromkeys(("details", "changes", "color", "configuration", "advice"), FLAG),
    "depth": DEPTH,
    "top": TOP,
    "by": COLUMNS,
}


def renderer(form: str, *, is_text: bool = True) -> Renderer:
    """Return the renderer of an output form, such as "table"; it is imported at its first use.

    With ``is_text=False``, return the renderer of a form that is not text, such as a figure or a rich table.

    Raises `NotOfferedError` if no plugin offers the form or its renderer cannot be loaded, and
    `RegistrationConflictError` if two plugins offer it.
    """
    draw: Renderer = load_offer("renderer", _find_offer(form, is_text))
    return draw


def html_fragment(item: object) -> str | None:
    """Return a result or a table as HTML for a notebook; None if no plugin draws it, so that its text is shown."""
    try:
        draw = renderer("notebook", is_text=False)
    except NotOfferedError:
        return None
    html: str = draw(item)
    return html


def find_form(path: str | PathLike[str]) -> str | None:
    """Return the form of text that the suffix of a file stands for, such as "html"; None where it stands for none."""
    suffix = Path(os.fsdecode(path)).suffix.removeprefix(".").lower()
    form = SUFFIXES.get(suffix, suffix)
    return form if any(offer.item.name == form for offer in list_renderers()) else None


def suffixes_like(path: str | PathLike[str]) -> list[str]:
    """Return the suffixes that stand for a form of text, those most like the suffix of a file first."""
    suffixes = sorted({*(offer.item.name for offer in list_renderers()), *SUFFIXES})
    return [f".{suffix}" for suffix in by_likeness(Path(os.fsdecode(path)).suffix.removeprefix("."), suffixes)]


def _find_offer(form: str, is_text: bool) -> Offer[RendererInfo]:
    form = text("the name of a renderer, such as 'table'")("form", form)
    offered = [offer for offer in list_offers("profilerkit_renderers", RendererInfo) if offer.item.is_text is is_text]
    named = require_unique("renderer", [offer for offer in offered if offer.item.name == form])
    if not named:
        if_none = "none: reinstall profilerkit, its entry points are missing"
        listing = ", ".join(by_likeness(form, [offer.item.name for offer in offered])) or if_none
        raise NotOfferedError(f"no renderer {form!r}; installed, nearest first: {listing}{describe_disabled()}")
    return named[0]


def render(result: Report | Comparison, form: str = "summary", **options: Any) -> str:
    """Return a report or comparison in an output form, as text.

    An option that this renderer does not take, but another one does, is ignored. Raises `ArgumentError` for an option
    that no renderer takes, and `PluginFailedError` if a plugin's renderer raises.
    """
    if not isinstance(getattr(result, "reports", None), tuple):
        raise ArgumentError(f"{shown(result)} is no result: give a Report or a Comparison")
    offer = _find_offer(form, is_text=True)
    draw: Renderer = load_offer("renderer", offer)
    taken = inspect.signature(draw).parameters
    for name in sorted(options.keys() - taken.keys() - OPTIONS.keys()):
        option_names = {*OPTIONS, *list(taken)[1:]}
        raise ArgumentError(f"no renderer takes an option {name!r}; {argument_hint(name, option_names, {})}")
    read = {name: OPTIONS[name](name, value) if name in OPTIONS else value for name, value in options.items()}
    arguments = {name: value for name, value in read.items() if name in taken}
    with contained(offer.plugin, f"renderer {form!r}", wrapped=True):
        text: str = draw(result, **arguments)
    return text
