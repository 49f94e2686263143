"""``profilerkit list``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..errors import RegistrationConflictError
from ..hooks import offers
from ..hooks.backend_additions import op_costs
from ..hooks.infos import BackendInfo, LoaderInfo, RendererInfo
from ..hooks.manager import find_offer, list_disabled_plugins, list_infos, list_plugins, manager
from ..piping.function import describe
from ..process.clean_output import terminal_columns
from .examining import ExaminedBackend, examine_by_loading, examine_without_import
from .printing import emit, say

if TYPE_CHECKING:
    from ..backend import Backend
    from ..hooks.plugin_info import Offer, PluginInfo
    from ..piping.status import StatusKey

__all__ = ["command", "find_location"]

#: The columns of names, which the longest name of ours fills, and the fewest of texts.
_NAME, _NARROWEST = 26, 24
#: The columns of output that is no terminal: a program reads an entry a line.
_ONE_LINE = 100_000


@click.command("list", help="List what plugins offer, and the package each comes from.")
@click.option("-v", "--verbose", is_flag=True, help="Also show the plugin, package, file and line of each entry.")
def command(verbose: bool) -> None:
    """Print the offers of all plugins; a backend's error stands in its line, conflicts are reported at the end."""
    listing = _Listing(verbose)
    listing.print_plugins()
    examined = listing.print_backends()
    usable: dict[str, Backend] = {}
    for one in examined:
        if one.backend is not None:
            usable.setdefault(one.backend.name, one.backend)  # the first of several with one name
    backends = [*usable.values()]
    if verbose:
        for backend in backends:
            listing.print_functions(backend)
    if backends and not verbose:
        listing.print_keys(backends)
    else:
        listing.print_declared_keys()
    listing.print_section("Renderers", [offer for offer in list_infos(RendererInfo) if offer.item.is_text])
    listing.print_section("Model loaders", list_infos(LoaderInfo))
    if verbose:
        for backend in backends:
            listing.print_formulas(backend)
    _raise_conflicts([*(one.conflict for one in examined if one.conflict is not None), *_find_conflicts(backends)])


