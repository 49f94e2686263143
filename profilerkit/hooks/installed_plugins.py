"""The plugins of installed packages: found by their entry points, imported, and registered with a manager."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..errors import by_likeness
from ..process.containment import plugin_error_text
from .hook_manager import Manager
from .plugin_info import DISABLE, GROUP, PluginInfo, normal_name, tolerate, warn

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

__all__ = ["load_installed", "rank"]


#: What reading a damaged file of a package raises, by the version of Python.
_DAMAGE = (AttributeError, LookupError, OSError, TypeError, ValueError)


class _Imported(NamedTuple):
    """A plugin that is imported, and the name by which no other is registered."""

    name: str
    info: PluginInfo
    plugin: object


def load_installed(manager: Manager, is_own_only: bool) -> None:
    """Load all plugins that are not disabled, or profilerkit's own alone; a broken one is left out, with a warning.

    Own plugins come first, the core before all, then the others by name: the order of installers has no meaning.
    """
    plugins = _list_installed()
    disabled = [name for name in map(normal_name, os.environ.get(DISABLE, "").split(",")) if name]
    imported: list[_Imported] = []
    for info in plugins:
        if (is_own_only and not info.is_own) or not info.names_to_disable.isdisjoint(disabled):
            manager.switched_off.append(info)
            continue
        with _tolerate(info, "the loading"):
            imported.append(_import(info, imported))
    # pluggy calls first what is registered last, but own plugins before others: they are ``tryfirst``. Others may be
    # ``tryfirst`` too, and come before own plugins then: they are registered later.
    ours = [item for item in imported if item.info.is_own]
    others = [item for item in imported if not item.info.is_own]
    for name, info, plugin in (*reversed(ours), *reversed(others)):
        with _tolerate(info, "the registration"):
            if manager.register_from(info, plugin, name) is None:
                manager.switched_off.append(info)  # the name is blocked by code
    _warn_of_unknown(disabled, {name for info in plugins for name in info.names_to_disable})


def rank(info: PluginInfo) -> tuple[object, ...]:
    """Return the place of a plugin in the order in which plugins are loaded and listed."""
    return not info.is_own, info.distribution, info.name != "core", info.name


def _list_installed() -> list[PluginInfo]:
    """Return the plugins of all packages in the order in which they are loaded."""
    plugins = sorted(_read_entry_points(), key=rank)
    counts = Counter(name for info in plugins for name in info.names_to_disable)
    return [replace(info, is_ambiguous=counts[normal_name(info.name)] > 1) for info in plugins]


def _read_entry_points() -> Iterator[PluginInfo]:
    """Yield the plugins of all packages; the name and the version of each package are read once, which is slow."""
    packages: dict[int, tuple[str, str]] = {}
    for point in _find_entry_points():
        if id(point.dist) not in packages:
            packages[id(point.dist)] = _read_package(point.dist)
        yield PluginInfo(point.name, point.value, *packages[id(point.dist)])


def _find_entry_points() -> Iterable[EntryPoint]:
    """Return our entry points; a damaged file of any package keeps Python from finding those of all others."""
    from importlib.metadata import entry_points  # slow to import, and needed only once a plugin is

    try:
        return entry_points(group=GROUP)
    except _DAMAGE:
        return _find_undamaged()


def _find_undamaged() -> Iterator[EntryPoint]:
    """Yield the entry points of each package, the first on the path of a name; warn of those that cannot be read."""
    from importlib.metadata import distributions

    names: set[str] = set()
    for distribution in distributions():
        package = _read_package(distribution)[0]
        if package and normal_name(package) in names:
            continue
        names.add(normal_name(package))
        try:
            yield from distribution.entry_points.select(group=GROUP)
        except _DAMAGE as error:
            of = package or "an unknown package"
            problem = f"the file entry_points.txt of {of} cannot be read ({plugin_error_text(error)})"
            warn(f"{problem}: if it has plugins, they are left out; reinstall or uninstall that package")


def _read_package(distribution: Distribution | None) -> tuple[str, str]:
    """Return the name and the version of a package; empty texts if its METADATA is missing or damaged."""
    if distribution is None:
        return "", ""
    try:
        return distribution.name or "", distribution.version or ""
    except _DAMAGE:
        return "", ""


def _import(info: PluginInfo, earlier: Sequence[_Imported]) -> _Imported:
    """Import a plugin, under a name that none of the earlier ones has; raises for one that is imported already."""
    from importlib.metadata import EntryPoint

    plugin = EntryPoint(info.name, info.module, GROUP).load()
    for other in earlier:
        if other.plugin == plugin:
            raise ValueError(f"it is the same as plugin {other.info}")
    is_taken = any(other.name == info.name for other in earlier)
    return _Imported(f"{info.name} ({info.distribution})" if is_taken else info.name, info, plugin)


def _tolerate(info: PluginInfo, doing: str) -> AbstractContextManager[None]:
    """Warn of an error in the block: "plugin 'x' of y cannot be loaded (the error) and is left out; ..."."""
    before, after = f"plugin {info} cannot be loaded (", ") and is left out; update or uninstall that package"
    return tolerate(info, doing, after, before=before)


def _warn_of_unknown(disabled: Iterable[str], names: Collection[str]) -> None:
    """Warn of names in the environment variable that disable no plugin."""
    for name in disabled:
        if name not in names:
            listing = ", ".join(by_likeness(name, names)) or "none"
            warn(f"{DISABLE} names {name!r}, which is no plugin; installed, nearest first: {listing}")
