"""The plugins of installed packages: found by their entry points, imported, and registered with a manager."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..errors import by_likeness
from .hook_manager import Manager
from .sources import DISABLE, GROUP, PluginInfo, normal_name, tolerate, warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["InstalledPlugins"]


class _Installed(NamedTuple):
    """An entry point, and the name and version of its package; empty where it is of none."""

    point: EntryPoint
    package: str
    version: str

    @property
    def distribution(self) -> str:
        """The package with its version, in words."""
        return f"{self.package} {self.version}" if self.package else "an unknown package"

    @property
    def is_own(self) -> bool:
        """Whether it is one of profilerkit's own."""
        return normal_name(self.package) == GROUP

    @property
    def names(self) -> list[str]:
        """The names that it can be disabled by: its own, and that of its package."""
        return [normal_name(name) for name in (self.point.name, self.package) if name]


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
        plugins = sorted(
            _list_installed(),
            key=lambda plugin: (not plugin.is_own, plugin.distribution, plugin.point.name != "core", plugin.point.name),
        )
        disabled = [name for name in map(normal_name, os.environ.get(DISABLE, "").split(",")) if name]
        counts = Counter(name for plugin in plugins for name in set(plugin.names))
        imported: list[_Imported] = []
        for plugin in plugins:
            point = plugin.point
            is_ambiguous = counts[normal_name(point.name)] > 1
            info = PluginInfo(point.name, point.value, plugin.distribution, is_ambiguous)
            if (is_own_only and not plugin.is_own) or not set(plugin.names).isdisjoint(disabled):
                self.switched_off.append(info)
            else:
                self._import(point, info, imported)
        # pluggy calls the plugin first that was registered last, so each group is called in the order of its names. Own
        # plugins are ``tryfirst``: they are called before all others, except for others that are ``tryfirst`` too.
        imported.reverse()
        for loaded in sorted(imported, key=lambda plugin: not plugin.info.is_own):
            self._register(loaded)
        _warn_of_unknown(disabled, dict.fromkeys(name for plugin in plugins for name in plugin.names))

    def _import(self, point: EntryPoint, info: PluginInfo, imported: list[_Imported]) -> None:
        """Import a plugin and append it to ``imported``, under a name of its own."""
        name = info.name if info.name not in self.loaded else f"{info.name} ({info.distribution})"
        with _tolerate(info, "the loading"):
            plugin = point.load()
            for other in imported:
                if other.plugin == plugin:
                    raise ValueError(f"it is the same as plugin {other.info}")
            self.loaded[name] = info
            imported.append(_Imported(name, info, plugin))

    def _register(self, imported: _Imported) -> None:
        name, info, plugin = imported
        with _tolerate(info, "the registration"):
            if self.manager.register_from(info, plugin, name) is not None:
                return
            self.switched_off.append(info)  # the name is blocked by code
        del self.loaded[name]


def _tolerate(info: PluginInfo, doing: str) -> tolerate:
    after = ") and is left out; update or uninstall that package"
    return tolerate(info, doing, f"plugin {info} cannot be loaded (", after)


def _warn_of_unknown(disabled: Iterable[str], names: Collection[str]) -> None:
    """Warn of names in the environment variable that disable no plugin."""
    for name in disabled:
        if name not in names:
            listing = ", ".join(by_likeness(name, names)) or "none"
            warn(f"{DISABLE} names {name!r}, which is no plugin; installed, nearest first: {listing}")


def _list_installed() -> Iterator[_Installed]:
    """Yield the plugins of all packages; the name and the version of each package are read once, which is slow."""
    from importlib.metadata import entry_points  # slow to import, and needed only once a plugin is

    packages: dict[int, tuple[str, str]] = {}
    for point in entry_points(group=GROUP):
        if point.dist is None:
            yield _Installed(point, "", "")
            continue
        if id(point.dist) not in packages:
            packages[id(point.dist)] = point.dist.name, point.dist.version
        yield _Installed(point, *packages[id(point.dist)])