class _Listing:
    """Prints section by section; ``verbose`` adds a line below each entry that says where it comes from."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose

    def print_title(self, text: str) -> None:
        emit(f"\n{text}", bold=True)

    def print_line(self, name: str, text: str, plugin: PluginInfo, thing: Any = None) -> None:
        _print_entry(name, text)
        if self.verbose:
            _print_entry("", f"  plugin {plugin}, {find_location(thing)}")

    def print_section(self, title: str, offered: Iterable[Offer[Any]]) -> None:
        """Print offers that have a name, a description and a function that loads them."""
        self.print_title(title)
        for offer in offered:
            self.print_line(offer.item.name, offer.item.description, offer.plugin, offer.item.load)

    def print_plugins(self) -> None:
        """Print the plugins, as the first section."""
        emit("Plugins", bold=True)
        registered: set[str] = set()
        for plugin in list_plugins():
            name = plugin.name
            if name in registered:  # of several plugins with one name, all but the first are registered like this
                name = f"{plugin.name} ({plugin.distribution})"
            registered.add(name)
            _print_entry(plugin.name, f"{plugin.distribution}  ({plugin.module})")
            if self.verbose:
                _print_entry("", f"  {find_location(manager().get_plugin(name))}")
        for plugin in list_disabled_plugins():
            _print_entry(plugin.name, f"{plugin.distribution}  ({plugin.module}), switched off")

    def print_backends(self) -> list[ExaminedBackend]:
        """Print the backends, and return what was found out about each.

        A backend that names the packages it needs is not imported unless its versions are requested.
        """
        self.print_title("Backends")
        results: list[ExaminedBackend] = []
        for offer in list_infos(BackendInfo):
            is_quick = not self.verbose and offer.item.installed is not None
            examined = examine_without_import(offer) if is_quick else examine_by_loading(offer)
            self.print_line(offer.item.name, examined.line, offer.plugin, offer.item.load)
            results.append(examined)
        return results

    def print_functions(self, backend: Backend) -> None:
        self.print_title(f"Functions for the {backend.name} backend")
        for offer in offers.list_profiler_functions(backend):
            keys = ", ".join(key.NAME for key in offer.item.list_keys())
            self.print_line(describe(offer.item), keys, offer.plugin, offer.item)

    def print_keys(self, backends: Sequence[Backend]) -> None:
        """Print each status key that functions compute, and the backends that it is for, unless it is for all."""
        keys: dict[tuple[str, str], _ComputedKey] = {}
        for backend in backends:
            for offer in offers.list_profiler_functions(backend):
                for key in offer.item.list_keys():
                    computed = _ComputedKey(key, offer.plugin, [])
                    keys.setdefault((key.NAME, str(offer.plugin)), computed).backends.append(backend.name)
        self.print_title("Status keys")
        for key, plugin, names in keys.values():
            text = _summarize(type(key))
            if key.ALIASES:
                text += f" Also: {', '.join(key.ALIASES)}."
            if len(names) < len(backends):
                text += f" (for {', '.join(names)})"
            self.print_line(key.NAME, text, plugin)

    def print_declared_keys(self) -> None:
        """Print each status key that plugins declare, whether or not a function here computes it."""
        self.print_title("Status keys")
        for offer in offers.list_declared_keys():
            self.print_line(offer.item.NAME, _summarize(offer.item), offer.plugin, offer.item)

    def print_formulas(self, backend: Backend) -> None:
        formulas = [(plugin, op, formula) for plugin, costs in op_costs(backend) for op, formula in costs.items()]
        if formulas:
            self.print_title(f"Cost formulas of plugins for the {backend.name} backend")
        for plugin, op, formula in formulas:
            name = op.__qualname__ if isinstance(op, type) else str(op)
            self.print_line(name, f"{formula.__module__}:{getattr(formula, '__qualname__', formula)}", plugin, formula)


class _ComputedKey(NamedTuple):
    """A status key that a function computes, the plugin that offers the function, and the backends it is for."""

    key: StatusKey
    plugin: PluginInfo
    backends: list[str]


def _find_conflicts(backends: Iterable[Backend]) -> Iterator[RegistrationConflictError]:
    """Yield the conflicts of plugins that offer the same: a name of any kind, or a status key."""
    uses: list[Callable[[], object]] = [
        *(partial(find_offer, BackendInfo, offer.item.name) for offer in list_infos(BackendInfo)),
        *(partial(offers.default_functions, backend) for backend in backends),
        offers.list_status_keys,
        *(partial(find_offer, RendererInfo, offer.item.name) for offer in list_infos(RendererInfo)),
        *(partial(find_offer, LoaderInfo, offer.item.name) for offer in list_infos(LoaderInfo)),
    ]
    for use in uses:
        try:
            use()
        except RegistrationConflictError as error:
            yield error


def _raise_conflicts(conflicts: Iterable[RegistrationConflictError]) -> None:
    """Say all conflicts, each once; the last one by raising it, for the exit code."""
    by_text = {str(error): error for error in conflicts}
    if by_text:
        *others, last = by_text.values()
        for error in others:
            say(f"Error: {error}")
        raise last


def _print_entry(name: str, text: str) -> None:
    """Print a name, and a text beside it: in one line, in a terminal in as many as it needs."""
    room = max(terminal_columns(_ONE_LINE) - _NAME - 3, _NARROWEST)
    first, *others = wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    emit(f"  {name:<{_NAME}} {first}".rstrip())
    for line in others:
        emit(" " * (_NAME + 3) + line)


def _summarize(kind: type) -> str:
    """Return the first line of the docstring of a class; empty if it has none."""
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def find_location(thing: Any) -> str:
    """Return the file and line where a module, class or function is defined; of an instance, where its class is."""
    if callable(thing):
        inner = getattr(thing, "func", None)  # of a partial function, or a profiler's function
        thing = inspect.unwrap(inner if callable(inner) else thing)
    if not (inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isroutine(thing)):
        thing = type(thing)
    try:
        file = inspect.getsourcefile(thing)
        line = 1 if inspect.ismodule(thing) else inspect.getsourcelines(thing)[1]
    except (TypeError, OSError):
        return "location unknown"
    return f"{file}:{line}"
