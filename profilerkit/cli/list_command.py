"""``profilerkit list``: what plugins offer, section by section."""

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
from ..hooks.plugin_info import PluginInfo
from ..piping.function import describe
from ..process.clean_output import terminal_columns
from .examining import examine_by_loading, examine_without_import
from .printing import emit, say

if TYPE_CHECKING:
    from ..backend import Backend

__all__ = ["command", "find_location"]

#: The columns of names, which the longest name of ours fills, and the fewest of texts.
_NAME, _NARROWEST = 26, 24
#: The columns of output that is no terminal: a program reads an entry a line.
_ONE_LINE = 100_000


class _Entry(NamedTuple):
    """A line of the list; with ``--verbose`` a line below it says which plugin it is of, and where ``thing`` is."""

    name: str
    text: str
    plugin: PluginInfo | None = None
    thing: Any = None


@click.command("list", help="List what plugins offer, and the package each comes from.")
@click.option("-v", "--verbose", is_flag=True, help="Also show the plugin, package, file and line of each entry.")
def command(verbose: bool) -> None:
    """Print the offers of all plugins; a backend's error stands in its line, conflicts are reported at the end."""
    conflicts: list[RegistrationConflictError] = []
    backends: dict[str, Backend] = {}  # the first of several with one name

    def list_backends() -> Iterator[_Entry]:
        for offer in list_infos(BackendInfo):
            is_quick = not verbose and offer.item.installed is not None
            backend, line, conflict = (examine_without_import if is_quick else examine_by_loading)(offer)
            if backend is not None:
                backends.setdefault(backend.name, backend)
            conflicts.extend([conflict] if conflict is not None else [])
            yield _Entry(offer.item.name, line, offer.plugin, offer.item.load)

    emit("Plugins", bold=True)
    _print_entries(_list_plugins(), verbose)
    _print_section("Backends", list_backends(), verbose)
    if verbose:
        for backend in backends.values():
            _print_section(f"Functions for the {backend.name} backend", _list_functions(backend), verbose)
    _print_section("Status keys", _list_keys(), verbose)
    _print_section("Renderers", _list_named(RendererInfo, lambda info: info.is_text), verbose)
    _print_section("Model loaders", _list_named(LoaderInfo), verbose)
    if verbose:
        for backend in backends.values():
            if formulas := list(_list_formulas(backend)):
                _print_section(f"Cost formulas of plugins for the {backend.name} backend", formulas, verbose)
    _raise_conflicts([*conflicts, *_find_conflicts(backends.values())])


def _list_plugins() -> Iterator[_Entry]:
    registered: set[str] = set()
    for plugin in list_plugins():
        # Of several plugins with one name, all but the first are registered with the names of their packages.
        name = f"{plugin.name} ({plugin.distribution})" if plugin.name in registered else plugin.name
        registered.add(name)
        yield _Entry(plugin.name, f"{plugin.distribution}  ({plugin.module})", thing=manager().get_plugin(name))
    for plugin in list_disabled_plugins():
        yield _Entry(plugin.name, f"{plugin.distribution}  ({plugin.module}), switched off")


def _list_functions(backend: Backend) -> Iterator[_Entry]:
    for offer in offers.list_profiler_functions(backend):
        keys = ", ".join(key.NAME for key in offer.item.list_keys())
        yield _Entry(describe(offer.item), keys, offer.plugin, offer.item)


def _list_keys() -> Iterator[_Entry]:
    for offer in offers.list_declared_keys():
        aliases = f" Also: {', '.join(offer.item.ALIASES)}." if offer.item.ALIASES else ""
        summary = (inspect.getdoc(offer.item) or "").partition("\n")[0]
        yield _Entry(offer.item.NAME, f"{summary}{aliases}", offer.plugin, offer.item)


def _list_named(kind: Any, is_wanted: Callable[[Any], bool] = lambda info: True) -> Iterator[_Entry]:
    """Yield the offers of a kind that have a name, a description and a function that loads them."""
    for offer in list_infos(kind):
        if is_wanted(offer.item):
            yield _Entry(offer.item.name, offer.item.description, offer.plugin, offer.item.load)


def _list_formulas(backend: Backend) -> Iterator[_Entry]:
    for plugin, costs in op_costs(backend):
        for op, formula in costs.items():
            name = op.__qualname__ if isinstance(op, type) else str(op)
            where = f"{formula.__module__}:{getattr(formula, '__qualname__', formula)}"
            yield _Entry(name, where, plugin, formula)


def _find_conflicts(backends: Iterable[Backend]) -> Iterator[RegistrationConflictError]:
    """Yield the conflicts of plugins that offer the same: a name of any kind, or a status key."""
    kinds: Sequence[type[Any]] = (BackendInfo, RendererInfo, LoaderInfo)
    uses: list[Callable[[], object]] = [
        *(partial(find_offer, kind, offer.item.name) for kind in kinds for offer in list_infos(kind)),
        *(partial(offers.default_functions, backend) for backend in backends),
        offers.list_status_keys,
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


# Printing -------------------------------------------------------------------------------------------------------------


def _print_section(title: str, entries: Iterable[_Entry], verbose: bool) -> None:
    emit(f"\n{title}", bold=True)
    _print_entries(entries, verbose)


def _print_entries(entries: Iterable[_Entry], verbose: bool) -> None:
    for name, text, plugin, thing in entries:
        _print_entry(name, text)
        if verbose and plugin is not None:
            _print_entry("", f"  plugin {plugin}, {find_location(thing)}")
        elif verbose and thing is not None:
            _print_entry("", f"  {find_location(thing)}")


def _print_entry(name: str, text: str) -> None:
    """Print a name, and a text beside it: in one line, in a terminal in as many as it needs."""
    room = max(terminal_columns(_ONE_LINE) - _NAME - 3, _NARROWEST)
    first, *others = wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    emit(f"  {name:<{_NAME}} {first}".rstrip())
    for line in others:
        emit(" " * (_NAME + 3) + line)


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
