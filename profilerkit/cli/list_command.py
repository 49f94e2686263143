"""``profilerkit list``."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ..errors import RegistrationConflictError
from ..hooks import offers
from ..hooks.backend_additions import op_costs
from ..hooks.infos import Named
from ..hooks.manager import find_offer, list_disabled_plugins, list_infos, list_plugins, manager
from ..process.clean_output import terminal_columns
from .examining import examine_by_loading, examine_without_import
from .printing import emit, say

if TYPE_CHECKING:
    from ..backend import Backend
    from ..hooks.plugin_info import Offer, PluginInfo
    from ..piping.status import StatusKey

__all__ = ["command", "find_location"]

InfoT = TypeVar("InfoT", bound=Named)

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
    usable = listing.print_backends()
    for backend in usable:
        listing.print_functions(backend)
    if usable and not verbose:
        listing.print_keys(usable)
    else:
        listing.print_declared_keys()
    listing.print_renderers_and_loaders()
    if verbose:
        for backend in usable:
            listing.print_formulas(backend)
    listing.raise_conflict()


class _ComputedKey(NamedTuple):
    """A status key that a function computes, the plugin that offers the function, and the backends it is for."""

    key: StatusKey
    plugin: PluginInfo
    backends: list[str]


class _Listing:
    """Prints section by section; ``verbose`` adds a line below each entry that says where it comes from."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.has_sections = False
        #: Conflicts to report at the end, by their text: several sections meet the same one.
        self.conflicts: dict[str, RegistrationConflictError] = {}
        #: The status keys that functions compute, by name and plugin.
        self.keys: dict[tuple[str, str], _ComputedKey] = {}

    def list_named(self, kind: type[InfoT]) -> list[Offer[InfoT]]:
        """Return the offers of a kind; if plugins offer the same name, note the conflict."""
        offered = list_infos(kind)
        for name in dict.fromkeys(offer.item.name for offer in offered):
            with self.note_conflict():
                find_offer(kind, name)
        return offered

    @contextmanager
    def note_conflict(self) -> Iterator[None]:
        """Note a conflict of two plugins that ends the block."""
        try:
            yield
        except RegistrationConflictError as error:
            self.conflicts.setdefault(str(error), error)

    def raise_conflict(self) -> None:
        """Say all conflicts; the last one by raising it, for the exit code."""
        if self.conflicts:
            *others, last = self.conflicts.values()
            for error in others:
                say(f"Error: {error}")
            raise last

    def print_title(self, text: str) -> None:
        emit(f"\n{text}" if self.has_sections else text, bold=True)
        self.has_sections = True

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
        self.print_title("Plugins")
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

    def print_backends(self) -> list[Backend]:
        """Print the backends and return those that can be used here; the first of several with one name.

        A backend that names the packages it needs is not imported unless its versions are requested.
        """
        from ..hooks.infos import BackendInfo

        offered = self.list_named(BackendInfo)
        self.print_title("Backends")
        usable: dict[str, Backend] = {}
        for offer in offered:
            is_quick = not self.verbose and offer.item.installed is not None
            examine = examine_without_import if is_quick else examine_by_loading
            examined = examine(offer)
            if examined.conflict is not None:
                self.conflicts.setdefault(str(examined.conflict), examined.conflict)
            if examined.backend is not None:
                usable.setdefault(examined.backend.name, examined.backend)
            self.print_line(offer.item.name, examined.line, offer.plugin, offer.item.load)
        return list(usable.values())

    def print_functions(self, backend: Backend) -> None:
        """Note which status keys the functions for a backend compute; print these functions if that is requested."""
        from ..piping.function import describe

        with self.note_conflict():  # two plugins may claim one key
            offers.default_functions(backend)
        if self.verbose:
            self.print_title(f"Functions for the {backend.name} backend")
        for offer in offers.list_profiler_functions(backend):
            keys = offer.item.list_keys()
            if self.verbose:
                self.print_line(describe(offer.item), ", ".join(key.NAME for key in keys), offer.plugin, offer.item)
            for key in keys:
                computed = self.keys.setdefault((key.NAME, str(offer.plugin)), _ComputedKey(key, offer.plugin, []))
                computed.backends.append(backend.name)

    def print_keys(self, usable: list[Backend]) -> None:
        """Print each status key that functions compute, and the backends that it is for, unless it is for all."""
        self.print_title("Status keys")
        for key, plugin, backends in self.keys.values():
            text = _summarize(type(key))
            if key.ALIASES:
                text += f" Also: {', '.join(key.ALIASES)}."
            if len(backends) < len(usable):
                text += f" (for {', '.join(backends)})"
            self.print_line(key.NAME, text, plugin)

    def print_declared_keys(self) -> None:
        """Print each status key that plugins declare, whether or not a function here computes it."""
        with self.note_conflict():
            offers.list_status_keys()
        self.print_title("Status keys")
        for offer in offers.list_declared_keys():
            self.print_line(offer.item.NAME, _summarize(offer.item), offer.plugin, offer.item)

    def print_renderers_and_loaders(self) -> None:
        from ..hooks.infos import LoaderInfo, RendererInfo

        self.print_section("Renderers", [offer for offer in self.list_named(RendererInfo) if offer.item.is_text])
        self.print_section("Model loaders", self.list_named(LoaderInfo))

    def print_formulas(self, backend: Backend) -> None:
        formulas = [(plugin, op, formula) for plugin, costs in op_costs(backend) for op, formula in costs.items()]
        if formulas:
            self.print_title(f"Cost formulas of plugins for the {backend.name} backend")
        for plugin, op, formula in formulas:
            name = op.__qualname__ if isinstance(op, type) else str(op)
            self.print_line(name, f"{formula.__module__}:{getattr(formula, '__qualname__', formula)}", plugin, formula)


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
