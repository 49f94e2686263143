"""The plugins of installed packages: found by their entry points, imported, and registered with a manager."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ..errors import by_likeness
from .hook_manager import Manager
from .sources import DISABLE, GROUP, PluginInfo, normal_name, tolerate, warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["InstalledPlugins"]


class _Installed(NamedTuple):
    """An entry point, and whose it is."""

    point: EntryPoint
    info: PluginInfo


class _Imported(NamedTuple):
    """A plugin that is imported, and the name by which no other is registered."""

    name: str
    info: PluginInfo
    plugin: object


@dataclass
class InstalledPlugins:
    """The installed plugins: those that are loaded, by the name in the manager, and those that are switched off."""

    manager: Manager = field(default_factory=Manager)
    loaded: dict[str, PluginInfo] = field(default_factory=dict)
    switched_off: list[PluginInfo] = field(default_factory=list)

    def load_all(self, is_own_only: bool) -> None:
        """Load all plugins that are not disabled, or profilerkit's own alone; a broken one is left out, with a warning.

        Own plugins come first, the core before all, then the others by name: the order of installers has no meaning.
        """
        plugins = _list_installed()
        disabled = [name for name in map(normal_name, os.environ.get(DISABLE, "").split(",")) if name]
        imported: list[_Imported] = []
        for plugin in plugins:
            info = plugin.info
            if (is_own_only and not info.is_own) or not info.names_to_disable.isdisjoint(disabled):
                self.switched_off.append(info)
                continue
            with _tolerate(info, "the loading"):
                imported.append(_import(plugin, imported))
        self.loaded = {plugin.name: plugin.info for plugin in imported}
        for plugin_to_register in _sort_for_registration(imported):
            self._register(plugin_to_register)
        _warn_of_unknown(disabled, {name for plugin in plugins for name in plugin.info.names_to_disable})

    def _register(self, imported: _Imported) -> None:
        name, info, plugin = imported
        with _tolerate(info, "the registration"):
            if self.manager.register_from(info, plugin, name) is not None:
                return
            self.switched_off.append(info)  # the name is blocked by code
        del self.loaded[name]


def _list_installed() -> list[_Installed]:
    """Return the plugins of all packages in the order in which they are loaded."""
    plugins = sorted(_read_entry_points(), key=_rank)
    counts = Counter(name for plugin in plugins for name in plugin.info.names_to_disable)
    return [
        plugin._replace(info=replace(plugin.info, is_ambiguous=counts[normal_name(plugin.info.name)] > 1))
        for plugin in plugins
    ]


def _rank(plugin: _Installed) -> tuple[object, ...]:
    info = plugin.info
    return not info.is_own, info.distribution, info.name != "core", info.name


def _read_entry_points() -> Iterator[_Installed]:
    """Yield the plugins of all packages; the name and the version of each package are read once, which is slow."""
    from importlib.metadata import entry_points  # slow to import, and needed only once a plugin is

    packages: dict[int, tuple[str, str]] = {}
    for point in entry_points(group=GROUP):
        package, version = "", ""
        if point.dist is not None:
            if id(point.dist) not in packages:
                packages[id(point.dist)] = point.dist.name, point.dist.version
            package, version = packages[id(point.dist)]
        yield _Installed(point, PluginInfo(point.name, point.value, package, version))


def _import(plugin: _Installed, earlier: Sequence[_Imported]) -> _Imported:
    """Import a plugin, under a name that none of the earlier ones has; raises for one that is imported already."""
    info = plugin.info
    imported = plugin.point.load()
    for other in earlier:
        if other.plugin == imported:
            raise ValueError(f"it is the same as plugin {other.info}")
    is_taken = any(other.name == info.name for other in earlier)
    return _Imported(f"{info.name} ({info.distribution})" if is_taken else info.name, info, imported)


def _sort_for_registration(imported: Sequence[_Imported]) -> list[_Imported]:
    """Return plugins in the order in which they are registered, for pluggy calls the one first that came last.

    Each group is called in the order of its names. Own plugins are ``tryfirst``: they are called before all others,
    except for others that are ``tryfirst`` too.
    """
    last_first = imported[::-1]
    return sorted(last_first, key=lambda plugin: not plugin.info.is_own)


def _tolerate(info: PluginInfo, doing: str) -> tolerate:
    after = ") and is left out; update or uninstall that package"
    return tolerate(info, doing, f"plugin {info} cannot be loaded (", after)


def _warn_of_unknown(disabled: Iterable[str], names: Collection[str]) -> None:
    """Warn of names in the environment variable that disable no plugin."""
    for name in disabled:
        if name not in names:
            listing = ", ".join(by_likeness(name, names)) or "none"
            warn(f"{DISABLE} names {name!r}, which is no plugin; installed, nearest first: {listing}")
