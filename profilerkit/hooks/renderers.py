"""The renderers of all plugins, by the name of the output form."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..arguments.checks import COLUMNS, DEPTH, FLAG, TOP, text
from ..arguments.names import argument_hint
from ..error_text import shown
from ..errors import ArgumentError, NotOfferedError, PluginFailedError, by_likeness
from ..process.containment import contained
from .infos import HasReports, Renderer, RendererInfo
from .manager import describe_disabled, find_offer, list_infos, load_offer
from .plugin_info import Offer

__all__ = [
    "SUFFIXES",
    "draw_html_fragment",
    "find_form",
    "list_forms",
    "rank_suffixes",
    "read_options",
    "render",
    "renderer",
]

#: The form of text that a suffix of files stands for, without its dot, where the suffix is not the form's name.
SUFFIXES = {"txt": "summary", "md": "markdown", "tex": "latex", "htm": "html"}

_FORM = text("the name of a renderer, such as 'table'")
#: The options of profilerkit's own renderers, each with the check that reads its value; a renderer takes some of them.
_OPTIONS = {
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
    draw: Renderer = load_offer(_find_offer(form, is_text))
    return draw


def draw_html_fragment(item: object) -> str | None:
    """Return a result or a table as HTML for a notebook; None if no plugin draws it, so that its text is shown."""
    try:
        draw = renderer("notebook", is_text=False)
    except NotOfferedError:
        return None
    html: str = draw(item)
    return html


def find_form(path: str | PathLike[str]) -> str | None:
    """Return the form of text that the suffix of a file stands for, such as "html"; None if it stands for none."""
    suffix = _read_suffix(path).lower()
    form = SUFFIXES.get(suffix, suffix)
    return form if form in list_forms() else None


def rank_suffixes(path: str | PathLike[str]) -> list[str]:
    """Return the suffixes of all forms of text, with their dots, sorted by likeness to the suffix of a file."""
    suffixes = sorted({*list_forms(), *SUFFIXES})
    return [f".{suffix}" for suffix in by_likeness(_read_suffix(path), suffixes)]


def _read_suffix(path: str | PathLike[str]) -> str:
    """Return the suffix of a file without its dot."""
    return Path(os.fsdecode(path)).suffix.removeprefix(".")


def list_forms() -> list[str]:
    """Return the names of the forms of text."""
    return [offer.item.name for offer in list_infos(RendererInfo) if offer.item.is_text]


def _find_offer(form: str, is_text: bool) -> Offer[RendererInfo]:
    """Return the offer of a renderer by the name of a form; raises `NotOfferedError` if no plugin has one."""
    form = _FORM("form", form)
    offer = find_offer(RendererInfo, form, lambda info: info.is_text is is_text)
    if offer is not None:
        return offer
    forms = by_likeness(form, [other.item.name for other in list_infos(RendererInfo) if other.item.is_text is is_text])
    installed = ", ".join(forms) if forms else "none: reinstall profilerkit, its entry points are missing"
    raise NotOfferedError(f"no renderer {form!r}; installed, nearest first: {installed}{describe_disabled()}")


def render(result: HasReports, form: str = "summary", **options: Any) -> str:
    """Return a report or comparison in an output form, as text.

    An option that this renderer does not take, but another one does, is ignored. Raises `ArgumentError` for an option
    that no renderer takes, and `PluginFailedError` if a plugin's renderer raises, or returns no text.
    """
    if not isinstance(getattr(result, "reports", None), tuple):
        raise ArgumentError(f"{shown(result)} is no result: give a Report or a Comparison")
    offer = _find_offer(form, is_text=True)
    draw: Renderer = load_offer(offer)
    accepted = _choose_options(draw, options)
    with contained(offer.plugin, f"renderer {form!r}", wrapped=True):
        drawn = draw(result, **accepted)
    if not isinstance(drawn, str):
        problem = f"renderer {form!r} of plugin {offer.plugin} returned {shown(drawn)}, which is no text"
        raise PluginFailedError(f"{problem}; {offer.plugin.workaround}")
    return drawn


def read_options(draw: Callable[..., Any]) -> tuple[list[str], bool]:
    """Return the options of a function that draws a result, and whether it takes others too, by ``**options``."""
    _, *parameters = inspect.signature(draw).parameters.values()  # the first is the result
    names = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    return names, len(names) < len(parameters)


def _choose_options(draw: Renderer, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a renderer takes, with their values as the checks read them.

    All values are checked, also of an option that only other renderers take. Raises `ArgumentError` for a wrong value,
    and for a name that is neither an option of profilerkit's own renderers nor one of this renderer's.
    """
    own_names, takes_any = read_options(draw)
    unknown = sorted(options.keys() - {*own_names, *_OPTIONS})
    if unknown and not takes_any:
        name = unknown[0]
        hint = argument_hint(name, taken={*_OPTIONS, *own_names}, elsewhere={})
        raise ArgumentError(f"no renderer takes an option {name!r}; {hint}")
    accepted = {}
    for name, value in options.items():
        checked = _OPTIONS[name](name, value) if name in _OPTIONS else value
        if takes_any or name in own_names:
            accepted[name] = checked
    return accepted
